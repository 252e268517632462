"""The actor table shows the waits of actors and reports stuck ones."""

from typing import Any

import trio
import trio.testing

from elwood.foundation.runtime import (
    Mailbox,
    RestartPolicy,
    clear_error,
    report_error,
    report_warning,
    show_wait,
)
from elwood.foundation.runtime.actor_table import CALM, DEAF, FAILING, STALE
from tests.foundation.runtime.scene import Scene, make_child, run_app


class Bug(Exception):
    """A programming error in a body."""


def stuck_actors(scene: Scene) -> list[tuple[str, str]]:
    return [(s.actor, s.what) for s in scene.actor_table.stuck()]


async def test_a_wait_is_visible_and_stuck_after_its_limit(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        with show_wait("an answer", limit=10):
            await trio.sleep(20)
        await trio.sleep_forever()

    async with run_app(make_child("it", body, grace=1)) as scene:
        (wait,) = scene.actor_table.statuses["it"].waits.values()
        assert (wait.what, wait.limit) == ("an answer", 10)
        await trio.sleep(10)
        assert not stuck_actors(scene)
        await trio.sleep(2)
        assert stuck_actors(scene) == [("it", "waits for an answer, 12 s (limit 10 s)")]
        await trio.sleep(10)
        assert not stuck_actors(scene)
        assert not scene.actor_table.statuses["it"].waits


async def test_a_crash_clears_the_waits(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        with show_wait("the end"):
            await trio.sleep(1)
            raise Bug

    async with run_app(make_child("it", body)) as scene:
        await trio.sleep(1.2)
        assert scene.actor_table.statuses["it"].state == "restarting"
        assert not scene.actor_table.statuses["it"].waits


async def test_a_repeated_error_is_stuck_until_a_success(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        for error in ("slow", "refused", "refused", "refused", "reset"):
            report_error("the poll", error)
            await trio.sleep(10)
        clear_error("the poll")
        await trio.sleep_forever()

    async with run_app(make_child("it", body, grace=1)) as scene:
        await trio.sleep(25)
        assert not stuck_actors(scene)
        await trio.sleep(10)
        assert stuck_actors(scene) == [("it", "the poll failed 4 times: refused")]
        (key,) = [s.key for s in scene.actor_table.stuck()]
        await trio.sleep(10)
        assert stuck_actors(scene) == [("it", "the poll failed 5 times: reset")], (
            "it still does not work"
        )
        assert [s.key for s in scene.actor_table.stuck()] == [key], "and is the same trouble"
        await trio.sleep(10)
        assert not stuck_actors(scene)


async def test_different_errors_need_more_failures(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        for number in range(FAILING):
            report_error("the poll", f"request {number} failed")
            await trio.sleep(1)
        await trio.sleep_forever()

    async with run_app(make_child("it", body, grace=1)) as scene:
        await trio.sleep(FAILING - 1.5)
        assert not stuck_actors(scene)
        await trio.sleep(1)
        assert len(stuck_actors(scene)) == 1


async def test_an_old_trouble_becomes_history(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        for _ in range(3):
            report_error("the model", "overloaded")
        await trio.sleep_forever()

    async with run_app(make_child("it", body, grace=1)) as scene:
        await trio.sleep(STALE - 1)
        assert stuck_actors(scene)
        await trio.sleep(2)
        assert not stuck_actors(scene)


async def test_a_warning_is_reported_immediately(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        for words in ("a little", "much", "much"):
            report_warning("rain", words)
            await trio.sleep(10)
        clear_error("rain")
        await trio.sleep_forever()

    async with run_app(make_child("it", body)) as scene:
        await trio.sleep(5)
        [first] = scene.actor_table.stuck()
        assert (first.actor, first.subject, first.what) == ("", "rain", "a little")
        await trio.sleep(20)
        [later] = scene.actor_table.stuck()
        assert (later.key, later.what) == (first.key, "much")
        await trio.sleep(10)
        assert not stuck_actors(scene)


async def test_a_queue_without_progress_is_stuck(autojump_clock: object) -> None:
    async def deaf(mailbox: Mailbox[Any]) -> None:
        await trio.sleep(2 * DEAF)
        async for _ in mailbox:
            pass

    it = make_child("it", deaf)
    async with run_app(it) as scene:
        await trio.sleep(10)
        it.mailbox.address.offer("one")
        it.mailbox.address.offer("two")
        await trio.sleep(DEAF)
        assert not stuck_actors(scene)
        await trio.sleep(2)
        assert stuck_actors(scene) == [
            ("it", f"has read none of its 2 messages for {DEAF + 2:.0f} s")
        ]
        await trio.sleep(DEAF)
        assert not stuck_actors(scene)


async def test_three_crashes_are_stuck_until_calm(autojump_clock: object) -> None:
    begun = 0

    async def body(mailbox: Mailbox[Any]) -> None:
        nonlocal begun
        begun += 1
        if begun <= 3:
            raise Bug("no luck")
        await trio.sleep_forever()

    policy = RestartPolicy(max_crashes=None, first_delay=1)
    async with run_app(make_child("it", body, policy, grace=1)) as scene:
        await trio.sleep(2)
        assert not stuck_actors(scene)
        await trio.sleep(2)
        assert stuck_actors(scene) == [("it", "crashed 3 times in a row, last: Bug: no luck")]
        await trio.sleep(CALM)
        assert stuck_actors(scene), "it runs again, but not for long enough yet"
        await trio.sleep(10)
        assert not stuck_actors(scene)


def test_waits_outside_of_an_actor_belong_to_no_one() -> None:
    with show_wait("nothing"):
        report_warning("it", "rains")
        report_error("it", "failed")
        clear_error("it")
