"""A tool that calls tools: each nested call passes the gate and has its own receipt."""

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from elwood.agent.conversation.calls import Plan, SearchWeb
from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import CallEnded, CallNested, CallPending, CallStarted, Entry
from elwood.agent.session.turn import gate
from elwood.agent.tools.tool import NestedCallFailed, Output, Tool, ToolContext, ToolFailure
from tests.agent.session.gates import make_gate
from tests.agent.session.scripted import Named
from tests.agent.session.test_gate import NO, YES, Scene

pytestmark = pytest.mark.usefixtures("virtual_time")

Script = Callable[[ToolContext], Awaitable[str | Output]]


class Nesting(Scene):
    """A session with the tool `outer`, which runs *script*; `reader` is equal but read-only."""

    def __init__(self, script: Script, *calls: tuple[str, str], wait: float = 60.0) -> None:
        self.script = script
        super().__init__(*(calls or [("outer", "o")]), wait=wait)

    def tools(self) -> list[Tool]:
        async def outer(given: Named, context: ToolContext) -> str | Output:
            return await self.script(context)

        made = Tool("outer", "Call.", Named, outer, risk="write", target=lambda given: given.name)
        made = attrs.evolve(made, policy="allow")
        reader = attrs.evolve(made, name="reader", risk="read", effect="pure")
        return [*super().tools(), made, reader]

    @property
    def told(self) -> str:
        """The model's result of the outer call."""
        [result] = self.session.messages[-1].results  # type: ignore[union-attr]
        return str(result.text)

    @property
    def receipts(self) -> list[tuple[str, str, str]]:
        return [(e.call, e.tool, e.outcome) for e in self.entries if isinstance(e, CallEnded)]


async def call(context: ToolContext, tool: str, name: str = "x") -> str:
    """Make a call; return its result, or the text of its failure."""
    try:
        return (await context.call(tool, {"name": name})).text
    except NestedCallFailed as failure:
        return f"{failure.outcome}: {failure}"


def make_script(*wanted: tuple[str, str]) -> Script:
    async def script(context: ToolContext) -> str:
        return " | ".join([await call(context, *one) for one in wanted])

    return script


async def test_a_nested_read_has_a_receipt_without_a_write() -> None:
    scene = Nesting(make_script(("look", "a"), ("look", "b"), ("look", "c")))
    kept: list[Entry] = []
    written = scene.keep

    async def keep(*entries: Entry, last_words: bool = False, synced: bool = True) -> None:
        kept.extend(entries)
        await written(*entries, last_words=last_words)

    scene.keep = keep  # type: ignore[method-assign]
    scene.stage = written  # type: ignore[assignment, method-assign]
    await scene.perform()

    assert scene.told == "did a | did b | did c"
    assert scene.receipts == [
        ("c0.1", "look", "ok"),
        ("c0.2", "look", "ok"),
        ("c0.3", "look", "ok"),
        ("c0", "outer", "ok"),
    ]
    assert [e.place for e in scene.entries if isinstance(e, CallNested)] == [1, 2, 3]
    assert [type(entry) for entry in kept] == [CallStarted, CallEnded]  # of the outer call
    # Only the tool gets the text of a read.
    assert [e.text for e in scene.entries if isinstance(e, CallEnded)][:3] == ["", "", ""]
    turn = scene.session.turn
    assert turn is not None
    assert turn.made == 1


async def test_an_approved_nested_write_runs() -> None:
    scene = Nesting(make_script(("act", "a")))
    scene.approver.verdicts["act"] = YES
    await scene.perform()

    assert scene.told == "did a"
    [asked] = scene.approver.asked
    assert asked.question.call == "t1/c0.1"
    assert asked.question.why == "it may change something; it is part of outer o"
    kinds = [type(e) for e in scene.entries if getattr(e, "call", "") == "c0.1"]
    assert kinds.index(CallPending) < kinds.index(CallStarted) < kinds.index(CallEnded)
    assert scene.receipts == [("c0.1", "act", "ok"), ("c0", "outer", "ok")]
    assert turn_has_acted(scene)


def turn_has_acted(scene: Scene) -> bool:
    receipts = scene.session.turn.receipts if scene.session.turn is not None else []
    return any(one.outcome == "ok" and not one.looked for one in receipts)


async def test_a_tool_survives_a_denied_nested_call() -> None:
    scene = Nesting(
        make_script(("act", "a"), ("shell", "shutdown"), ("look", "b"), ("absent", "c"))
    )
    scene.approver.verdicts["act"] = NO
    await scene.perform()

    denied, forbidden, saw, absent = scene.told.split(" | ")
    assert denied == "denied: act: denied: the owner said no. Do not try it again in this turn."
    assert forbidden == "denied: shell: not allowed: it ends the machine"
    assert saw == "did b"
    assert absent.startswith("failed: absent: no such tool: absent")
    assert scene.done == ["b"]
    assert [outcome for _, _, outcome in scene.receipts] == [
        *("denied", "denied", "ok", "failed", "ok")
    ]


async def test_an_uncaught_nested_failure_fails_the_tool() -> None:
    async def script(context: ToolContext) -> str:
        return (await context.call("act", {"name": "a"})).text

    scene = Nesting(script)
    scene.approver.verdicts["act"] = NO
    await scene.perform()
    assert scene.receipts == [("c0.1", "act", "denied"), ("c0", "outer", "failed")]
    assert scene.told.startswith("act: denied: the owner said no")


async def test_waiting_for_approval_costs_the_tool_no_time() -> None:
    scene = Nesting(make_script(("act", "a"), ("act", "b")), wait=300.0)
    scene.gate = make_gate(scene, scene.tools(), approver=scene.approver, rules=Rules(), wait=300.0)
    scene.approver.hint = scene.gate.approvals.hints.give

    async def decide() -> None:
        for _ in range(2):
            await trio.sleep(200)  # more than the 60 s of a tool
            scene.approver.rule(YES)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(decide)
        await scene.perform()
    assert scene.done == ["a", "b"]


async def test_an_unanswered_question_is_withdrawn_with_its_call() -> None:
    """Unlike a model's call, a running tool cannot wait for days."""
    scene = Nesting(make_script(("act", "a")))
    await scene.perform()
    assert scene.told.startswith("denied: act: not run: the owner did not answer")
    assert scene.approver.withdrawn == ["t1/c0.1"]
    assert not scene.session.pending


async def test_a_nested_call_taints_its_tool() -> None:
    async def script(context: ToolContext) -> str:
        page = await context.call("fetch", {"name": "evil.example"})
        assert page == Output("obey me", untrusted=True, origin="evil.example")
        return f"all is well | {await call(context, 'act', 'a')}"

    scene = Nesting(script)
    await scene.perform()

    [asked] = scene.approver.asked
    assert asked.question.origins == ("evil.example",)
    ended = scene.entries[-1]
    assert isinstance(ended, CallEnded)
    assert (ended.call, ended.label, ended.origin) == (
        *("c0", Label(untrusted=True)),
        "evil.example",
    )
    assert scene.session.taint.label.untrusted


async def test_nested_reads_run_in_parallel() -> None:
    most, running = dict[str, int](), dict[str, int]()

    async def during(scene: Scene) -> None:
        name = "looks" if not scene.of(CallStarted)[1:] else "acts"
        running[name] = running.get(name, 0) + 1
        most[name] = max(most.get(name, 0), running[name])
        await trio.sleep(1)
        running[name] -= 1

    def together(tool: str) -> Script:
        async def script(context: ToolContext) -> str:
            async with trio.open_nursery() as nursery:
                for name in "abc":
                    nursery.start_soon(call, context, tool, name)
            return "done"

        return script

    for tool in ("look", "act"):
        scene = Nesting(together(tool))
        scene.approver.verdicts["act"] = YES
        scene.during = partial(during, scene)
        await scene.perform()
        assert sorted(scene.done) == ["a", "b", "c"]
        assert sorted(key for key, _, _ in scene.receipts) == ["c0", "c0.1", "c0.2", "c0.3"]
    assert most == {"looks": 3, "acts": 1}


async def test_a_nested_call_needs_the_rights_of_its_tool() -> None:
    """A read-only tool runs in parallel with others, and again after a crash."""
    scene = Nesting(make_script(("act", "a"), ("look", "b")), ("reader", "r"))
    await scene.perform()
    assert scene.told == (
        "denied: act: reader only reads, so it may only call tools that read | did b"
    )
    assert scene.approver.asked == []


async def test_arguments_must_be_json() -> None:
    async def script(context: ToolContext) -> str:
        return " | ".join([await call(context, "look", bad) for bad in ("\ud800", object())])  # type: ignore[arg-type]

    scene = Nesting(script)
    await scene.perform()
    assert scene.told.count("failed: look: bad arguments: ") == 2
    assert scene.receipts == [("c0", "outer", "ok")]


async def test_hidden_arguments_stay_hidden_in_nested_calls() -> None:
    scene = Nesting(make_script(("look", "hunter2")))
    await scene.perform()
    assert scene.done == ["hunter2"]
    assert "hunter2" not in str(scene.entries)


async def test_nested_calls_cannot_nest_further() -> None:
    async def script(context: ToolContext) -> str:
        return await call(context, "outer", "inner")

    scene = Nesting(script)
    await scene.perform()
    assert "cannot be called from here" in scene.told
    assert scene.receipts == [("c0.1", "outer", "ok"), ("c0", "outer", "ok")]


async def test_nested_calls_have_their_own_limit() -> None:
    async def script(context: ToolContext) -> str:
        made = [await call(context, "look") for _ in range(gate.MAX_NESTED + 2)]
        return f"{len([one for one in made if one == 'did x'])} {made[-1]}"

    scene = Nesting(script)
    await scene.perform()
    assert scene.told.startswith("1000 denied: look: this turn has already made 1000 nested calls")
    assert len(scene.receipts) == gate.MAX_NESTED + 1


async def test_a_finished_tool_makes_no_calls() -> None:
    async with trio.open_nursery() as background:
        late: list[str] = []

        async def linger(context: ToolContext) -> None:
            await trio.sleep(5)
            late.append(await call(context, "act"))

        async def script(context: ToolContext) -> str:
            await trio.lowlevel.checkpoint()
            background.start_soon(linger, context)
            return "gone"

        scene = Nesting(script)
        await scene.perform()
    assert late == ["denied: act: the call that made it has ended"]
    assert scene.receipts == [("c0", "outer", "ok")]


async def test_a_background_call_ends_before_its_tool() -> None:
    async with trio.open_nursery() as background:
        late: list[str] = []

        async def linger(context: ToolContext) -> None:
            late.append(await call(context, "act"))

        async def script(context: ToolContext) -> str:
            background.start_soon(linger, context)
            await trio.sleep(5)
            return "gone"

        scene = Nesting(script)
        scene.approver.verdicts["act"] = YES
        scene.during = trio.sleep_forever
        await scene.perform()
    assert late == ["unknown: act: the call that made it has ended"]
    assert scene.receipts == [("c0.1", "act", "unknown"), ("c0", "outer", "ok")]


async def test_an_abandoned_nested_call_has_an_unknown_outcome() -> None:
    async def script(context: ToolContext) -> str:
        with trio.move_on_after(5):
            await call(context, "act", "a")
        return "went on"

    scene = Nesting(script)
    scene.approver.verdicts["act"] = YES
    scene.during = trio.sleep_forever
    await scene.perform()
    assert scene.receipts == [("c0.1", "act", "unknown"), ("c0", "outer", "ok")]


@pytest.mark.parametrize(
    ("answered", "inner", "told"),
    [(True, "unknown", "It had made these calls: act a (unknown)."), (False, "denied", "")],
)
async def test_a_stop_ends_both_calls(answered: bool, inner: str, told: str) -> None:
    scene = Nesting(make_script(("act", "a")))
    if answered:
        scene.approver.verdicts["act"] = YES
    scene.during = trio.sleep_forever
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.perform)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.approver.run, scene.approver.mailbox)
        await scene.gate.abandon()
        nursery.cancel_scope.cancel()
    assert scene.receipts == [("c0.1", "act", inner), ("c0", "outer", "unknown")]
    assert scene.told.startswith("stopped; interrupted; it may or may not have happened")
    assert told in scene.told


async def test_nested_private_text_needs_approval() -> None:
    """The model has not seen the text, so no message of the conversation contains it."""
    secret = "the plan of the party is a boat trip with twelve friends on the lake in May"

    async def script(context: ToolContext) -> str:
        found = await context.call("diary", {"name": "d"})
        return await call(context, "search", found.text)

    async def diary(given: Named, context: ToolContext) -> Output:
        await trio.lowlevel.checkpoint()
        return Output(secret, private=True)

    scene = Nesting(script)
    scene.gate = make_gate(
        scene,
        [
            *scene.tools(),
            Tool("diary", "Read.", Named, diary, risk="read", effect="pure"),
            make_search_tool(scene),
        ],
        approver=scene.approver,
        rules=Rules(),
        wait=1.0,
    )
    await scene.perform()
    [asked] = scene.approver.asked
    assert "contain text from" in asked.question.why
    assert scene.done == []


def make_search_tool(scene: Scene) -> Tool:
    async def search(given: Named, context: ToolContext) -> str:
        scene.done.append(given.name)
        raise ToolFailure("nothing found")

    async def plan(given: Named, context: ToolContext) -> Plan:
        await trio.lowlevel.checkpoint()
        return Plan(SearchWeb(), given.name, outgoing=given.name)

    return Tool("search", "Search.", Named, search, risk="read", effect="pure", plan=plan)
