"""Task runs in a session: bounded, separate from messages, and reported."""

from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.inbound import Inbound, Principal, Taken
from elwood.agent.conversation.message import Human, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import QUIET, Budget, RunBounds
from elwood.agent.models.messages import Complete, Completed, ModelUnavailable
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Await, StopRun
from tests.agent.session.scene import ROUTE, Process, World, run_process
from tests.agent.session.scripted import answer, call

TASK = Principal("task:inbox", "inbox", owner=True)
BOUNDS = RunBounds("inbox", role="cheap", budget=Budget(tokens=1000))
LONG = "The disk of the machine in the cellar is full since noon."
WORDS = "⏰ /call mum"


@pytest.fixture
def world(tmp_path: Path, virtual_time: None) -> World:
    return World(tmp_path)


async def run(
    h: Process,
    id_: str,
    text: str,
    bounds: RunBounds = BOUNDS,
    session: str = "task-inbox",
    route: Route = ROUTE,
) -> RunResult | None:
    """Start a run about *text*, like the scheduler."""

    def make() -> Inbound:
        return Inbound(
            session=session,
            id=id_,
            principal=TASK,
            route=route,
            text=text,
            sent_at=h.world.now(),
            bounds=bounds,
        )

    assert await h.sessions.address.insist(make) == Taken()
    return await h.sessions.address.insist(lambda: Await(session=session, id=id_))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"**{QUIET}**", ""),
        ("`Heartbeat ok.`", ""),
        ("HEARTBEAT_OK: nothing needs your attention.", ""),
        ("Nichts Neues. heartbeat_ok", ""),
        ("Looked at the inbox and the calendar: all quiet. HEARTBEAT_OK", ""),
        (f"{LONG} HEARTBEAT_OK", LONG),
        ("The pump sends no heartbeat ok signal.", "The pump sends no heartbeat ok signal."),
        ("Nothing new, but the door is open.", "Nothing new, but the door is open."),
    ],
)
async def test_silent_runs_send_nothing(world: World, said: str, told: str) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return answer(said)

    world.model = model
    async with run_process(world) as h:
        done = await run(h, "task:1", "look")
        await h.quiet()

    assert isinstance(done, RunResult)
    assert done.text == told
    assert world.said == [told] * bool(told)


WHY = "The run took longer than 30 minutes"


async def stop_run(h: Process, id_: str, session: str = "task-inbox") -> RunResult | None:
    """Stop a run, like the scheduler at its limit."""
    return await h.sessions.address.insist(lambda: StopRun(session=session, id=id_, why=WHY))


async def test_a_stopped_run_names_the_interrupted_work(world: World) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return call(("c", "hang", "{}"))

    world.model = model
    async with run_process(world) as h, trio.open_nursery() as nursery:
        nursery.start_soon(run, h, "task:1", "look")
        await world.effects.hang.wait()
        first = await stop_run(h, "task:1")
        assert first == await stop_run(h, "task:1")
    assert first is not None
    assert first.text.startswith(f"{WHY}. I was still running “hang”.")
    assert (first.failed, first.acted) == (True, True)


async def test_a_run_stopped_after_a_restart_does_not_continue(world: World) -> None:
    async def model(request: Complete) -> Completed:
        await trio.sleep_forever()
        raise AssertionError

    world.model = model
    async with run_process(world) as h, trio.open_nursery() as nursery:
        nursery.start_soon(run, h, "task:1", "look")
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    async with run_process(world) as h:
        result = await stop_run(h, "task:1")
    assert result == RunResult(f"{WHY}. I was still writing the answer.", failed=True)


async def test_a_run_stopped_early_never_starts(world: World) -> None:
    """The turn before it belongs to a person and continues."""

    async def model(request: Complete) -> Completed:
        await trio.sleep(100)
        return answer("hello")

    world.model = model
    async with run_process(world) as h, trio.open_nursery() as nursery:
        await h.say("work")
        bounds = RunBounds("inbox", fresh=False)
        nursery.start_soon(run, h, "task:1", "look", bounds, "s")
        await trio.sleep(10)
        result = await stop_run(h, "task:1", "s")
        waited = world.now()
        await h.quiet()
        assert world.now() - waited > 80
    assert result == RunResult(f"{WHY}. It had not started.", failed=True)
    assert (len(world.asked), world.said) == (1, ["hello"])


async def test_an_unknown_run_cannot_be_stopped(world: World) -> None:
    async with run_process(world) as h:
        assert await stop_run(h, "task:1") is None


async def test_stopping_a_silent_run_is_confirmed(world: World) -> None:
    began = trio.Event()

    async def model(request: Complete) -> Completed:
        began.set()
        await trio.sleep_forever()
        raise AssertionError

    world.model = model
    bounds = RunBounds("inbox", fresh=False, says="silent")
    async with run_process(world) as h, trio.open_nursery() as nursery:
        nursery.start_soon(run, h, "task:1", "look", bounds, "s", Route("nowhere"))
        await began.wait()
        await h.say("/stop")
        await h.quiet()

    assert len(world.said) == 1
    assert world.said[0].startswith("Stopped.")


@pytest.mark.parametrize(("fresh", "said"), [(True, 1), (False, 3)])
async def test_a_run_starts_empty_or_continues(world: World, fresh: bool, said: int) -> None:
    async with run_process(world) as h:
        for number in range(3):
            await run(h, f"task:{number}", "look", RunBounds("inbox", fresh=fresh))

    assert sum(isinstance(m, Human) for m in world.asked[-1].messages) == said


async def test_a_failed_run_reports_its_effects(world: World) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        if len(request.messages) > 1:
            return ModelUnavailable("it is gone")
        return call(("c1", "act", '{"name": "x"}'))

    world.model = model
    async with run_process(world) as h:
        done = await run(h, "task:1", "look")
        await h.quiet()

    assert done == RunResult("I cannot answer now: it is gone", True, acted=True)
    assert world.said == []


async def test_messages_and_runs_have_separate_turns(world: World) -> None:
    """No message joins a run, and no run joins a person's turn."""
    began, go = trio.Event(), trio.Event()

    async def model(request: Complete) -> Completed:
        began.set()
        await go.wait()
        said = [m.text.split("\n")[-1] for m in request.messages if isinstance(m, Human)]
        return answer("re: " + " | ".join(said[-1:]))

    world.model = model
    bounds = RunBounds("inbox", fresh=False)
    async with run_process(world) as h, trio.open_nursery() as nursery:
        await h.say("first")
        await began.wait()
        nursery.start_soon(run, h, "task:1", "look", bounds, "s")
        await trio.testing.wait_all_tasks_blocked()
        await h.say("second")
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        await h.quiet()

    assert world.said == ["re: second", "re: look"]


async def test_the_daily_note_lists_effective_runs(world: World) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        acts = "act" in str(request.messages[0]) and len(request.messages) == 1
        return call(("c1", "act", '{"name": "x"}')) if acts else answer(QUIET)

    world.model = model
    async with run_process(world) as h:
        await run(h, "task:1", "look")
        assert h.states["task-inbox"].done is None
        await run(h, "task:2", "act")
        done = h.states["task-inbox"].done
        assert done is not None
        assert done.asked == ("(the task inbox)",)


async def test_a_reminder_needs_no_model(world: World) -> None:
    async with run_process(world) as h:
        bounds = RunBounds("call", says="text")
        assert await run(h, "task:1", "⏰ /call mum", bounds, "s") == RunResult(
            "⏰ /call mum", told=ROUTE
        )
        await h.quiet()
        assert world.asked == []
        await h.say("thanks")
        await h.quiet()

    assert world.said[0] == WORDS
    told = [m.text for m in world.asked[-1].messages if isinstance(m, Notice)]
    assert any(WORDS in text for text in told), "the model knows the sent text"


async def test_the_owners_conversation_learns_of_posted_news(world: World) -> None:
    async with run_process(world) as h:
        note = RunBounds("inbox", says="note", private=True)
        await run(h, "task:1:note", "Three mails.", note, "s")
        await run(h, "task:1:note", "Three mails.", note, "s")
        assert h.states["s"].taint.private
        await h.say("answer the second")
        await h.quiet()

    assert len(world.said) == 1, "the person has it already"
    told = [m.text for m in world.asked[-1].messages if isinstance(m, Notice)]
    assert len(told) == 1
    assert "Three mails." in told[0]


async def test_only_the_newest_news_are_kept(world: World) -> None:
    async with run_process(world) as h:
        for number in range(30):
            note = RunBounds("inbox", says="note")
            await run(h, f"task:{number}:note", f"mail {number} " + "x" * 5000, note, "s")
        await h.say("thanks")
        await h.quiet()

    [told] = [m.text for m in world.asked[-1].messages if isinstance(m, Notice)]
    assert "mail 19" not in told
    assert all(f"mail {number} " in told for number in range(20, 30))
    assert len(told) < 15_000


async def test_a_run_survives_a_restart(world: World) -> None:
    async with run_process(world) as h:
        await run(h, "task:1", "look")
        await h.quiet()
    async with run_process(world) as h:
        assert await run(h, "task:1", "look") == RunResult("re: look", told=ROUTE)
        await h.quiet()

    assert world.said == ["re: look"]
    assert len(world.asked) == 1


async def test_an_unknown_run_has_no_news(world: World) -> None:
    async with run_process(world) as h:
        asked = await h.sessions.address.ask(Await(session="s", id="task:9"))

    assert asked is None
