"""Delivery of task news to the owner."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
from elwood.foundation.runtime import Address, Mailbox
from elwood.foundation.text.markdown import Rich

pytestmark = pytest.mark.usefixtures("virtual_time")
PLACES = (Route("chat", "1"), Route("chat", "2"))


@asynccontextmanager
async def run_outbox(
    answer: Callable[[Post], PostResult | None],
) -> AsyncIterator[tuple[dict[str, Address[OutboxMail]], list[Post]]]:
    """Answer every post of the channel "chat" with *answer*; with None, do not answer."""
    box, heard = Mailbox[OutboxMail]("outbox", 4), list[Post]()

    async def run() -> None:
        async for message in box:
            assert isinstance(message, Post)
            heard.append(message)
            assert len(heard) < 20, "it does not pause"
            if (result := answer(message)) is not None:
                message.reply.set(result)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield {"chat": box.address}, heard
        nursery.cancel_scope.cancel()


async def test_news_reach_the_owner_with_buttons() -> None:
    async with run_outbox(lambda post: Sent("1")) as (boxes, heard):
        assert await TellOwner(boxes, lambda: PLACES, str)("It failed.", ("/tasks resume t",), True)
    [post] = heard
    assert (post.route, post.repeat) == (PLACES[0], True)
    assert post.buttons == (Button("/tasks resume t", "c:0"),)


async def test_undelivered_news_follow_the_owner() -> None:
    """They may have arrived on the owner's earlier route, so they are marked."""
    places = list(PLACES)

    def answer(post: Post) -> PostResult:
        if post.route == PLACES[1]:
            return Sent("1")
        places.reverse()
        return Unsure("no answer")

    async with run_outbox(answer) as (boxes, heard):
        assert await TellOwner(boxes, lambda: places, str)("It failed.")
    assert [(post.route.chat, post.repeat) for post in heard] == [("1", False), ("2", True)]


async def test_a_blocked_route_falls_back_to_the_next() -> None:
    def answer(post: Post) -> PostResult:
        return Undeliverable("blocked") if post.route == PLACES[0] else Sent("1")

    async with run_outbox(answer) as (boxes, heard):
        assert await TellOwner(boxes, lambda: PLACES, str)("It failed.")
    assert [(post.route.chat, post.repeat) for post in heard] == [("1", False), ("2", False)]


async def test_without_a_route_news_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert await TellOwner({}, tuple, str)("It failed.", (), False)
    assert "no route for a notice" in caplog.text


@pytest.mark.parametrize(
    ("answers", "repeats", "arrived"),
    [
        ((Unsent("away"), Sent("1")), [False, False], True),
        ((Unsure("cut"), Unsent("away"), Sent("1")), [False, True, True], True),
        ((None, Sent("1")), [False, True], True),  # the outbox does not answer in time
        ((Undeliverable("blocked"),), [False], False),
    ],
)
async def test_news_that_may_have_arrived_are_marked(
    answers: tuple[PostResult | None, ...], repeats: list[bool], arrived: bool
) -> None:
    left = list(answers)
    async with run_outbox(lambda post: left.pop(0)) as (boxes, heard):
        assert bool(await post_until_delivered(boxes, PLACES[0], (Rich("hi"),))) == arrived
        left = list(answers)
        assert await TellOwner(boxes, lambda: PLACES[:1], str)("It failed.") == arrived
    assert [post.repeat for post in heard] == repeats * 2


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Unsent("away"), [0.5, 1, 2, 4, 4, 4]), (Unsure("no answer"), [0.5, 1, 2, 4, 8, 10, 10])],
)
async def test_retry_delays_are_bounded(outcome: PostResult, expected: list[float]) -> None:
    tries = list[float]()

    def answer(post: Post) -> PostResult:
        tries.append(trio.current_time())
        return outcome

    async with run_outbox(answer) as (boxes, _):
        with trio.move_on_after(sum(expected) + 1):
            await post_until_delivered(boxes, PLACES[0], (Rich("hi"),))
    assert [b - a for a, b in pairwise(tries)] == pytest.approx(expected)
