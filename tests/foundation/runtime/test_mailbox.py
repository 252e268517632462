"""Mailboxes outlive actors; a crash loses the current message, never the queue."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from elwood.foundation.runtime import (
    ActorDown,
    ActorUnavailable,
    AskedUpward,
    Child,
    Mailbox,
    PoolPolicy,
    RestartPolicy,
    run_pool,
)
from tests.foundation.runtime.scene import Say, Scene, make_child, run_app

ENDLESS = RestartPolicy(max_crashes=None, first_delay=1.0)


class Bug(Exception):
    """A programming error in a body."""


async def fragile(mailbox: Mailbox[Any]) -> None:
    """Echo, but crash on the word "bug"."""
    async for message in mailbox:
        if message.word == "bug":
            raise Bug
        message.reply.set(message.word)


async def test_the_queue_survives_a_crash_in_order(autojump_clock: object) -> None:
    seen: list[str] = []

    async def body(mailbox: Mailbox[str]) -> None:
        async for message in mailbox:
            seen.append(message)
            if message == "bug":
                raise Bug

    it = make_child("it", body, ENDLESS)
    for message in ("one", "bug", "two", "bug", "three"):
        assert it.mailbox.address.offer(message)
    async with run_app(it):
        await trio.sleep(10)
        assert seen == ["one", "bug", "two", "bug", "three"]
        assert it.mailbox.depth == 0


async def test_a_crash_fails_every_unanswered_request(autojump_clock: object) -> None:
    """All requests in progress fail; answered and queued ones do not."""
    results: dict[str, str] = {}

    async def body(mailbox: Mailbox[Say]) -> None:
        async with trio.open_nursery() as nursery:
            async for message in mailbox:
                nursery.start_soon(work, message)

    async def work(message: Say) -> None:
        if message.word == "quick":
            message.reply.set(message.word)
        await trio.sleep(1)
        if message.word == "bug":
            raise Bug
        await trio.sleep_forever()

    it = make_child("it", body, ENDLESS)

    async def ask(key: str, word: str) -> None:
        try:
            results[key] = await it.mailbox.address.ask(Say(word=word))
        except ActorUnavailable as error:
            results[key] = type(error).__name__

    async with run_app(it), trio.open_nursery() as nursery:
        for key, word in (("a", "quick"), ("b", "slow"), ("c", "slow"), ("d", "bug")):
            nursery.start_soon(ask, key, word)
        await trio.sleep(1.5)
        crashed = dict.fromkeys("bcd", "ActorCrashed")
        assert results == {"a": "quick"} | crashed


async def test_a_restarting_actor_refuses_ask_and_queues_tell(autojump_clock: object) -> None:
    it = make_child("it", fragile, ENDLESS)
    async with run_app(it):
        it.mailbox.address.offer(Say(word="bug"))
        await trio.sleep(0.5)  # it restarts after one second
        before = trio.current_time()
        with pytest.raises(ActorDown):
            await it.mailbox.address.ask(Say())
        assert trio.current_time() == before
        told = Say(word="told")
        await it.mailbox.address.tell(told)
        assert it.mailbox.depth == 1
        assert await told.reply.wait() == "told"
        assert trio.current_time() == before + 0.5


async def test_insist_asks_again_after_the_restart(autojump_clock: object) -> None:
    made: list[float] = []
    begun = 0

    async def body(mailbox: Mailbox[Say]) -> None:
        nonlocal begun
        begun += 1
        async for message in mailbox:
            if begun < 3:
                raise Bug
            message.reply.set(message.word)

    def make() -> Say:
        made.append(trio.current_time())
        return Say(word="delivered")

    it = make_child("it", body, ENDLESS)
    async with run_app(it) as scene:
        assert await it.mailbox.address.insist(make) == "delivered"
        assert made == scene.starts("it"), "asked in the moment of each start"


@pytest.mark.parametrize("leave", [Mailbox.end, Mailbox.close], ids=["away", "draining"])
async def test_insist_retries_every_five_seconds(
    leave: Callable[[Mailbox[Say]], None], autojump_clock: object
) -> None:
    """Also while its body drains: then it is neither running nor restarting."""
    made: list[float] = []

    def make() -> Say:
        made.append(trio.current_time())
        return Say()

    mailbox = Mailbox[Say]("it", 1)
    leave(mailbox)
    start = trio.current_time()
    with trio.move_on_after(12):
        await mailbox.address.insist(make)
    assert [at - start for at in made] == [0, 5, 10]


async def test_an_actor_sees_an_abandoned_request(autojump_clock: object) -> None:
    noticed: list[float] = []

    async def body(mailbox: Mailbox[Say]) -> None:
        async for message in mailbox:
            with message.reply.while_wanted():
                await trio.sleep_forever()
            noticed.append(trio.current_time())
            assert message.reply.is_settled
            message.reply.set("too late, and harmless")

    it = make_child("it", body)
    async with run_app(it) as scene:
        start = trio.current_time()
        with trio.move_on_after(3):
            await it.mailbox.address.ask(Say())
        await trio.testing.wait_all_tasks_blocked()
        assert noticed == [start + 3]
        assert not scene.crashes("it")


async def test_a_request_abandoned_in_the_queue_is_skipped(autojump_clock: object) -> None:
    """With each way of receiving; a `tell` is never skipped."""
    mailbox = Mailbox[Say]("it", 16)
    for word in ("by receive", "by receive_nowait", "by iteration"):
        with trio.move_on_after(1):
            await mailbox.address.ask(Say(word="given up"))
        settled = Say(word="settled")
        settled.reply.set("by another")
        await mailbox.address.tell(settled)
        await mailbox.address.tell(Say(word=word))
    assert (await mailbox.receive()).word == "by receive"
    assert mailbox.receive_nowait().word == "by receive_nowait"
    assert (await anext(mailbox)).word == "by iteration"
    with trio.move_on_after(1):
        await mailbox.address.ask(Say(word="given up"))
    with pytest.raises(trio.WouldBlock):
        mailbox.receive_nowait()
    assert mailbox.unread_since is None, "nothing waits"


async def test_closing_drains_the_queue_and_refuses_more(autojump_clock: object) -> None:
    """Messages from before the stop are still processed; then the loop ends."""
    seen: list[int] = []

    async def body(mailbox: Mailbox[int]) -> None:
        async for message in mailbox:
            await trio.sleep(0.5)
            seen.append(message)

    it = make_child("it", body)
    address = it.mailbox.address
    async with run_app(it) as scene:
        for number in range(5):
            assert address.offer(number)
        scene.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not address.offer(99)
        with pytest.raises(ActorDown):
            await address.tell(99)
        with pytest.raises(ActorDown):
            await address.ask(Say())
    assert seen == [0, 1, 2, 3, 4]
    assert not scene.crashes("it")


async def test_a_stopped_actor_fails_its_queued_requests(autojump_clock: object) -> None:
    async def deaf(mailbox: Mailbox[Any]) -> None:
        await trio.sleep_forever()

    it = make_child("it", deaf, grace=1)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ActorDown):
                await it.mailbox.address.ask(Say())

        async with run_app(it):
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()


async def test_only_tell_waits_for_space(autojump_clock: object) -> None:
    mailbox = Mailbox[str]("it", 1)
    assert mailbox.address.offer("one")
    assert not mailbox.address.offer("two")
    with trio.move_on_after(5) as scope:
        await mailbox.address.tell("three")
    assert scope.cancelled_caught
    assert mailbox.receive_nowait() == "one"
    with pytest.raises(trio.WouldBlock):  # the cancelled tell left no message
        mailbox.receive_nowait()


@pytest.mark.parametrize(("own", "other"), [(2, 2), (2, 3), (2, 1)])
async def test_an_actor_asks_only_lower_layers(
    autojump_clock: object, own: int, other: int
) -> None:
    """The tasks of an actor count too; messages without a wait go to any layer."""
    ends = list[Any]()
    there = make_child("there", fragile)
    there.mailbox.step = other
    to = there.mailbox.address

    async def ask() -> None:
        try:
            ends.append(await to.ask(Say(word="asked")))
        except AskedUpward as error:
            ends.append(str(error))

    async def body(mailbox: Mailbox[Any]) -> None:
        assert to.offer(Say(word="hint"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
        await trio.sleep_forever()

    async with run_app(there, Child(Mailbox[Any]("here", 1, own), body)):
        await trio.sleep(1)
    said = f"here (step {own}) asks there (step {other}): an actor may ask only lower steps"
    assert len(ends) == 1
    assert ends[0] == "asked" if other < own else ends[0].startswith(said)


async def test_the_children_of_a_pool_are_in_its_layer(autojump_clock: object) -> None:
    """So a child asks neither another one nor itself."""
    failed = list[str]()
    pool = Mailbox[Say]("pool", 8, 4)

    async def one(key: str, mailbox: Mailbox[Say]) -> None:
        try:
            await pool.address.ask(Say(key="b"))
        except AskedUpward as error:
            failed.append(str(error))

    async def body(mailbox: Mailbox[Say]) -> None:
        await run_pool(
            mailbox,
            key=lambda say: say.key,
            body=one,
            wake=wake,
            refuse=lambda say, why: None,
            policy=PoolPolicy(),
            listener=scene.listen,
            actor_table=scene.actor_table,
        )

    async def wake() -> list[str]:
        return ["a"]

    scene = Scene()
    async with run_app(Child(pool, body), scene=scene):
        await trio.sleep(1)
    assert [one.partition(":")[0] for one in failed] == ["pool/a (step 4) asks pool (step 4)"]
