"""The actor of a server: start, stop, restart, parking, and its messages to the owner."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from elwood.features.mcp.messages import CallDone, CallFailed, NoAnswer, NotConnected
from elwood.features.mcp.settings import ToolRule
from tests.features.mcp.rig import ECHO, FakeConnection, Result, rig, text, tool


def gaps(times: list[float]) -> list[float]:
    return [round(b - a, 3) for a, b in pairwise(times)]


async def test_mcp_01_five_crashes_in_ten_minutes_park_a_server(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path, NotConnected("it exited with code 1")) as one:
        one.errors.add(b"Traceback\nKeyError: 'TOKEN'\n")
        await trio.sleep(1000)
        assert gaps(one.tries) == [1, 2, 4, 8]
        why = "it exited with code 1 (last error output: KeyError"
        assert f"stopped (not retrying): {why}" in await one.says()
        [(told, buttons)] = one.told  # only once
        assert told.startswith(f"The MCP server fake keeps failing, so I stopped trying: {why}")
        assert buttons == ("/mcp restart fake",)
        failed = await one.call()
        assert isinstance(failed, CallFailed)
        assert not failed.unknown
        # The owner may have repaired it.
        one.connections = [FakeConnection()]
        await one.steer("restart")
        assert (await one.says()).startswith("fake: ready")
        assert await one.call() == CallDone("done")


async def test_crashes_long_ago_do_not_count(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with rig(tmp_path, *[FakeConnection() for _ in range(30)]) as one:
        for _ in range(20):
            one.made[-1].crash(NotConnected("it ended"))
            await trio.sleep(300)
            assert (await one.says()).startswith("fake: ready")
        assert one.told == []


async def test_mcp_02_an_interrupted_call_is_unknown_or_repeated(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    first = FakeConnection()

    async def dies(given: dict[str, Any]) -> Result:
        first.crash(NotConnected("it exited with code 137"))
        raise NotConnected("the connection was closed")

    first.called = dies
    async with rig(tmp_path, first, FakeConnection()) as one:
        failed = await one.call()
        assert failed == CallFailed("the MCP server fake stopped during the call", unknown=True)
        await trio.sleep(10)
        assert await one.call() == CallDone("done")
    again = FakeConnection(called=first.called)
    first = again
    async with rig(tmp_path, again, FakeConnection()) as one:
        assert await one.call(repeats=True) == CallDone("done")


async def test_a_call_after_a_crash_waits_for_the_restart(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    first = FakeConnection()
    async with rig(tmp_path, first, FakeConnection()) as house:
        first.crash(NotConnected("it exited"))
        await wait_all_tasks_blocked()
        assert "not running (retrying)" in await house.says()
        assert await house.call() == CallDone("done")


async def test_mcp_03_a_mute_server_gets_the_old_handshake_and_is_parked(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path, NoAnswer("it did not answer within 10 s")) as one:
        await trio.sleep(100)
        assert one.legacy == [False, True]
        assert "stopped (not retrying): it did not answer" in await one.says()
        assert len(one.told) == 1


async def test_an_old_server_that_ignores_requests_is_detected(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path, NoAnswer("…"), FakeConnection(era="legacy")) as one:
        await trio.sleep(100)
        assert "(legacy)" in await one.says()


async def test_mcp_04_10_a_call_without_an_answer_times_out(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ended: list[float] = []

    async def hangs(given: dict[str, Any]) -> Result:
        try:
            await trio.sleep_forever()
        finally:  # the SDK cancels on the server, and drops a late result
            ended.append(trio.current_time())
        raise AssertionError

    async with rig(tmp_path, FakeConnection(called=hangs), FakeConnection()) as one:
        began = trio.current_time()
        failed = await one.call()
        assert failed == CallFailed("the MCP server fake did not answer in time", unknown=True)
        assert ended == [began + 58]
        await trio.sleep(20)
        assert len(one.made) == 1  # it still answers
    with_it = FakeConnection(called=hangs)

    async def mute() -> list[Any]:
        await trio.sleep_forever()
        raise AssertionError

    async with rig(tmp_path, with_it, FakeConnection()) as one:
        with_it.list_tools = mute  # type: ignore[method-assign]  # it hangs completely
        await one.call()
        await trio.sleep(15)
        assert len(one.made) == 2
        assert "answered neither a call nor" in await one.says()


async def test_a_requester_that_goes_away_cancels_the_call(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ended = trio.Event()

    async def hangs(given: dict[str, Any]) -> Result:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with rig(tmp_path, FakeConnection(called=hangs)) as one:
        with trio.move_on_after(5):
            await one.call()
        with trio.fail_after(1):
            await ended.wait()


async def test_mcp_19_a_list_that_keeps_changing_is_read_every_30_s(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path) as one:
        [connection] = one.made
        for _ in range(300):
            connection.changed()
            await trio.sleep(1)
        assert connection.listed == 1 + 300 // 30


async def test_mcp_18_20_new_and_changed_tools_are_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path, FakeConnection([ECHO, tool("look")])) as one:
        assert one.shown == ["echo", "look"]
        [connection] = one.made
        connection.tools = [tool("echo", "And tells a friend."), tool("look"), tool("new")]
        connection.changed()
        await trio.sleep(31)
        assert one.shown == ["look"]
        refused = await one.call("echo")
        assert isinstance(refused, CallFailed)
        assert "has changed, so it is off" in refused.why
        [(told, _)] = one.told
        assert "new or changed tools: echo, new." in told
        # The owner is notified once, even after a restart.
        connection.changed()
        await trio.sleep(31)
    async with rig(tmp_path, connection) as one:
        assert one.shown == ["look"]
        assert one.told == []
        review = await one.steer("accept")
        assert "-…\n+And tells a friend." in review.words
        # The shown tools are accepted, not later ones.
        connection.tools.append(tool("newer"))
        connection.changed()
        await trio.sleep(31)
        code = review.buttons[0].split()[-1]
        assert "New: newer" in (await one.steer("accept", code)).words
        assert one.shown == ["look"]
        code = (await one.steer("accept")).buttons[0].split()[-1]
        assert "echo, new, newer" in (await one.steer("accept", code)).words
        assert one.shown == ["echo", "look", "new", "newer"]
        # A return to the accepted definition is no change.
        connection.tools = [tool("look")]
        connection.changed()
        await trio.sleep(31)
        assert one.shown == ["look"]


async def test_a_rule_for_an_unknown_tool_is_logged(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"ecko": ToolRule(policy="deny"), "echo": ToolRule(policy="deny")}
    async with rig(tmp_path, FakeConnection([ECHO]), tools=rules) as one:
        told = await one.says()
    assert "mcp_servers.fake.tools has rules for tools that do not exist: ecko" in told
    [record] = [one for one in caplog.records if "does not offer" in one.message]
    assert record.__dict__["at"] == "mcp_servers.fake.tools.ecko"
    assert record.__dict__["did_you_mean"] == "echo"


@pytest.mark.parametrize("part", ["description", "title", "input", "output", "annotations"])
def test_mcp_18_every_part_of_a_definition_is_pinned(part: str) -> None:
    changed = {**{name: getattr(ECHO, name) for name in ECHO.__struct_fields__}, part: "{}"}
    assert type(ECHO)(**changed).pin != ECHO.pin


async def test_accepted_tools_are_available_before_the_server_is_up(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path):
        pass
    async with rig(tmp_path, NotConnected("gone")) as one:
        assert one.shown == ["echo"]


async def test_an_on_demand_server_is_started_by_its_first_call(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with rig(tmp_path, start="on_demand", idle=60.0) as one:
        assert len(one.made) == 1  # its tools are unknown so far
        await trio.sleep(100)
        assert (await one.says()).startswith("fake: not started")
    async with rig(tmp_path, FakeConnection(), FakeConnection(), start="on_demand", idle=60) as one:
        await trio.sleep(100)
        assert one.made == []
        assert await one.call() == CallDone("done")
        await trio.sleep(50)
        assert await one.call() == CallDone("done")
        assert len(one.made) == 1
        await trio.sleep(100)
        assert (await one.says()).startswith("fake: not started")
        assert await one.call() == CallDone("done")
        assert len(one.made) == 2


async def test_a_server_is_not_stopped_while_it_works(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def works(given: dict[str, Any]) -> Result:
        await trio.sleep(50)
        return text("worked")

    async with rig(tmp_path, FakeConnection(called=works), idle=10.0) as one:
        assert await one.call() == CallDone("worked")
        assert len(one.made) == 1


async def test_a_server_can_be_turned_off_and_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with rig(tmp_path) as one:
        assert "is off" in (await one.steer("disable")).words
        assert (await one.says()).startswith("fake: off")
        assert one.shown == []
        failed = await one.call()
        assert isinstance(failed, CallFailed)
        await trio.sleep(1000)
        assert len(one.made) == 1
    async with rig(tmp_path, FakeConnection()) as one:  # and stays off
        assert one.made == []
        await one.steer("enable")
        assert (await one.says()).startswith("fake: ready")
        assert one.shown == ["echo"]


async def test_a_server_can_be_turned_off_while_it_starts(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Slow(FakeConnection):
        async def list_tools(self) -> list[Any]:
            await trio.sleep(9)
            return await super().list_tools()

    async with rig(tmp_path, Slow()) as one:
        assert (await one.says()).startswith("fake: starting")
        await one.steer("disable")
        await trio.sleep(20)
        assert (await one.says()).startswith("fake: off")


async def test_a_missing_tool_list_counts_as_a_crash(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Mute(FakeConnection):
        async def list_tools(self) -> list[Any]:
            await trio.sleep_forever()
            raise AssertionError

    async with rig(tmp_path, Mute(), FakeConnection()) as one:
        await trio.sleep(12)
        said = await one.says()
        assert "did not list its tools within 10 s" in said
        assert said.startswith("fake: ready")


async def test_concurrent_calls_are_bounded(tmp_path: Path, autojump_clock: MockClock) -> None:
    together = most = 0

    async def works(given: dict[str, Any]) -> Result:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await trio.sleep(1)
        together -= 1
        return text("worked")

    async with rig(tmp_path, FakeConnection(called=works)) as one, trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(one.call)
        await wait_all_tasks_blocked()
    assert most == 8


async def test_a_damaged_book_accepts_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "fake.json").write_text("{")
    async with rig(tmp_path, accept="ask") as one:
        assert one.shown == []
    assert math.isfinite(trio.current_time())


async def test_a_server_that_is_turned_off_and_breaks_stays_off(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Breaks(FakeConnection):
        async def live(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise NotConnected("it broke while it was ended")

    async with rig(tmp_path, Breaks()) as one:
        await one.steer("disable")
        await trio.sleep(100)
        assert (await one.says()).startswith("fake: off")
        assert len(one.tries) == 1


async def test_a_disk_failure_is_not_a_failure_of_the_server(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    from elwood.foundation.runtime import Halt

    with pytest.RaisesGroup(Halt, flatten_subgroups=True):
        async with rig(tmp_path, Halt("the disk is lost")):
            await trio.sleep(10)
