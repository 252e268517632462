"""News about tasks on their way to the owner."""

from itertools import pairwise

import pytest
import trio

from elwood.agent.channels.client import TellOwner, post_until_delivered
from elwood.agent.channels.messages import (
    Button,
    OutboxMail,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.markdown import Rich

PLACES = (Route("chat", 1), Route("chat", 2))


@pytest.mark.parametrize(
    ("answers", "arrived", "posts"),
    [
        ((Sent("1"),), True, 1),
        ((Unsent("no net"), Sent("1")), True, 2),
        ((Undeliverable("blocked"),), False, 1),
    ],
)
async def test_news_go_to_the_owner_with_buttons(
    answers: tuple[Sent | Unsent | Undeliverable, ...],
    arrived: bool,
    posts: int,
    autojump_clock: object,
) -> None:
    box, heard, left = Mailbox[OutboxMail]("outbox", 4), list[Post](), list(answers)

    async def outbox() -> None:
        async for message in box:
            assert isinstance(message, Post)
            heard.append(message)
            message.reply.set(left.pop(0))

    tell = TellOwner({"chat": box.address}, lambda: PLACES, str)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox)
        assert await tell("It failed.", ("/tasks resume t",), True) == arrived
        nursery.cancel_scope.cancel()

    assert len(heard) == posts
    assert {post.route.chat for post in heard} == {1}
    assert heard[0].buttons == (Button("/tasks resume t", "c:0"),)
    assert heard[0].repeat


async def test_news_that_did_not_arrive_follow_the_owner(autojump_clock: object) -> None:
    """They may have arrived where the owner was before, so they are marked."""
    box, heard, places = Mailbox[OutboxMail]("outbox", 4), list[Post](), list(PLACES)

    async def outbox() -> None:
        async for message in box:
            assert isinstance(message, Post)
            heard.append(message)
            if message.route == PLACES[0]:
                places.reverse()
                message.reply.set(Unsure("no answer"))
            else:
                message.reply.set(Sent("1"))

    tell = TellOwner({"chat": box.address}, lambda: places, str)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox)
        assert await tell("It failed.")
        nursery.cancel_scope.cancel()
    assert [(post.route.chat, post.repeat) for post in heard] == [(1, False), (2, True)]


async def test_without_a_place_the_log_has_them(caplog: pytest.LogCaptureFixture) -> None:
    assert await TellOwner({}, tuple, str)("It failed.", (), False)
    assert "nowhere to tell" in caplog.text


@pytest.mark.parametrize(
    ("answers", "repeats"),
    [
        ((Unsent("away"), Sent("1")), [False, False]),
        ((Unsure("cut"), Unsent("away"), Sent("1")), [False, True, True]),
        ((None, Sent("1")), [False, True]),  # nobody answers in time
        ((Undeliverable("blocked"),), [False]),
    ],
)
async def test_what_may_have_arrived_is_marked_as_a_repeat(
    answers: tuple[PostResult | None, ...], repeats: list[bool], autojump_clock: object
) -> None:
    box, heard, left = Mailbox[OutboxMail]("outbox", 4), list[Post](), list(answers)

    async def outbox() -> None:
        async for message in box:
            assert isinstance(message, Post)
            heard.append(message)
            if (answer := left.pop(0)) is not None:
                message.reply.set(answer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox)
        await post_until_delivered({"chat": box.address}, PLACES[0], (Rich("hi"),))
        nursery.cancel_scope.cancel()

    assert [post.repeat for post in heard] == repeats


async def test_the_pauses_between_tries_double_to_a_minute(autojump_clock: object) -> None:
    box, tries = Mailbox[OutboxMail]("outbox", 4), list[float]()

    async def outbox() -> None:
        async for message in box:
            assert isinstance(message, Post)
            tries.append(trio.current_time())
            assert len(tries) < 20, "it does not pause"
            message.reply.set(Unsent("away"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox)
        with trio.move_on_after(190):
            await post_until_delivered({"chat": box.address}, PLACES[0], (Rich("hi"),))
        nursery.cancel_scope.cancel()

    pauses = [round(b - a) for a, b in pairwise(tries)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
