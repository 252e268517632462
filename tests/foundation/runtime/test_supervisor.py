"""Tests of the supervisor, modelled on OTP's supervisor_SUITE."""

from typing import Any, Literal

import pytest
import trio
import trio.testing

from elwood.foundation.runtime import (
    ActorDown,
    Child,
    Ended,
    Halt,
    Mailbox,
    RestartPolicy,
    describe,
)
from tests.foundation.runtime.scene import Say, Scene, echo, make_child, run_app

Mode = Literal["permanent", "transient"]
Exit = Literal["normal", "shutdown", "abnormal"]


class Bug(Exception):
    """A programming error in a body."""


@pytest.mark.parametrize(
    ("mode", "way", "runs"),
    [
        ("permanent", "normal", 2),
        ("permanent", "shutdown", 1),
        ("permanent", "abnormal", 2),
        ("transient", "normal", 1),
        ("transient", "shutdown", 1),
        ("transient", "abnormal", 2),
    ],
)
async def test_restart_type_and_kind_of_exit(
    mode: Mode, way: Exit, runs: int, autojump_clock: object
) -> None:
    """Shutdown is an exit that the supervisor requested: no restart follows."""
    begun = 0

    async def body(mailbox: Mailbox[Any]) -> None:
        nonlocal begun
        begun += 1
        if begun == 1 and way == "normal":
            return
        if begun == 1 and way == "abnormal":
            raise Bug
        async for _ in mailbox:
            pass

    async with run_app(make_child("it", body, RestartPolicy(mode=mode))) as scene:
        if way == "shutdown":
            scene.stop.set()
        await trio.sleep(10)
    assert begun == runs
    assert scene.ended is None
    assert scene.order_of_ends() == ["it"]
    assert scene.actor_table.statuses["it"].restarts == runs - 1


async def test_a_crash_leaves_the_siblings_alone(autojump_clock: object) -> None:
    """One for one: the sibling remains the same object in the same task."""

    class Sibling:
        async def run(self, mailbox: Mailbox[Any]) -> None:
            async for message in mailbox:
                message.reply.set((self, trio.lowlevel.current_task()))

    async def bad(mailbox: Mailbox[Any]) -> None:
        async for _ in mailbox:
            raise Bug

    def who() -> Any:
        return Say()

    # A new object per incarnation makes a restart visible.
    sibling = make_child("sibling", lambda mailbox: Sibling().run(mailbox))
    crasher = make_child("crasher", bad)
    async with run_app(sibling, crasher) as scene:
        before = await sibling.mailbox.address.ask(who())
        crasher.mailbox.address.offer("go")
        await trio.sleep(2)
        after = await sibling.mailbox.address.ask(who())
        assert len(scene.starts("crasher")) == 2
        assert before[0] is after[0]
        assert before[1] is after[1]
        assert len(scene.starts("sibling")) == 1


async def test_children_stop_in_reverse_order(autojump_clock: object) -> None:
    """The order replaces rest_for_one: a child that others need is first and stops last."""
    log: list[str] = []

    def slow(name: str) -> Child:
        async def body(mailbox: Mailbox[Any]) -> None:
            async for _ in mailbox:
                pass
            log.append(f"{name} drains")
            await trio.sleep(1)
            log.append(f"{name} is done")

        return make_child(name, body)

    async with run_app(slow("first"), slow("second"), slow("third")) as scene:
        pass
    assert log == [
        f"{name} {what}" for name in ("third", "second", "first") for what in ("drains", "is done")
    ]
    assert scene.order_of_ends() == ["third", "second", "first"]


async def test_too_many_crashes_stop_the_app_in_order(autojump_clock: object) -> None:
    """Intensity 5 in 60 s: the sixth crash escalates once, and the others exit normally."""
    ends: list[str] = []

    async def bad(mailbox: Mailbox[Any]) -> None:
        await trio.lowlevel.checkpoint()
        raise Bug("again")

    async def good(mailbox: Mailbox[Any]) -> None:
        async for _ in mailbox:
            pass
        ends.append("good")

    policy = RestartPolicy(max_crashes=5, within=60, first_delay=0.1, max_delay=1)
    scene = Scene()
    async with run_app(make_child("good", good), make_child("bad", bad, policy), scene=scene):
        await trio.sleep(100)
        assert scene.ended is not None, "it must not need the stop"
    assert scene.ended.name == "bad"
    assert "Bug: again" in str(scene.ended)
    assert [c.delay for c in scene.crashes("bad")] == [0.1, 0.2, 0.4, 0.8, 1, None]
    assert ends == ["good"]
    assert scene.actor_table.statuses["bad"].state == "given up"


async def test_an_error_during_the_stop_is_logged(autojump_clock: object) -> None:
    async def untidy(mailbox: Mailbox[Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("closing failed")

    async with run_app(make_child("good", echo), make_child("untidy", untidy, grace=1)) as scene:
        pass
    assert [describe(c.error) for c in scene.crashes("untidy")] == ["Bug: closing failed"]
    assert scene.order_of_ends() == ["untidy", "good"]
    assert scene.ended is None


async def test_a_deaf_child_is_cancelled_after_its_grace(autojump_clock: object) -> None:
    async def deaf(mailbox: Mailbox[Any]) -> None:
        await trio.sleep_forever()

    async with run_app(make_child("deaf", deaf, grace=5)) as scene:
        stopped_at = trio.current_time()
        scene.stop.set()
    assert 5 <= trio.current_time() - stopped_at <= 5.5
    assert scene.order_of_ends() == ["deaf"]


async def test_an_exception_group_stays_inside_its_actor(autojump_clock: object) -> None:
    """A dying MCP server raises one through the SDK's task group."""

    async def fail(what: str) -> None:
        await trio.lowlevel.checkpoint()
        raise ExceptionGroup(what, [BrokenPipeError(what), ConnectionResetError(what)])

    async def body(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, "stdin")
            nursery.start_soon(fail, "stdout")

    bystander = make_child("bystander", echo)
    mcp = make_child("mcp", body, RestartPolicy(max_crashes=None))
    async with run_app(bystander, mcp) as scene:
        await trio.sleep(5)
        assert len(scene.starts("mcp")) >= 3
        assert str(scene.actor_table.statuses["mcp"].last_crash).startswith("BrokenPipeError: std")
        assert await bystander.mailbox.address.ask(Say(word="still here")) == "still here"
        assert len(scene.starts("bystander")) == 1


async def test_a_halt_stops_the_app_under_any_policy(autojump_clock: object) -> None:
    async def body(mailbox: Mailbox[Any]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(broken_disk)

    async def broken_disk() -> None:
        await trio.lowlevel.checkpoint()
        raise Halt("fsync failed")

    never = RestartPolicy(max_crashes=None)
    async with run_app(make_child("good", echo), make_child("it", body, never)) as scene:
        await trio.sleep(1)
        assert scene.ended is not None
        assert "fsync failed" in str(scene.ended)
        assert scene.order_of_ends() == ["good"]


@pytest.mark.parametrize("crashes", [True, False])
async def test_a_finished_child_accepts_no_more(crashes: bool, autojump_clock: object) -> None:
    """Waiting for space in its queue would never end."""

    async def body(mailbox: Mailbox[Any]) -> None:
        await trio.sleep(1)
        if crashes:
            raise Bug

    policy = RestartPolicy(mode="transient", max_crashes=0)
    it = make_child("it", body, policy, capacity=1)
    async with run_app(it):
        address = it.mailbox.address
        assert address.offer("fills the queue")
        with trio.fail_after(30):
            with pytest.raises(ActorDown):  # waits for space until then
                await address.tell("more")
            with pytest.raises(ActorDown):
                await address.tell("later")
            with pytest.raises(ActorDown):
                await address.ask(Say())
        assert not address.offer("anything")


async def test_an_escalation_fails_pending_requests(autojump_clock: object) -> None:
    results: list[str] = []

    async def bad(mailbox: Mailbox[Any]) -> None:
        await mailbox.receive()
        await trio.sleep(1)
        raise Bug

    async def asker(mailbox: Mailbox[Any]) -> None:
        async def one() -> None:
            try:
                await target.mailbox.address.ask(Say())
            except Exception as error:
                results.append(describe(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        await trio.sleep_forever()

    target = make_child("bad", bad, RestartPolicy(max_crashes=0))
    async with run_app(target, make_child("asker", asker, grace=100)) as scene:
        await trio.sleep(2)
        assert sorted(results) == [
            "ActorCrashed: bad crashed before it answered",
            "ActorDown: bad is down",
        ]
    assert isinstance(scene.heard[-1][1], Ended)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError(), "ValueError"),
        (ValueError("\n"), "ValueError"),
        (ExceptionGroup("g", [ExceptionGroup("h", [KeyError("k")])]), "KeyError: 'k'"),
    ],
)
def test_an_error_is_described_on_one_line(error: BaseException, text: str) -> None:
    assert describe(error) == text
