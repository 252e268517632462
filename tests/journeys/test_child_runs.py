"""A call starts a child run in a separate session: bounded, labelled, never run twice."""

from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.inbound import Inbound, Principal, Taken
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import Completion, Human
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import Budget, RunBounds
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.client import MAX_AT_ONCE, MAX_IN_TURN, RunClient
from elwood.agent.session.log.entries import CallEnded, CallStarted, Received, Replied
from elwood.agent.tools.tool import Output, Tool, ToolContext
from elwood.features.console.intake import NAME
from tests.agent.session.scripted import Named, answer, call
from tests.child_runs_feature import feature
from tests.fake_telegram import OWNER
from tests.journeys.crashing import SteppedDisk
from tests.journeys.home import EPOCH, MINE, Home, follow_message, home, newest_message

CHILD = f"{MINE}~1"


def call_results(h: Home) -> list[tuple[str, str]]:
    """Return the outcome and text of each call of the parent."""
    return [(one.outcome, one.text) for one in h.entries() if isinstance(one, CallEnded)]


def order(*prompts: str) -> Completion:
    """Build a response that calls the tool for each prompt."""
    return call(*((f"c{n}", "order", f'{{"name": "{one}"}}') for n, one in enumerate(prompts)))


async def read(given: Named, context: ToolContext) -> Output:
    await trio.lowlevel.checkpoint()
    return Output("words of strangers", untrusted=True, private=True, origin="example.org")


async def stall(given: Named, context: ToolContext) -> Output:
    await trio.sleep_forever()
    raise AssertionError


STALL = Tool(
    "stall",
    "Never end.",
    Named,
    stall,
    risk="read",
    effect="pure",
    timeout=600.0,
    target=lambda given: given.name,
)
READ = Tool("read", "Read.", Named, read, risk="read", effect="pure")


async def test_a_child_run_answers_only_its_parent(h: Home) -> None:
    h.more_channels = (feature(),)
    async with h.life() as life:
        said = await life.say("call order call act lamp")
        assert life.actor_table.statuses[f"child runs/{CHILD}"]
    [asked] = [one for one in h.entries(CHILD) if isinstance(one, Received)]
    assert asked.bounds is not None
    bounds = asked.bounds
    assert (bounds.owner, bounds.parent, bounds.tools) == (
        MINE,
        MINE,
        ("look", "act", "hang", "order"),
    )
    assert bounds.budget == Budget(tokens=100_000)
    assert EPOCH + 60 < (bounds.deadline or 0.0) < EPOCH + 180
    assert h.effects.done == ["act lamp"]
    assert said.startswith(
        "re: re: acted on lamp\n\n— What I actually did —\n✓ order call act lamp"
    )
    assert len(h.texts()) == 1
    assert {one.job for one in h.usage_entries()} == {"", MINE}
    assert h.broken_promises() == []


def test_a_person_cannot_name_a_child_run() -> None:
    assert NAME.fullmatch(MINE)
    assert not NAME.fullmatch(CHILD)


async def test_a_child_has_only_its_allowed_tools(h: Home) -> None:
    h.more_channels = (feature(children=("look",)),)
    async with h.life() as life:
        said = await life.say("call order call act lamp")
    assert "no such tool: act; available: look" in said
    assert h.effects.done == []


async def test_a_child_has_no_children(h: Home) -> None:
    h.more_channels = (feature(),)

    def think(request: ModelRequest) -> Completion:
        return (
            order("call order it") if newest_message(request) == "go" else follow_message(request)
        )

    h.think = think
    async with h.life() as life:
        assert "a child run cannot start child runs" in await life.say("go")
    assert sorted(h.sessions) == [MINE, CHILD]


async def test_the_childs_label_reaches_the_parent(h: Home) -> None:
    h.more_channels = (feature(READ),)
    async with h.life() as life:
        await life.say("hello")
        assert h.fold().taint.label == CLEAN
        await life.say("call order call read it")
    assert h.fold().taint.label == Label(untrusted=True, private=True)
    assert list(h.fold().taint.sources) == [f"the answer of {CHILD}"]


async def test_the_parents_label_reaches_the_child(h: Home) -> None:
    h.more_channels = (feature(READ),)
    async with h.life() as life:
        await life.say("call read it", "call order hello")
    assert h.fold(f"{MINE}~2").taint.label == Label(untrusted=True, private=True)
    assert not h.fold(f"{MINE}~2").named


async def test_a_deadline_ends_a_child_and_fails_the_call(h: Home) -> None:
    h.more_channels = (feature(READ, STALL, seconds=30.0, children=("read", "stall")),)

    def think(request: ModelRequest) -> Completion:
        if newest_message(request) == "go":
            return call(("c1", "read", '{"name": "it"}'), ("c2", "stall", '{"name": "it"}'))
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        await life.say("call order go")
    [(outcome, text)] = call_results(h)
    assert outcome == "failed"
    assert (
        text == "I stopped after 30 s, the time limit of this run. I was still running “stall it”."
    )
    assert h.fold().taint.label == Label(untrusted=True, private=True)
    assert h.fold(CHILD).is_idle
    assert h.broken_promises() == []


async def test_a_child_whose_deadline_passed_while_elwood_was_off_is_ended(h: Home) -> None:
    h.more_channels = (feature(STALL, children=("stall",)),)
    async with h.life() as life:
        h.fake.say("call order call stall it")
        await life.until(lambda: CHILD in h.sessions and "turn" in h.names(CHILD))
        await trio.sleep(5)
        life.kill()
        await life.wait_for_kill()
    h.clock_error -= 1000
    async with h.life() as life:
        await life.wait_until_idle()
    assert [text.partition(". ")[0] for _, text in call_results(h)] == [
        "I stopped after 0 s, the time limit of this run"
    ]


async def test_a_stop_of_the_parent_stops_the_child(h: Home) -> None:
    h.more_channels = (feature(),)
    async with h.life() as life:
        h.fake.say("call order call hang")
        await h.effects.hang.wait()
        stopped = await life.say("/stop")
    assert stopped.startswith("Stopped. I was still running “order call hang”.")
    [end] = [one for one in h.entries() if isinstance(one, CallEnded)]
    assert (end.outcome, end.acted) == ("failed", True)
    assert end.text == "The call that started this run was stopped. I was still running “hang”."
    assert sum("? hang (cut off" in text for text in h.texts()) == 1
    assert h.fold(CHILD).is_idle
    assert h.broken_promises() == []


async def test_a_stop_interrupted_by_a_crash_still_stops_the_child(h: Home) -> None:
    h.more_channels = (feature(),)
    async with h.life() as life:
        h.fake.say("call order call hang")
        await h.effects.hang.wait()
        h.kill("after sync received")
        h.fake.say("/stop")
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
    assert h.texts()[-1].startswith("Stopped. I was still running “order call hang”.")
    assert [outcome for outcome, _ in call_results(h)] == ["failed"]
    assert h.fold(CHILD).is_idle


async def test_an_orderly_restart_does_not_stop_a_child(h: Home) -> None:
    """The parent does not delay the stop, and finds its child again."""
    h.more_channels = (feature(),)
    released = trio.Event()

    async def think(request: ModelRequest) -> Completion:
        if newest_message(request) == "wait":
            await released.wait()
            return answer("done waiting")
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        h.fake.say("call order wait")
        await life.until(lambda: CHILD in h.sessions and "turn" in h.names(CHILD))
        began = trio.current_time()
    assert trio.current_time() - began < 10
    released.set()
    async with h.life() as life:
        await life.wait_until_idle()
    assert call_results(h) == [("ok", "done waiting")]
    assert sum(isinstance(one, CallStarted) for one in h.entries()) == 1
    assert sum(isinstance(one, Replied) for one in h.entries(CHILD)) == 1
    assert h.broken_promises() == []


async def test_a_child_stays_within_the_bounds_of_its_run(h: Home) -> None:
    """The child is charged to the same task, and its effects count as the task's."""
    h.more_channels = (feature(),)
    own = RunBounds("inbox", tools=("order", "act"), budget=Budget(tokens=50_000), series=3)

    def asked() -> Inbound:
        return Inbound(
            session="task-inbox",
            id="task:inbox:1",
            principal=Principal("task:inbox", "inbox", owner=True),
            route=Route("telegram", chat=str(OWNER)),
            text="call order call act lamp",
            sent_at=h.now(),
            bounds=own,
        )

    async with h.life() as life:
        runs = RunClient(life.core.sessions)
        assert await runs.begin(asked) == Taken()
        done = await runs.wait("task-inbox", "task:inbox:1")
        await life.wait_until_idle()
    assert done is not None
    assert (done.failed, done.acted) == (False, True)
    [child] = [one for one in h.entries("task-inbox~1") if isinstance(one, Received)]
    assert child.bounds is not None
    assert (child.bounds.owner, child.bounds.budget, child.bounds.series) == (
        "inbox",
        own.budget,
        3,
    )
    assert child.bounds.tools == ("act", "order")
    assert {one.job for one in h.usage_entries()} == {"inbox"}
    assert h.effects.done == ["act lamp"]


async def test_the_number_of_children_is_bounded(h: Home) -> None:
    h.more_channels = (feature(),)

    def think(request: ModelRequest) -> Completion:
        if newest_message(request) == "go":
            return order(*(f"call look {n}" for n in range(MAX_IN_TURN + 1)))
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        await life.say("go")
    assert h.effects.most_together == MAX_AT_ONCE
    assert len(h.effects.done) == MAX_IN_TURN
    failed = [text for outcome, text in call_results(h) if outcome != "ok"]
    assert failed == [f"one turn can start at most {MAX_IN_TURN} child runs"]


async def test_the_person_is_told_when_a_childs_call_is_allowed_later(h: Home) -> None:
    """The parent has its answer already."""
    h.more_channels = (feature(children=("destroy",)),)

    def think(request: ModelRequest) -> Completion:
        if newest_message(request) == "go":
            return order("call destroy lamp")
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        h.fake.say("go")
        await life.until(lambda: h.fake.button("Allow once"), 100)
        await life.until(lambda: call_results(h), 700)
        [(outcome, text)] = call_results(h)
        assert outcome == "ok"
        assert "waits for the owner" in text
        found = h.fake.button("Allow once")
        assert found is not None
        h.fake.press(found[0], message=found[1])
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
    assert h.effects.done == ["act lamp"]
    assert "acted on lamp" in h.texts()[-1]


@pytest.mark.parametrize("first", [1, 4, 7, 10])
async def test_a_kill_never_runs_a_child_twice(
    tmp_path: Path, virtual_time: None, first: int
) -> None:
    """For kills after each step from the call on: one outcome, at most one effect."""
    steps = 0
    death = first
    while True:
        async with home(tmp_path / str(death)) as h:
            h.more_channels = (feature(),)
            disk = SteppedDisk(armed=False, deaths=[death])
            h.disk = disk

            def think(request: ModelRequest) -> Completion:
                if isinstance(request.messages[-1], Human):
                    disk.armed = True  # noqa: B023
                return follow_message(request)

            h.think = think
            async with h.life() as life:
                h.fake.say("call order call act lamp")
                with trio.move_on_after(60):
                    await life.over.wait()
                died = life.was_killed
            async with h.life() as life:
                await life.wait_until_idle()
            assert len(call_results(h)) == 1
            assert sum(isinstance(one, Replied) for one in h.entries()) == 1
            assert sum(isinstance(one, Replied) for one in h.entries(CHILD)) == 1
            [end] = [one for one in h.entries(CHILD) if isinstance(one, CallEnded)]
            assert h.effects.done == ["act lamp"] or end.outcome == "unknown"
            assert h.broken_promises() == []
        if not died:
            break
        steps += 1
        death += 12
    assert steps > 1
