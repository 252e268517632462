"""The service as people and operators use it: a real process, stopped and started at will."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from elwood.agent.session.log.entries import TurnStarted
from elwood.agent.session.reading.receipts import HEAD
from elwood.app.build import LAST_CHILDREN, LAST_TURN
from elwood.foundation.sandbox import children
from tests.fake_http import Reply
from tests.fake_models import SSE, Bytes, Say, messages_stream
from tests.fake_telegram import OWNER
from tests.journeys.home import remove_times
from tests.journeys.service import PATIENCE, Town, town

# --- ends -----------------------------------------------------------------------------------------


async def test_an_idle_service_stops_immediately(tmp_path: Path) -> None:
    async with town(tmp_path / "town") as here:
        await here.start()
        with trio.fail_after(LAST_TURN):  # running work would get the same time
            await here.stop()


def test_a_command_that_ignores_sigterm_delays_the_stop_by_ten_seconds_at_most() -> None:
    """Either a turn or its child runs the command; what the others need is little."""
    assert LAST_TURN + LAST_CHILDREN + children.GRACE < 10.0


async def test_an_answer_within_the_grace_period_is_delivered(tmp_path: Path) -> None:
    async with town(tmp_path / "town") as here:
        here.models.script.append(Say("Heard m0001, if late.", delay=0.5))
        await here.start()
        update = here.telegram.say("tell m0001")
        await here.wait_for_requests(1)
        await here.stop()

        assert here.sent_texts() == ["Heard m0001, if late."]
        assert here.broken_promises({update: "m0001"}) == []
        await here.start()
        await here.stop()
        assert len(here.telegram.sent) == 1


async def test_a_second_service_on_the_same_state_is_refused(tmp_path: Path) -> None:
    async with town(tmp_path / "town") as here:
        await here.start()
        assert here.process is not None
        second = await here.command("run")

        assert second.returncode == 1
        assert second.stderr.decode() == (
            f"process {here.process.pid} already uses the state folder {here.state}; stop it, or "
            "set paths.state to another folder\n"
        )
        here.telegram.say("tell m0001")
        assert await here.wait_for_messages(1) == ["Heard m0001."]


# --- the same outcome, regardless of the kind of end (P7) -----------------------------------------

UNKNOWN = (
    f"Heard m0001.\n\n{HEAD}\n"
    "? act m0001 (cut off: it may have done part of its work; I won't repeat it)"
)


async def hang_model(here: Town) -> int:
    here.hang_model()
    update = here.telegram.say("tell m0001")
    await here.wait_for_requests(1)
    return update


async def hang_tool(here: Town) -> int:
    here.hold_tool()
    update = here.telegram.say("act m0001")
    await here.eventually(lambda: here.effects)
    return update


async def hang_delivery(kind: str, here: Town) -> int:
    """Let Telegram take the answer or not, as *kind* says, and never respond."""
    here.telegram.fault("sendMessage", kind)
    update = here.telegram.say("tell m0001")
    await here.until(lambda: here.telegram.counts[f"sendMessage {kind}"])
    return update


POINTS: dict[str, tuple[Callable[[Town], Awaitable[int]], list[str]]] = {
    "model": (hang_model, ["Heard m0001."]),
    "tool": (hang_tool, [UNKNOWN]),
    "taken": (partial(hang_delivery, "swallow"), ["Heard m0001.", "(again) Heard m0001."]),
    "not taken": (partial(hang_delivery, "hang"), ["(again) Heard m0001."]),
}


async def test_a_killed_and_a_terminated_service_have_the_same_outcome(tmp_path: Path) -> None:
    """Bring eight services to four points, concurrently because most of it is waiting."""
    outcomes: dict[str, list[tuple[str, object]]] = {}

    async def live(point: str, how: str) -> None:
        reach, seen = POINTS[point]
        async with town(tmp_path / f"{point} {how}", effectful=True) as here:
            await here.start()
            update = await reach(here)
            if how == "killed":
                await here.kill()
            else:
                await here.stop()
            if reach is hang_tool:
                here.release_tool()
            await here.start()
            await here.wait_for_messages(len(seen))
            await here.stop()
            assert [remove_times(text) for text in here.sent_texts()] == seen
            assert here.broken_promises({update: "m0001"}) == []
            await here.verify_receipts()
            outcomes[f"{point} {how}"] = [
                (type(e).__name__, getattr(e, "text", None))
                for e in here.journals()[f"tg-{OWNER}"]
                if not isinstance(e, TurnStarted)  # its text contains the time
            ]

    async with trio.open_nursery() as nursery:
        for point in POINTS:
            nursery.start_soon(live, point, "killed")
            nursery.start_soon(live, point, "terminated")
    for point in POINTS:
        assert outcomes[f"{point} killed"] == outcomes[f"{point} terminated"], point


# --- messages from the time without a process ----------------------------------------------------


async def test_messages_sent_while_elwood_is_off_are_answered(tmp_path: Path) -> None:
    async with town(tmp_path / "town") as here:
        here.telegram.say("tell m0001")
        await here.start()
        await here.wait_for_messages(1)
        await here.stop()
        here.telegram.say("tell m0002")
        await here.start()

        assert await here.wait_for_messages(2) == ["Heard m0001.", "Heard m0002."]


# --- while a turn hangs -------------------------------------------------------------------------


def make_stalling_response() -> tuple[Bytes, trio.Event]:
    """Return a response that hangs in the middle, and an event for its cancellation."""
    pieces = messages_stream(Say("word " * 200), 1, "claude", "")
    gone = trio.Event()
    stream = b"".join(pieces)
    reply = Reply(headers=SSE, pieces=(stream,), end="stall", end_at=len(stream) // 2, gone=gone)
    return Bytes(reply), gone


async def test_a_hanging_turn_is_shown_and_stopped(tmp_path: Path) -> None:
    async with town(tmp_path / "town") as here:
        step, gone = make_stalling_response()
        here.models.script.append(step)
        await here.start()
        here.telegram.say("tell m0001")
        await here.wait_for_requests(1)

        tree = (await here.command("inspect")).stdout.decode()
        assert "1 open turn" in tree.splitlines()[0]
        assert "waits for turn t1" in tree
        seen = json.loads((await here.command("inspect", "--json")).stdout)
        [session] = seen["process"]["sessions"]
        assert session["session"] == f"tg-{OWNER}"
        assert session["turn_age"] > 0

        here.telegram.say("/status")
        [status] = await here.wait_for_messages(1)
        assert status.startswith("I am writing the answer.")
        here.telegram.say("/stop")
        await here.wait_for_messages(2)
        with trio.fail_after(PATIENCE):
            await gone.wait()
        assert here.sent_texts()[1] == "Stopped. I was still writing the answer."
        here.telegram.say("tell m0002")
        assert "m0002" in (await here.wait_for_messages(3))[2]


# --- access ---------------------------------------------------------------------------------------


async def test_a_stranger_is_admitted_by_a_code(tmp_path: Path) -> None:
    stranger = 2002
    async with town(tmp_path / "town") as here:
        await here.start()
        here.telegram.say("tell m0001", chat=stranger, user=stranger)
        await here.until(lambda: here.sent_texts(stranger))
        here.telegram.say("tell m0002", chat=stranger, user=stranger)
        [told] = here.sent_texts(stranger)
        code = told.partition("this code: ")[2].split()[0]

        wrong = await here.command("pair", "WRONGONE")
        assert wrong.returncode == 1
        done = await here.command("pair", code)
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode() == f"Ann (tg:{stranger}) may talk to me now.\n"
        await here.kill()
        await here.start()
        here.telegram.say("tell m0003", chat=stranger, user=stranger)
        await here.until(lambda: "Heard m0003." in here.sent_texts(stranger))
        assert here.asked == 1
        assert not {"m0001", "m0002"} & set(json.dumps(here.models.bodies).split())
        assert list(here.journals()) == [f"tg-{stranger}"]
