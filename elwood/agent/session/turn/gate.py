"""The only way to run a tool: validate, examine, decide, ask the owner, record, run, record.

The log holds the start of a call before the call has any effect, and its result before anybody
learns of it.
"""

import logging
from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TypeVar

import attrs
import msgspec
import trio

from elwood.agent.conversation.calls import (
    DEEDS,
    CallRemote,
    Deed,
    FetchUrl,
    Other,
    Outcome,
    Plan,
    Quotation,
    Schedule,
    SearchWeb,
    WriteFile,
    bind_scope,
    exact,
)
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import INTERRUPTED, ToolCall
from elwood.agent.conversation.run import PRINCIPAL as TASK
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.policy.decide import (
    Allow,
    Ask,
    Decision,
    Deny,
    Rules,
    Situation,
    Who,
    decide,
    has_effect,
    version,
)
from elwood.agent.policy.quotations import OutgoingText
from elwood.agent.policy.settings import PolicySettings, Word
from elwood.agent.session.core import Core
from elwood.agent.session.log.branch import PrivateText
from elwood.agent.session.log.entries import CallEnded, CallNested, CallStarted
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import OpenCall, filter_tools
from elwood.agent.session.turn.approval_client import ApprovalClient, CallNotRun, ExaminedCall
from elwood.agent.session.turn.quoting import (
    KnownText,
    find_quotation,
    is_public,
    leaving_text,
    yield_known_texts,
)
from elwood.agent.session.turn.running import RunningTool
from elwood.agent.tools.tool import (
    Call,
    NestedCallFailed,
    Output,
    Tool,
    ToolContext,
    ToolFailure,
    decode_arguments,
    in_words,
    refuse_call,
)
from elwood.foundation.log import event
from elwood.foundation.runtime import ActorUnavailable
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import one_line

log = logging.getLogger("elwood.tools")
# Tool inputs and outputs, at debug level because they may be private.
payloads = logging.getLogger("elwood.tools.payloads")

T = TypeVar("T")
ShowDetail = Callable[[str, str | Callable[[], str]], None]
# Characters of a shown change of a file, and lines of shown output.
MAX_CHANGE, MAX_LINES = 16_000, 20
# Characters of a target, and of the result of an unknown tool.
MAX_TARGET, MAX_TEXT = 200, 2000
# Label of the results of tools that read public sources.
STRANGE = Label(untrusted=True)
# Nested calls in one turn. A sandboxed program makes hundreds; each is a line of the log.
MAX_NESTED = 1_000
# Characters of arguments and results of nested calls in the log, and of private results of one
# outer call that are compared with outgoing text.
MAX_NESTED_ARGUMENTS, MAX_NESTED_TEXT, MAX_COMPARED = 10_000, 300, 400_000
# Nested calls of an interrupted call that the model is shown; the receipts have all.
MAX_DEEDS = 20
# Effects of tools that may run again after a crash.
AGAIN = ("pure", "keyed")
# How often a call is examined again because its plan changed while the owner thought.
MAX_CHANGES = 3


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    """All tools and the rules for them."""

    tools: Mapping[str, Tool]  # may change at any time
    rules: Rules
    version: str  # of *rules*
    owners: Collection[str]  # principals whose words are the owner's
    zone: str = "UTC"  # of the owner, an IANA name
    dry_run: bool = False  # answer each call that would change something with "dry run"
    deadline: float = 60.0  # upper limit for any tool, seconds
    timeouts: Mapping[str, float] = {}  # limits in seconds by tool; the default is the tool's own

    def get_speaker(self, principal: str) -> Who:
        if principal.startswith(TASK):
            return "task"
        return "owner" if principal in self.owners else "guest"


@attrs.define(eq=False)
class Gate:
    """Runs the calls of one session's turns; *now* is the wall clock.

    *show* shows more about a call, by its tool and target, as `Showing.show_detail` does.
    """

    _log: SessionLog
    _toolset: Toolset
    approvals: ApprovalClient
    _redactor: Redactor
    _now: Callable[[], float]
    _show: ShowDetail = lambda step, text: None
    _began: dict[str, float] = attrs.field(factory=dict, init=False)
    # Number of nested calls in the turn of this id.
    _counting: str = attrs.field(default="", init=False)
    _nested: int = attrs.field(default=0, init=False)
    _level: int = attrs.field(default=logging.INFO, init=False)

    async def perform(self) -> None:
        """Complete every call of the turn; adjacent calls that only read run concurrently.

        The effect class decides about a call that was running when the process died: pure and keyed
        ones run again, others are unknown and not repeated (CP-14 to CP-16).
        """
        left = [call for call in self._log.turn.calls.values() if call.ended is None]
        await self._end_nested()
        until = await self._ask_ahead(left)
        for reads, calls in groupby(left, lambda call: self.only_reads(call.call)):
            if reads:
                first, *others = calls
                if not others:
                    await self._perform(first, until)
                    continue
                async with trio.open_nursery() as nursery:
                    for call in (first, *others):
                        nursery.start_soon(self._perform, call, until)
            else:
                for call in calls:
                    await self._perform(call, until)
        # Reads are not written yet; they may be repeated after a power cut.
        await self._log.keep(last_words=True, synced=False)

    async def abandon(self) -> None:
        """Record the outcomes of the calls of a turn that was stopped while they ran."""
        await self._end_nested()
        for call in self._log.turn.unended:
            await self._end_unfinished(call)

    async def _end_nested(self, outer: OpenCall | None = None) -> None:
        """End the unfinished calls within *outer*, or within any call."""
        for call in list(self._log.turn.nested.values()):
            if outer is None or call.outer is outer:
                await self._end_unfinished(call)

    async def _end_unfinished(self, call: OpenCall) -> None:
        """Record the known state of an unfinished call."""
        is_look = call.outer is not None and call.pending is None
        if (output := await self._stop_elsewhere(call)) is not None:
            await self._end(call, "failed", output)
        elif call.started is not None and call.started.effect != "pure":
            await self._end(call, "unknown", Output(f"stopped; {INTERRUPTED}{_list_nested(call)}"))
        elif call.started is not None or is_look:
            await self._end(call, "failed", Output("stopped"))
        elif call.pending is not None:
            is_allowed = await self.approvals.close_question(call, call.pending)
            outcome: Outcome = "failed" if is_allowed else "denied"
            await self._end(call, outcome, Output("stopped before it began"))

    # --- a call from within a call ---------------------------------------------------------------

    async def run_look(self, call: OpenCall) -> CallEnded:
        """Make a call that only looks. It is denied if it needs the owner's approval."""
        self._level = logging.DEBUG  # hundreds a day
        return await self._perform(call, None)

    async def _call_within(
        self, outer: OpenCall, running: RunningTool, name: str, arguments: Mapping[str, object]
    ) -> Output:
        """Make a call for the tool of *outer*.  Raises NestedCallFailed."""
        turn, name = self._log.turn, self._clean(name, MAX_TARGET)
        if self._counting != turn.id:
            self._counting, self._nested = turn.id, turn.within
        if running.is_over or self._nested >= MAX_NESTED:
            why = "the call that made it has ended"
            if not running.is_over:
                why = f"this turn has already made {MAX_NESTED} nested calls"
            raise NestedCallFailed(f"{name}: {why}", "denied")
        try:
            raw = msgspec.json.encode(arguments).decode()
        except (TypeError, ValueError, RecursionError) as error:  # a program may pass anything
            raise NestedCallFailed(f"{name}: bad arguments: {error}", "failed") from error
        self._nested += 1
        # A provider may have used this name for a call of the model.
        place = next(one for one in running.places if f"{outer.key}.{one}" not in turn.calls)
        key = f"{outer.key}.{place}"
        kept = self._clean(raw, MAX_NESTED_ARGUMENTS)  # in the log only
        entry = CallNested(turn.id, outer.key, key, name, kept, place, outer.number)
        made = ToolCall(key, name, raw)
        with running.pause_clock() as scope:
            await self._log.stage(entry)
            call = turn.nested[key]
            tool = self._toolset.tools.get(name)
            async with running.wait_turn(alone=tool is None or tool.risk != "read"):
                ended = await self._perform(call, self.approvals.get_wait(), running, made)
        if scope.cancelled_caught:
            raise NestedCallFailed(f"{name}: the call that made it has ended", "unknown")
        label = ended.label
        if label.private and _size(running.known) <= MAX_COMPARED:
            running.known.append(PrivateText(ended.text, call=call.call))
        if ended.outcome != "ok":
            raise NestedCallFailed(f"{name}: {ended.text}", ended.outcome, label, ended.origin)
        return Output(ended.text, label.untrusted, label.private, ended.origin)

    async def _stop_elsewhere(self, call: OpenCall) -> Output | None:
        """Stop what *call* began outside the session; return None if its outcome is unknown."""
        tool = self._toolset.tools.get(call.call.name)
        if call.started is None or call.outer is not None or tool is None or tool.stop is None:
            return None
        return await tool.stop(self._context(of=call))

    # --- one call, step by step ------------------------------------------------------------------

    async def _perform(
        self,
        call: OpenCall,
        until: float | None,
        running: RunningTool | None = None,
        made: ToolCall | None = None,
    ) -> CallEnded:
        """Complete a call; with *running* it is *made* by that tool.

        *until* is how long to wait for the owner; None if no question is allowed.
        """
        started, target = call.started, None
        self._began[call.key] = trio.current_time()
        payloads.debug("call", extra={"tool": call.call.name, "arguments": call.call.arguments})
        try:
            if started is not None and started.effect not in AGAIN:
                text = f"{started.tool}: {INTERRUPTED}. It was not repeated.{_list_nested(call)}"
                raise CallNotRun("unknown", text)
            tool, given = self._find(made or call.call)
            if running is not None:
                _check_nested(running.tool, tool)
            target = self._target(tool, given)
            if self._toolset.dry_run and tool.risk != "read":
                raise CallNotRun("dry run", "dry run: nothing was done")
            wanted = await self._get_approval(call, tool, given, until, running)
            output, gives = await self._run(
                call, wanted, nests=running is None and until is not None
            )
        except CallNotRun as failure:
            return await self._end(call, failure.outcome, failure.output, target, failure.gives)
        return await self._end(call, "ok", output, target, gives)

    def _find(self, call: ToolCall) -> tuple[Tool, object]:
        """Return the tool with its checked arguments.  Raises CallNotRun."""
        known = filter_tools(self._toolset.tools, self._log.state.turn)
        if call.name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise CallNotRun("failed", f"no such tool: {call.name}; available: {names}")
        tool = self._toolset.tools[call.name]
        try:
            return tool, decode_arguments(call.arguments or "{}", tool)
        except (ValueError, RecursionError) as error:
            raise CallNotRun("failed", f"bad arguments for {tool.name}: {error}") from error

    async def _get_approval(
        self,
        call: OpenCall,
        tool: Tool,
        given: object,
        until: float | None,
        running: RunningTool | None,
    ) -> ExaminedCall:
        """Examine a call until exactly its plan is allowed.  Raises CallNotRun."""
        for _ in range(MAX_CHANGES):
            wanted = await self._examine(tool, given, running)
            decision = self._decide(wanted)
            if until is None and isinstance(decision, Allow):
                if not has_effect(wanted.plan.action):
                    return wanted
                raise CallNotRun("denied", "it does more than look")
            if until is None:
                raise CallNotRun("denied", decision.why)
            if isinstance(decision, Deny):
                raise CallNotRun("denied", f"not allowed: {decision.why}")
            if isinstance(decision, Allow) or self.approvals.covers(call, wanted):
                return wanted
            await self.approvals.request(call, await self._add_scope(wanted), decision, until)
            # The owner's answer takes time: the plan must still be the one that was shown.
        text = "not run: its plan changed each time it was allowed"
        raise CallNotRun("denied", text)

    async def _examine(
        self, tool: Tool, given: object, running: RunningTool | None = None
    ) -> ExaminedCall:
        """Return the plan of the call.  Raises CallNotRun."""
        plan = Plan(Other(tool.risk), in_words(given))
        if tool.plan is not None:
            plan = await self._run_guarded(
                tool, partial(tool.plan, given, self._context()), "failed"
            )
        if plan.outgoing and self._redactor.reveals(plan.outgoing):
            text = "not allowed: it would send out a secret from the configuration"
            raise CallNotRun("denied", text)
        if isinstance(plan.action, FetchUrl | SearchWeb | CallRemote | Schedule):
            quotes = await self._find_quotation(tool, given, plan, running.known if running else ())
            action = msgspec.structs.replace(plan.action, quotes=quotes)
            plan = msgspec.structs.replace(plan, action=action)
        digest = exact(tool.name, tool.definition, msgspec.to_builtins(given), plan)
        return ExaminedCall(tool, given, self._target(tool, given), plan, digest)

    async def _find_quotation(
        self, tool: Tool, given: object, plan: Plan, within: Sequence[PrivateText]
    ) -> Quotation | None:
        """Find text that only this conversation knows and that the call would send out.

        Private results *within* the running call reached its tool, but not yet the model.
        """
        state, sent = self._log.state, self._earlier_targets(tool)
        public = [name for name, one in self._toolset.tools.items() if one.gives == STRANGE]

        def is_known(url: str) -> bool:
            is_named = url in state.named or url in self._log.turn.named
            # A cut target could belong to another address.
            was_read = url in sent and len(url) <= MAX_TARGET
            return is_named or was_read or is_public(state, url, public)

        leaving = leaving_text(plan, given, is_known)
        if isinstance(leaving, Quotation):
            return leaving
        outgoing = OutgoingText(leaving)
        if outgoing.is_too_long:
            return Quotation("more text than I can compare", private=False)
        if not outgoing.runs:
            return None
        if _size(within) > MAX_COMPARED:
            return Quotation("more private text than I can compare")
        compared = []
        texts = yield_known_texts(state, sent if isinstance(plan.action, SearchWeb) else ())
        for known in (*(KnownText("private", one) for one in within), *texts):
            await trio.lowlevel.checkpoint()  # a long conversation must not hold the others up
            if shared := outgoing.find_shared_runs(known.part.text):
                compared.append((known, shared))
        return find_quotation(compared, self._name_of)

    def _earlier_targets(self, tool: Tool) -> list[str]:
        """Return the targets of earlier calls of *tool* in the remembered receipts."""
        receipts = self._log.state.receipts
        return [one.target for one in receipts if one.tool == tool.name and one.outcome == "ok"]

    def _name_of(self, part: PrivateText) -> str:
        """Return a name for the origin of *part*."""
        if part.call is None:
            return part.source
        with suppress(CallNotRun):
            tool, given = self._find(part.call)
            return f"{self._target(tool, given)} ({tool.name})"
        return f"a result of {part.call.name}"

    async def _add_scope(self, wanted: ExaminedCall) -> ExaminedCall:
        """Add the scope that the owner may permit with the call, to ask them.  Raises CallNotRun.

        Only at this point may a tool compute its scope.
        """
        tool, scope, route = wanted.tool, wanted.plan.scope, self._log.turn.route
        if tool.scope is not None:
            look = partial(tool.scope, wanted.given, self._context())
            scope = await self._run_guarded(tool, look, "failed")
        group = "" if route.private else route.address
        scope = scope and bind_scope(scope, tool.name, tool.definition, group)
        return msgspec.structs.replace(wanted, scope=scope)

    def _decide(self, wanted: ExaminedCall) -> Decision:
        state, turn, tool = self._log.state, self._log.turn, wanted.tool
        rules = self._toolset.rules
        if tool.name not in rules.tools and tool.policy is not None:  # it came later
            rules = Rules(tools={tool.name: tool.policy})
        situation = Situation(
            label=state.taint.label,
            principal=self._toolset.get_speaker(turn.principal),
            origins=tuple(state.taint.sources),
            named_before=frozenset(state.named),
            named_now=turn.named,
            shows=wanted.gives.private and not turn.route.private,
        )
        return decide(tool.name, wanted.plan.action, situation, rules)

    async def _ask_ahead(self, calls: Sequence[OpenCall]) -> float:
        """Send the questions of a whole round together; return the time limit for the answers.

        A call that may return strangers' words, or that has an effect without approval, ends this:
        the calls after it are judged when it is done.
        """
        until = self.approvals.get_wait()
        for call in calls:
            if call.started is not None:
                continue
            try:
                tool, given = self._find(call.call)
                if tool.gives.untrusted:
                    break
                if tool.risk == "read" or self._toolset.dry_run:
                    continue
                wanted = await self._examine(tool, given)
            except CallNotRun:
                continue  # reported when it is performed
            decision = self._decide(wanted)
            if isinstance(decision, Allow):
                break  # its effect may change the next calls
            if isinstance(decision, Ask):
                with suppress(CallNotRun):
                    await self.approvals.request_ahead(
                        call, await self._add_scope(wanted), decision
                    )
        return until

    async def _run(
        self, call: OpenCall, wanted: ExaminedCall, *, nests: bool
    ) -> tuple[Output, Label]:
        """Record that a call begins, and run it; it may make calls if it *nests*.

        Raises CallNotRun.
        """
        tool = wanted.tool
        self._began[call.key] = trio.current_time()  # the owner's time is not the tool's
        log.debug("tool started", extra={"tool": tool.name, "target": wanted.target})
        if call.started is None and not (call.outer is not None and tool.effect == "pure"):
            entry = CallStarted(
                self._log.turn.id,
                call.key,
                tool.name,
                tool.effect,
                wanted.target,
                self.approvals.hash_binding(wanted),
                call.ruling,
            )
            try:
                await (self._log.stage if tool.effect == "pure" else self._log.record)(entry)
            except DiskFull as error:
                text = "not run: the disk is full, so it could not be recorded first"
                raise CallNotRun("failed", text) from error
        gives = wanted.gives
        running = RunningTool(tool, self._limit(tool), call.within)
        make = partial(self._call_within, call, running) if nests else refuse_call
        show = partial(self._show, f"{tool.name} {wanted.target}".strip())
        is_output = tool.risk != "read" and call.outer is None
        if isinstance(wanted.plan.action, WriteFile) and is_output:
            show(wanted.plan.subject.partition("\n")[2][:MAX_CHANGE])
            is_output = False
        context = self._context(wanted.plan.facts, call, make)
        if is_output:
            context = attrs.evolve(context, show=show)
        late: Outcome = "failed" if tool.effect == "pure" else "unknown"
        try:
            step = partial(tool.run, wanted.given, context)
            given = await self._run_guarded(tool, step, late, running)
            if isinstance(given, Output) and given.failed:
                raise CallNotRun("failed", given)
        except CallNotRun as failure:  # whose words it holds, it says itself
            failure.gives = Label(private=gives.private)
            if is_output:
                show(_last_lines(failure.output.text))
            raise
        output = Output(given) if isinstance(given, str) else given
        if is_output:
            show(_last_lines(output.text))
        return output, gives

    def _limit(self, tool: Tool) -> float:
        """Return the time limit of *tool* in seconds."""
        return min(self._toolset.deadline, self._toolset.timeouts.get(tool.name, tool.timeout))

    async def _run_guarded(
        self,
        tool: Tool,
        step: Callable[[], Awaitable[T]],
        late: Outcome,
        running: RunningTool | None = None,
    ) -> T:
        """Run a step of a tool within its time limit; *late* is the outcome of a timeout.

        Raises CallNotRun.
        """
        limit = self._limit(tool)
        unknown = f"; {INTERRUPTED}" if late == "unknown" else ""
        try:
            async with (running or RunningTool(tool, limit)).within_limit():
                return await step()
        except ToolFailure as error:
            output = Output(str(error), untrusted=error.untrusted, origin=error.origin)
            raise CallNotRun("unknown" if error.unknown else "failed", output) from error
        except trio.TooSlowError as error:
            text = f"{tool.name} took longer than {limit:.0f} s and was stopped{unknown}"
            raise CallNotRun(late, text) from error
        except ActorUnavailable as error:
            raise CallNotRun("failed", f"{tool.name} is not available now: {error}") from error
        except Exception as error:  # a bug in a tool is the model's to work around, not the turn's
            log.exception("tool crashed", extra={"tool": tool.name})
            text = (
                f"{tool.name} crashed ({type(error).__name__}); this is a bug in the tool{unknown}"
            )
            raise CallNotRun(late, text) from error

    async def _end(
        self,
        call: OpenCall,
        outcome: Outcome,
        output: Output,
        target: str | None = None,
        gives: Label = CLEAN,
    ) -> CallEnded:
        await self._end_nested(call)
        started = call.started
        tool = self._toolset.tools.get(call.call.name)
        if target is None:
            target = started.target if started else call.pending.target if call.pending else ""
        text = self._clean(output.text, tool.limit if tool else MAX_TEXT)
        tells = tool is not None and tool.tells and outcome == "ok"
        entry = CallEnded(
            self._log.turn.id,
            call.key,
            call.call.name,
            outcome,
            text,
            target,
            gives | Label(output.untrusted, output.private) | call.brought,
            output.origin or call.origin,
            call.ruling,
            one_line(text.partition("\n")[0], MAX_TARGET) if tells else "",
            tool is not None and tool.forgets,
            0 if call.outer else call.number,
            self._now(),
            tool.looks_at if tool is not None and tool.effect == "pure" and outcome == "ok" else "",
            output.acted,
            output.opens,
            () if call.outer else output.files,
        )
        began = self._began.pop(call.key, None)
        level = logging.DEBUG if call.outer is not None and started is None else self._level
        event(
            log,
            "tool_call",
            {"tool": call.call.name, "target": target, "outcome": outcome},
            success=outcome == "ok",
            seconds=None if began is None else trio.current_time() - began,
            level=logging.WARNING if outcome in ("denied", "unknown") else level,
        )
        payloads.debug("result", extra={"tool": call.call.name, "text": text})
        short = entry
        if call.outer is not None:  # the text belongs to the outer tool
            kept = text if len(text) <= MAX_NESTED_TEXT else f"{text[:MAX_NESTED_TEXT]}…"
            short = msgspec.structs.replace(entry, text="" if entry.looked else kept)
        has_begun = started is not None and started.effect != "pure"
        if has_begun or (started is None and call.outer is None):
            # The effect has happened: its record may use the reserved space (CP-32).
            await self._log.keep(short, last_words=True)
        else:
            await self._log.stage(short)
        self.approvals.report_outcome(call, outcome)
        return entry

    def _context(
        self,
        facts: Mapping[str, str] | None = None,
        of: OpenCall | None = None,
        call: Call = refuse_call,
    ) -> ToolContext:
        state, turn = self._log.state, self._log.turn
        read = f", after reading {', '.join(state.taint.sources)}" if state.taint.sources else ""
        return ToolContext(
            session=self._log.id,
            route=turn.route,
            now=self._now(),
            zone=self._toolset.zone,
            label=state.taint.label,
            source=f"{self._log.id} by {turn.principal}{read}",
            bounds=turn.bounds,
            tools=filter_tools(self._toolset.tools, turn),
            written=self._find_written_files(),
            sees=self._log.sees,
            facts=facts or {},
            principal=turn.principal,
            number=str(of.number) if of is not None and of.outer is None else "",
            earlier=self._count_earlier(of) if of is not None else 0,
            call=call,
        )

    def _count_earlier(self, call: OpenCall) -> int:
        """Count the calls of the same tool in the turn that came before *call*."""
        turn = self._log.turn
        numbers = {one.number for one in turn.receipts if one.tool == call.call.name}
        numbers |= {one.number for one in turn.calls.values() if one.call.name == call.call.name}
        return sum(0 < number < call.number for number in numbers)

    def _find_written_files(self) -> Collection[str]:
        """Return the files that this conversation wrote, from the remembered receipts."""
        receipts = self._log.state.receipts
        tools = {one.tool: self._toolset.tools.get(one.tool) for one in receipts}
        writing = {name for name, tool in tools.items() if tool is not None and tool.writes}
        return {one.target for one in receipts if one.tool in writing and one.outcome == "ok"}

    def _target(self, tool: Tool, given: object) -> str:
        return self._clean(tool.target(given), MAX_TARGET)

    def _clean(self, text: str, limit: int) -> str:
        text = self._redactor(well_formed(text))
        if len(text) > limit:
            text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
        return text

    def get_deeds(self, tool: str) -> tuple[Deed, ...]:
        """Return what the calls of *tool* do: anything, if it is no longer known."""
        return known.deeds if (known := self._toolset.tools.get(tool)) is not None else DEEDS

    def only_reads(self, call: ToolCall) -> bool:
        """Return True if *call* changes nothing, so that it may run concurrently and again."""
        tool = self._toolset.tools.get(call.name)
        return tool is not None and tool.risk == "read"


def _check_nested(outer: Tool, tool: Tool) -> None:
    """Raise CallNotRun if *tool*, called by *outer*, has more effects than *outer* declares."""
    if outer.risk == "read" and tool.risk != "read":
        raise CallNotRun("denied", f"{outer.name} only reads, so it may only call tools that read")
    if outer.effect in AGAIN and tool.effect != "pure":
        text = f"{outer.name} may run again after a crash, so it may only call pure tools"
        raise CallNotRun("denied", text)


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-MAX_LINES:])


def _size(texts: Sequence[PrivateText]) -> int:
    return sum(len(one.text) for one in texts)


def _list_nested(call: OpenCall) -> str:
    """List the known calls that *call* made, for the model."""
    deeds = [f"{one.tool} {one.target} ({one.outcome})" for one in call.acts[:MAX_DEEDS]]
    if more := len(call.acts[MAX_DEEDS:]):
        deeds.append(f"and {more} more")
    return f" It had made these calls: {'; '.join(deeds)}." if deeds else ""


def toolset(
    core: Core, tools: Sequence[Tool], live: Sequence[dict[str, Tool]] = (), *, dry_run: bool
) -> Toolset:
    """Build the toolset of all sessions from *tools* and the changing *live* tools."""
    known = ChainMap({tool.name: tool for tool in tools}, *live)
    policy = core.config.get(PolicySettings)
    rules = Rules(tools=words(policy, tuple(known.values())))
    return Toolset(
        tools=known,
        rules=rules,
        version=version(rules),
        owners=core.channels.owners,
        zone=core.config.get(Owner).timezone,
        dry_run=dry_run,
        deadline=core.config.get(TurnSettings).tool_deadline,
        timeouts=policy.timeout,
    )


def words(policy: PolicySettings, tools: Sequence[Tool]) -> dict[str, Word]:
    """Return the policy of each tool: the owner's, by its name or id pattern, or its own."""
    found = ((tool.name, policy.word(tool.name, tool.id) or tool.policy) for tool in tools)
    return {name: word for name, word in found if word is not None}
