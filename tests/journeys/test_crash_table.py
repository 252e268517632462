"""The 37 rows of crash_points.jsonl: each has a test with its id, or is listed in ELSEWHERE.

All of Elwood runs: Telegram's two actors with a fake of its server, sessions, approvals, models.
Each row kills it at the named place, restarts it with the content of the disk, and checks the
outcome; `Home.broken` checks the promises in all of them.
"""

import os
import re
import signal
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.calls import Other, Plan
from elwood.agent.conversation.message import Completion, Results
from elwood.agent.models.client import ModelRequest
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.reading.receipts import HEAD
from elwood.agent.session.settings import SessionSettings
from elwood.agent.tools.tool import Tool, ToolContext
from elwood.foundation.runtime import in_thread
from elwood.foundation.sandbox.command import NoSandbox, Rung
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.storage.journal import JournalDamaged, Verified, is_sound, verify
from tests.agent.session.scripted import Named, answer, last_message
from tests.fake_models import Say
from tests.fake_telegram import OWNER
from tests.foundation.sandbox.scene import make_marker, sleeping_processes
from tests.journeys.home import OTHER, Home, follow_message
from tests.journeys.service import town
from tests.journeys.test_approval_journeys import questions

CORPUS = Path(__file__).parents[1] / "corpora" / "crash_points.jsonl"
# Virtual seconds that a turn waits for the owner.
WAIT = 20.0
DAY = 86_400.0


class Row(msgspec.Struct):
    id: str


# Rows tested elsewhere, with more steps and orders.
ELSEWHERE = {
    "CP-01": "features/telegram/test_intake.py: an update is confirmed after it is accepted",
    "CP-08": "agent/models/test_llm_failures.py: LLM-10, a stream that was cut is no response",
    "CP-12": "test_kill_steps.py: in time, and late; agent/approvals: after each entry",
    "CP-18": "test_kill_steps.py: many together",
    "CP-21": "test_kill_steps.py: after a message was sent; features/telegram/test_failures.py",
    "CP-24": "test_making_room.py: a compaction; foundation/storage/test_crashes.py: a closed log",
    "CP-25": "test_making_room.py; foundation/storage/test_crashes.py: a replaced file",
    "CP-26": "test_kill_steps.py: stories of tasks",
    "CP-27": "test_kill_steps.py: stories of tasks",
    "CP-29": "test_kill_steps.py: two kills",
    "CP-35": "agent/people/test_pairing.py: a clock set back; test_kill_steps.py: a day back",
    "CP-36": "test_service.py: a second service on the same state",
    "CP-37": "agent/session/test_replay.py: results follow their calls",
}


def test_every_row_has_its_test() -> None:
    rows = {msgspec.json.decode(line, type=Row).id for line in CORPUS.read_bytes().splitlines()}
    source = Path(__file__).read_text()
    tests = re.findall(r"^(?:async )?def test_cp_([\d_]+)", source, re.MULTILINE)
    named = re.findall(r"\d\d", " ".join(tests))
    found = [*(f"CP-{number}" for number in named), *(name[:5] for name in KILLS), *ELSEWHERE]
    assert sorted(found) == sorted(rows)
    assert len(rows) == 37


async def say_and_die(h: Home, text: str, place: str, *, nth: int = 1) -> None:
    """Run one process: send a message, and die at *place*."""
    h.kill(place, nth=nth)
    async with h.life() as life:
        h.fake.say(text)
        await life.wait_for_kill()


async def recover(h: Home) -> None:
    """Run another process until no work is left; no promise may be broken then."""
    async with h.life() as life:
        await life.wait_until_idle()
    assert h.broken_promises() == []


# --- one kill, and the state after it -------------------------------------------------------------

HELLO, ACTED = "re: hello", f"re: acted on boldly\n\n{HEAD}\n✓ act boldly"
CUT_OFF = f"{HEAD}\n? act boldly (cut off: it may have done part of its work; I won't repeat it)"
# The message, where the process dies, and how often `act` had run by then; afterwards: the
# messages, the number of model requests, and the outcome of the call. The first part of a reply is
# recorded with the reply, so it counts as possibly sent: one repeat is better than one more write
# in every turn.
KILLS = {
    "CP-02 not written: it comes again": ("hello", "before write received", 0, [HELLO], 1, ""),
    "CP-03 torn: it is cut and kept": ("hello", "torn write received", 0, [HELLO], 1, ""),
    "CP-04 comes again: already accepted": ("hello", "after sync received", 0, [HELLO], 1, ""),
    "CP-09 no response": ("call act boldly", "before write said", 0, [ACTED], 3, "ok"),
    "CP-10 calls in the log": ("call act boldly", "after sync said", 0, [ACTED], 2, "ok"),
    "CP-16 no result": ("call act boldly", "before write ended", 1, [CUT_OFF], 2, "unknown"),
    "CP-17 a torn result": ("call act boldly", "torn write ended", 1, [CUT_OFF], 2, "unknown"),
    "CP-20 an answer in the log": ("hello", "after sync replied", 0, [f"(again) {HELLO}"], 1, ""),
    "CP-23 delivered, not noted": (
        *("call act boldly", "before write delivered", 1),
        *([ACTED, f"(again) {ACTED}"], 2, "ok"),
    ),
}


@pytest.mark.parametrize("row", KILLS)
async def test_a_kill_is_survived(h: Home, row: str) -> None:
    said, place, acted, heard, asked, outcome = KILLS[row]
    await say_and_die(h, said, place)
    assert h.effects.done == ["act boldly"] * acted
    assert h.fake.unconfirmed == [1000] or "received" not in place
    await recover(h)
    torn = [is_sound(path.read_bytes()) for path in h.journal().parent.glob("*.torn-*")]
    assert torn == [False] * place.startswith("torn")
    assert h.names().count("received") == 1
    assert len(h.asked) == asked
    assert h.call_outcomes() == ([("act boldly", outcome)] if outcome else [])
    assert h.effects.done == (["act boldly"] if outcome else [])
    assert len(h.texts()) == len(heard)
    for text, end in zip(h.texts(), heard, strict=True):
        assert text.endswith(end)
        assert text.startswith("(again)") == end.startswith("(again)")


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["hello", "call act boldly"])
async def test_cp_05_06_07_19_an_interrupted_request_is_repeated_from_the_log(
    h: Home, said: str
) -> None:
    """After the confirmed message or after a result, even if words were shown."""

    async def killed(request: ModelRequest) -> Completion:
        if said == "hello" or isinstance(last_message(request.messages), Results):
            while h.fake.unconfirmed or not h.fake.drafts:
                h.show("A first part of")
                await trio.sleep(1)
            h.disk.die()
        return follow_message(request)

    h.think = killed
    async with h.life() as life:
        h.fake.say(said)
        await life.wait_for_kill()
    assert h.texts() == []
    h.think = follow_message
    await recover(h)
    in_flight, again = h.asked[-2:]
    assert again == in_flight
    assert h.effects.done == ["act boldly"] * (said != "hello")
    assert len(h.texts()) == 1


# --- approvals ------------------------------------------------------------------------------------


def require_approval(h: Home) -> Home:
    """Let no tool run without asking, including the script of the workspace."""
    h.settings["policy"] = PolicySettings()
    h.settings["approvals"] = ApprovalSettings(wait=WAIT)
    h.more_tools = (make_script_tool(h),)
    return h


def make_script_tool(h: Home) -> Tool:
    """Build a tool whose approval is bound to a file, like that of `python3 a.py`."""
    file = h.folder / "workspace" / "a.py"

    async def plan(given: Named, context: ToolContext) -> Plan:
        await trio.lowlevel.checkpoint()
        return Plan(Other("write"), f"python3 {given.name}", {"file": file.read_text()})

    async def run(given: Named, context: ToolContext) -> str:
        await trio.lowlevel.checkpoint()
        h.effects.done.append(f"script {file.read_text()}")
        return "done"

    return Tool("script", "Run.", Named, run, target=lambda given: given.name, plan=plan)


async def test_cp_11_unknown_buttons_have_expired(h: Home) -> None:
    """Elwood writes before it asks, so a question without a record means a lost journal."""
    async with require_approval(h).life() as life:
        h.fake.say("call act boldly")
        await life.until(lambda: questions(h) and not h.fake.unconfirmed)
        life.kill()
    (h.state / "approvals.jsonl").unlink()
    [question] = questions(h)
    old = question.button("o")
    async with h.life() as life:
        query = h.fake.press(old, message=question)
        await life.until(lambda: h.fake.answered[query])
        assert "expired" in h.fake.answered[query]
        assert h.effects.done == []
        await life.until(lambda: len(questions(h)) == 2)
        assert questions(h)[1].button("o") != old
        h.fake.press(questions(h)[1].button("o"), message=questions(h)[1])
        await life.wait_until_idle()
        assert h.effects.done == ["act boldly"]
    assert h.broken_promises() == []


APPROVED = (
    "after sync ruled",
    "before write decided",
    "after sync decided",
    "before write started",
)


@pytest.mark.parametrize("late", [False, True], ids=["in time", "later"])
@pytest.mark.parametrize("change", ["the file", "the day"])
@pytest.mark.parametrize("place", APPROVED)
async def test_cp_13_an_approved_call_runs_once_if_unchanged(
    h: Home, place: str, change: str, late: bool
) -> None:
    file = h.folder / "workspace" / "a.py"
    file.parent.mkdir()
    file.write_text("old")
    async with require_approval(h).life() as life:
        h.fake.say("call script a.py")
        await life.until(lambda: questions(h) and not h.fake.unconfirmed)
        if late:
            await life.wait_until_idle()
        h.kill(place)
        h.fake.press(questions(h)[0].button("o"), message=questions(h)[0])
        await life.wait_for_kill()
    assert h.effects.done == []
    if change == "the file":
        file.write_text("new")
    else:
        h.clock_error = -2 * DAY  # a yes is used once; Elwood was down that long
    before = len(questions(h))
    # A conversation that has gone on without an answer, and has not heard of the yes, learns that
    # the answer came too late. Any other call needs a new answer.
    is_over = change == "the day" and late and place in ("after sync ruled", APPROVED[1])
    async with h.life() as life:
        if is_over:
            await life.until(lambda: not h.fold().pending)
        else:
            await life.until(lambda: len(questions(h)) > before)
            assert h.effects.done == []
            h.fake.press(questions(h)[-1].button("o"), message=questions(h)[-1])
            await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
    assert h.effects.done == ([] if is_over else ["script " + file.read_text()])
    assert len(questions(h)) - before == (not is_over)
    assert h.broken_promises() == []


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "outcome", "runs"), [("act", "unknown", 0), ("keep", "ok", 1)])
async def test_cp_14_an_interrupted_call_is_recovered_by_its_class(
    h: Home, tool: str, outcome: str, runs: int
) -> None:
    """A keyed call runs again, as `keep` does; a once call does not."""
    h.more_tools = (keep(h),)
    await say_and_die(h, f"call {tool} it", "after sync started")
    assert h.effects.done == []
    await recover(h)
    assert h.call_outcomes() == [(f"{tool} it", outcome)]
    assert h.effects.done == [f"{tool} it"] * runs
    [told] = h.texts()
    assert ("cut off: it may have done part of its work" in told) == (outcome == "unknown")


async def test_an_interrupted_read_only_round_is_repeated(h: Home) -> None:
    """It is one log line with its results; before that, the log has nothing of it."""
    await say_and_die(h, "call look there, look here", "before write said")
    assert sorted(h.effects.done) == ["look here", "look there"]
    assert "said" not in h.names()
    await recover(h)
    assert sorted(h.call_outcomes()) == [("look here", "ok"), ("look there", "ok")]
    assert len(h.effects.done) == 4


def keep(h: Home) -> Tool:
    async def run(given: Named, context: ToolContext) -> str:
        await trio.lowlevel.checkpoint()
        h.effects.done.append(f"keep {given.name}")
        return "kept"

    return Tool("keep", "Keep.", Named, run, effect="keyed", target=lambda given: given.name)


@pytest.mark.parametrize(
    ("rung", "frozen"), [("bubblewrap", False), ("landlock", False), ("direct", True)]
)
async def test_cp_15_commands_of_a_killed_elwood_are_ended(
    tmp_path: Path, rung: Rung, frozen: bool
) -> None:
    """A real command has children that ignore signals, one in a separate session.

    One launcher is kept from ending them: then the next start does.
    """
    try:
        (tmp_path / "try").mkdir()
        probe = SandboxSettings(kind=rung)
        await pick(probe, tmp_path / "try", tmp_path / "state", blocking=in_thread)
    except NoSandbox as error:
        pytest.skip(f"{rung.upper()} NOT TESTED: {error.why}")
    mark = make_marker()
    text = f"echo run >> runs; trap '' TERM HUP; (setsid sleep {mark} &); sleep {mark} & wait"
    wanted = msgspec.json.encode({"command": text, "timeout": 600}).decode()
    async with town(tmp_path / "town", more=f'[sandbox]\nkind = "{rung}"\n') as here:
        here.models.script = [Say(calls=(("run_command", wanted),))]
        await here.start()
        here.telegram.say("run it m0001")
        await here.until(lambda: here.open_questions())
        question = here.open_questions()[0]
        here.telegram.press(question.button("o"), message=question)
        await here.eventually(lambda: len(sleeping_processes(mark)) == 2)
        if frozen:
            [launcher] = here.command_processes()
            os.kill(launcher, signal.SIGSTOP)
        await here.kill()
        if frozen:
            assert len(sleeping_processes(mark)) == 2
            await here.start()
            assert sleeping_processes(mark) == []
        else:
            await here.eventually(lambda: not sleeping_processes(mark))
            await here.start()
        assert here.command_processes() == set()
        told = (
            "cut off: it may have done part of its work; I won't repeat it) · allowed once by you"
        )
        await here.until(lambda: any(told in text for text in here.sent_texts()))
        last = msgspec.json.encode(here.models.bodies[-1]["messages"])
        assert b"interrupted; it may or may not have happened" in last
        await here.stop()
        assert (here.folder / "workspace" / "runs").read_text() == "run\n"
        [journal] = here.journals().values()
        ended = [entry.outcome for entry in journal if isinstance(entry, CallEnded)]
        assert ended == ["unknown"]
        assert sum("May I " in text for text in here.telegram.texts()) == 1


# --- delivery -------------------------------------------------------------------------------------


async def test_cp_22_only_missing_parts_are_sent(h: Home) -> None:
    def long(request: ModelRequest) -> Completion:
        return answer("\n\n".join(f"part {n} {'x' * 4000}" for n in (1, 2, 3)))

    h.think = long
    await say_and_die(h, "hello", "before write posted", nth=2)
    heads = [text.split(" x")[0] for text in h.texts()]
    assert heads == ["part 1", "part 2"]
    await recover(h)
    heads = [text.split(" x")[0] for text in h.texts()]
    assert heads == ["part 1", "part 2", "(again) part 2", "part 3"]


# --- stops ----------------------------------------------------------------------------------------


async def test_cp_28_a_stop_waits_for_a_tool_and_accepts_nothing_more(h: Home) -> None:
    """`act` takes a second; a call without an end is cut by the grace period: test_service.py."""
    began = trio.Event()
    h.effects.before = lambda name: began.set()
    async with h.life() as life:
        h.fake.say("call act boldly")
        await began.wait()
        await life.until(lambda: not h.fake.unconfirmed)
        life.core.stop.set()
        await trio.sleep(0.1)
        late = h.fake.say("too late")
        await life.over.wait()
    assert h.fake.unconfirmed == [late]
    assert h.call_outcomes() == [("act boldly", "ok")]
    assert h.texts() == ["re: acted on boldly\n\n— What I actually did —\n✓ act boldly"]
    await recover(h)
    assert h.texts()[-1] == "re: too late"


# --- disks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [OWNER, OTHER])
async def test_cp_30_a_full_disk_accepts_nothing_and_says_so_once(h: Home, chat: int) -> None:
    """Neither in a conversation that is in memory nor in a new one."""
    async with h.life() as life:
        await life.say("first")
        h.disk.fill()
        number = h.fake.say("second", chat=chat, user=chat)
        await trio.sleep(120)
        assert h.fake.unconfirmed == [number]
        told = h.texts(chat)[-1]
        assert told.startswith("I cannot take messages now: no space on the disk")
        h.disk.clear()
        await life.wait_until_idle()
        assert h.texts(chat)[-2:] == [told, "re: second"]
        assert h.broken_promises() == []


async def test_cp_31_without_a_record_there_is_no_effect(h: Home) -> None:
    async with h.life() as life:
        h.disk.at("before write started", h.disk.fill)
        h.fake.say("call act boldly")
        await life.until(lambda: h.call_outcomes())
        assert h.effects.done == []
        assert h.call_outcomes() == [("act boldly", "failed")]
        [ended] = [entry for entry in h.entries() if isinstance(entry, CallEnded)]
        assert ended.text == "not run: the disk is full, so it could not be recorded first"
        h.disk.clear()
        await life.wait_until_idle()
        assert h.broken_promises() == []
        assert h.effects.done == []
        assert h.texts()[-1].endswith("✗ act boldly (failed)")


@pytest.mark.parametrize("left", ["reserve", "nothing", "nothing, and a kill"])
async def test_cp_32_the_reserve_is_used_for_results(h: Home, left: str) -> None:
    """Without even the reserve, Elwood waits for room with the result in memory.

    If it dies then, the call is unknown.
    """
    if left != "reserve":
        h.disk.reserve_is_worth = 0
    h.disk.at("before write ended", h.disk.fill)
    async with h.life() as life:
        h.fake.say("call act boldly")
        if left == "reserve":
            await life.wait_until_idle()
        else:
            await life.until(lambda: h.disk.full)
            await trio.sleep(100)
            assert h.call_outcomes() == []
            assert any("disk" in stuck for stuck in life.stuck_actors())
        if left == "nothing, and a kill":
            life.kill()
        h.disk.clear()
        if not life.was_killed:
            await life.wait_until_idle()
    await recover(h)
    assert h.call_outcomes() == [("act boldly", "unknown" if "kill" in left else "ok")]
    assert h.effects.done == ["act boldly"]


async def test_cp_33_a_failed_sync_stops_elwood(h: Home) -> None:
    h.disk.at("before sync received", h.disk.fail)
    async with h.life() as life:
        h.fake.say("hello")
        with trio.fail_after(60):
            await life.over.wait()
        assert life.escalated is not None
        assert "Input/output error" in str(life.escalated)
    tried = [step for step in h.disk.seen if "received" in step]
    assert tried[-1] == "before sync received+turn"  # it was not retried
    assert h.fake.unconfirmed == [1000]
    assert h.texts() == []
    await recover(h)
    assert isinstance(verify(h.journal()), Verified)
    assert h.texts() == ["re: hello"]


async def test_cp_34_a_damaged_journal_is_reported_and_not_changed(h: Home) -> None:
    h.settings["sessions"] = SessionSettings(idle=100.0)
    h.fake.say("hello")
    h.fake.say("hello", chat=OTHER, user=OTHER)
    await recover(h)
    whole = h.journal().read_bytes()
    damaged = whole.replace(b"hello", b"jello", 1)
    h.journal().write_bytes(damaged)
    async with h.life() as life:
        began = trio.current_time()
        h.fake.say("are you there?")
        h.fake.say("are you there?", chat=OTHER, user=OTHER)
        await life.until(lambda: h.alarms())
        assert trio.current_time() - began <= 60
        assert "line 1 is damaged" in h.alarms()[0]
        await trio.sleep(250)  # a session is refused during the retries
        h.fake.say("still there?")
        await life.until(lambda: not h.fake.unconfirmed)
        assert h.journal().read_bytes() == damaged
        with pytest.raises(JournalDamaged):
            verify(h.journal())
        assert [text.split(".")[0] for text in h.texts()] == [
            "re: hello",
            *["I could not take this message: I cannot read the log of this conversation"] * 2,
        ]
        assert h.texts(OTHER) == ["re: hello", "re: are you there?"]
        assert len(h.alarms()) == 1
        assert not any("Over" in text for text in h.fake.texts())
        h.journal().write_bytes(whole)
        await trio.sleep(150)
        await life.say("and now?")
    assert h.texts()[-1] == "re: and now?"
