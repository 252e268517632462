"""Replies to refused senders: one per chat, for a bounded number of chats."""

import pytest
import trio

from elwood.agent.channels.client import MAX_NOTICED, IntakeReplies
from elwood.agent.channels.messages import OutboxMail, Post, Sent
from elwood.agent.conversation.inbound import Busy, NotNow
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Mailbox

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.mark.parametrize("refusal", [Busy(20), NotNow("the disk is full")])
async def test_the_oldest_reply_is_forgotten(refusal: Busy | NotNow) -> None:
    box, told = Mailbox[OutboxMail]("outbox", 4), list[int]()

    async def run() -> None:
        async for message in box:
            assert isinstance(message, Post)
            told.append(int(message.route.chat))
            message.reply.set(Sent("1"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        replies = IntakeReplies(box.address)

        async def refuse(chat: int) -> None:
            await replies.report_refusal(refusal, 1, Route("chat", str(chat)))

        chats = list(range(MAX_NOTICED + 1))
        for chat in chats:
            await refuse(chat)
        await refuse(1)  # the oldest notice that is remembered
        assert told == chats
        await refuse(0)
        assert told == [*chats, 0]
        nursery.cancel_scope.cancel()
