"""The only way to run a tool: find, validate, examine, decide, seek, record, run, redact, record.

What a tool did stands in the log before anybody is told, and that it is about to do something
stands there before it does.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

import msgspec
import trio

from elwood.agent.conversation.calls import Other, Outcome, Plan, ReadFiles, SearchWeb, exact
from elwood.agent.conversation.labels import CLEAN, PRIVATE, Label
from elwood.agent.conversation.message import INTERRUPTED, Results, ToolCall, repair_text
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.conversation.task_run import PRINCIPAL as TASK
from elwood.agent.policy.decide import (
    Allow,
    Ask,
    Decision,
    Deny,
    Rules,
    Situation,
    Who,
    decide,
    version,
)
from elwood.agent.policy.quotes import quotes
from elwood.agent.policy.settings import PolicySettings, Word
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import CallEnded, CallStarted
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import OpenCall, usable
from elwood.agent.session.turn.approval_client import ApprovalClient, ExaminedCall
from elwood.agent.tools.tool import Output, Tool, ToolContext, ToolFailure
from elwood.foundation.runtime import ActorUnavailable, waiting
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.storage.disk import DiskFull

log = logging.getLogger("elwood.gate")

T = TypeVar("T")
# Characters of a target, and of a result of no tool of ours.
MAX_TARGET, MAX_TEXT = 200, 2000
# How often a call is examined anew because what it would do changed while the owner thought.
MAX_CHANGES = 3


class _Broken(msgspec.Struct, frozen=True):
    """A tool's step that came to nothing."""

    output: Output
    outcome: Outcome = "failed"


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    """The tools there are, and what holds for all of them.

    *version* names the *rules*.  *owners* are the principals whose words are the owner's.
    *dry_run* answers everything that would change something with "dry run".  No tool may take
    longer than *deadline* seconds, nor longer than its own limit.  *zone* is the owner's, an IANA
    name.
    """

    tools: Mapping[str, Tool]
    rules: Rules
    version: str
    owners: Collection[str]
    zone: str = "UTC"
    dry_run: bool = False
    deadline: float = 60.0

    def who(self, principal: str) -> Who:
        """Say whose words those of *principal* are."""
        if principal.startswith(TASK):
            return "task"
        return "owner" if principal in self.owners else "guest"


class Gate:
    """Runs the calls of one session's turns; *now* is the wall clock."""

    def __init__(
        self,
        log: SessionLog,
        toolset: Toolset,
        approvals: ApprovalClient,
        redactor: Redactor,
        now: Callable[[], float],
    ) -> None:
        self.approvals = approvals
        self._log = log
        self._toolset = toolset
        self._tools = toolset.tools
        self._redactor = redactor
        self._now = now

    async def perform(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Bring every one of *calls* to its end; neighbours that only read run side by side.

        A call that was under way when the process died is judged by its effect class: a pure or
        keyed one runs again, any other is unknown, and is not repeated (CP-14 to CP-16).
        """
        left = [call for call in calls if call.ended is None]
        until = await self._ask_ahead(turn, left)
        while left:
            together = 1
            if self.only_reads(left[0].call):
                while together < len(left) and self.only_reads(left[together].call):
                    together += 1
            async with trio.open_nursery() as nursery:
                for call in left[:together]:
                    nursery.start_soon(self._perform, turn, call, until)
            left = left[together:]
        # What only read was not written yet.
        await self._log.record(last_words=True)

    async def abandon(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Write down what became of calls whose turn was stopped while they ran."""
        for call in calls:
            started = call.started
            if call.ended is not None:
                continue
            if started is None:
                if call.pending is not None:
                    await self.approvals.withdraw(call.pending)
                    await self._end(turn, call, "denied", Output("stopped before it began"))
            elif started.effect == "pure":
                await self._end(turn, call, "failed", Output("stopped"))
            else:
                await self._end(turn, call, "unknown", Output(f"stopped; {INTERRUPTED}"))

    # --- one call, step by step ------------------------------------------------------------------

    async def _perform(self, turn: str, call: OpenCall, until: float) -> None:
        started = call.started
        if started is not None and started.effect not in ("pure", "keyed"):
            text = f"{started.tool}: {INTERRUPTED}. It was not repeated."
            await self._end(turn, call, "unknown", Output(text))
            return
        found = self._find(call.call)
        if isinstance(found, str):
            await self._end(turn, call, "failed", Output(found))
            return
        tool, given = found
        target = self._target(tool, given)
        if self._toolset.dry_run and tool.risk != "read":
            await self._end(turn, call, "dry run", Output("dry run: nothing was done"), target)
            return
        for _ in range(MAX_CHANGES):
            wanted = await self._examine(turn, tool, given)
            if isinstance(wanted, _Broken):
                await self._end(turn, call, wanted.outcome, wanted.output, target)
                return
            decision = self._decide(wanted)
            if isinstance(decision, Deny):
                text = f"not allowed: {decision.why}"
                await self._end(turn, call, "denied", Output(text), target)
                return
            if isinstance(decision, Allow) or self.approvals.covers(call, wanted):
                await self._run(call, wanted)
                return
            refusal = await self.approvals.request(call, wanted, decision, until)
            if refusal is not None:
                await self._end(turn, call, refusal.outcome, Output(refusal.text), target)
                return
            # The owner took their time: what would run now must still be what they were shown.
        text = "not run: what it would do changed each time that it was allowed"
        await self._end(turn, call, "denied", Output(text), target)

    def _find(self, call: ToolCall) -> str | tuple[Tool, msgspec.Struct]:
        """Return the tool with its checked arguments, or what is wrong, for the model."""
        known = usable(self._tools, self._log.state.turn)
        if call.name not in known:
            return f"no such tool: {call.name}; available: {', '.join(sorted(known)) or 'none'}"
        tool = self._tools[call.name]
        try:
            return tool, msgspec.json.decode(call.arguments or "{}", type=tool.input)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            return f"bad arguments for {tool.name}: {error}"

    async def _examine(
        self, turn: str, tool: Tool, given: msgspec.Struct
    ) -> ExaminedCall | _Broken:
        """Find out what the call would do."""
        plan = Plan(Other(tool.risk), f"{tool.name} {msgspec.json.encode(given).decode()}")
        if tool.plan is not None:
            examined = await self._guarded(
                tool, partial(tool.plan, given, self._context()), "failed"
            )
            if isinstance(examined, _Broken):
                return examined
            plan = examined
        if plan.outgoing and self._redactor.reveals(plan.outgoing):
            text = "not allowed: it would send a secret of the configuration out"
            return _Broken(Output(text), "denied")
        if isinstance(plan.action, SearchWeb):
            quoting = quotes(plan.outgoing, self._log.state.private_texts())
            plan = msgspec.structs.replace(plan, action=SearchWeb(quoting))
        digest = exact(tool.name, tool.definition, msgspec.to_builtins(given), plan)
        return ExaminedCall(turn, tool, given, self._target(tool, given), plan, digest)

    def _decide(self, wanted: ExaminedCall) -> Decision:
        state = self._log.state
        assert state.turn is not None
        situation = Situation(
            label=state.taint.label,
            principal=self._toolset.who(state.turn.principal),
            origins=tuple(state.taint.sources),
            named_before=frozenset(state.named),
            named_now=state.turn.named,
        )
        return decide(wanted.tool.name, wanted.plan.action, situation, self._toolset.rules)

    async def _ask_ahead(self, turn: str, calls: Sequence[OpenCall]) -> float:
        """Put the questions of a whole round at once; return until when they are waited for.

        What stands behind a call that may bring strangers' words, or that changes something without
        a question, is judged when that is done.
        """
        until = self.approvals.until()
        for call in calls:
            found = self._find(call.call)
            if isinstance(found, str) or call.started is not None:
                continue
            tool, given = found
            if tool.gives.untrusted:
                break
            if tool.risk == "read" or self._toolset.dry_run:
                continue
            wanted = await self._examine(turn, tool, given)
            if isinstance(wanted, ExaminedCall):
                decision = self._decide(wanted)
                if isinstance(decision, Allow):
                    break  # it changes what the next ones are about
                if isinstance(decision, Ask):
                    await self.approvals.request_ahead(call, wanted, decision)
        return until

    async def _run(self, call: OpenCall, wanted: ExaminedCall) -> None:
        tool, turn, target = wanted.tool, wanted.turn, wanted.target
        if call.started is None:
            entry = CallStarted(
                turn,
                call.key,
                tool.name,
                tool.effect,
                target,
                self.approvals.bound(wanted),
                call.ruling,
            )
            try:
                await (self._log.stage if tool.effect == "pure" else self._log.record)(entry)
            except DiskFull:
                text = "not run: the disk is full, so it could not be recorded first"
                await self._end(turn, call, "failed", Output(text), target)
                return
        late: Outcome = "failed" if tool.effect == "pure" else "unknown"
        context = self._context(wanted.plan.facts)
        given = await self._guarded(tool, partial(tool.run, wanted.given, context), late)
        outcome: Outcome = "ok"
        if isinstance(given, _Broken):
            outcome, given = given.outcome, given.output
        output = Output(given) if isinstance(given, str) else given
        gives = tool.gives
        if isinstance(wanted.plan.action, ReadFiles):
            gives = gives | PRIVATE
        if outcome != "ok":  # whose words a failure holds, it says itself
            gives = Label(private=gives.private)
        await self._end(turn, call, outcome, output, target, gives)

    async def _guarded(
        self, tool: Tool, step: Callable[[], Awaitable[T]], late: Outcome
    ) -> T | _Broken:
        """Take a step of a tool within its time; *late* is what it comes to after that."""
        limit = min(self._toolset.deadline, tool.timeout)
        try:
            with trio.fail_after(limit), waiting(f"tool {tool.name}", limit=limit):
                return await step()
        except ToolFailure as error:
            output = Output(str(error), untrusted=error.untrusted, origin=error.origin)
            return _Broken(output, "unknown" if error.unknown else "failed")
        except trio.TooSlowError:
            text = f"{tool.name} took longer than {limit:.0f} s and was ended"
            if late == "unknown":
                text = f"{text}; {INTERRUPTED}"
            return _Broken(Output(text), late)
        except ActorUnavailable as error:
            return _Broken(Output(f"{tool.name} is not available now: {error}"))
        except Exception as error:  # a bug in a tool is the model's to work around, not the turn's
            log.exception("tool crashed", extra={"tool": tool.name})
            text = f"{tool.name} broke ({type(error).__name__}); this is a bug in it"
            return _Broken(Output(f"{text}; {INTERRUPTED}" if late == "unknown" else text), late)

    async def _end(
        self,
        turn: str,
        call: OpenCall,
        outcome: Outcome,
        output: Output,
        target: str | None = None,
        gives: Label = CLEAN,
    ) -> None:
        started = call.started
        tool = self._tools.get(call.call.name)
        if target is None:
            target = started.target if started else call.pending.target if call.pending else ""
        entry = CallEnded(
            turn,
            call.key,
            call.call.name,
            outcome,
            self._clean(output.text, tool.limit if tool else MAX_TEXT),
            target,
            gives | Label(output.untrusted, output.private),
            output.origin,
            call.ruling,
        )
        if started is not None and started.effect == "pure":
            await self._log.stage(entry)
        else:
            # The effect has happened: its record may use the reserved space (CP-32).
            await self._log.record(entry, last_words=True)

    def _context(self, facts: Mapping[str, str] | None = None) -> ToolContext:
        state = self._log.state
        turn = state.turn
        assert turn is not None, "tools run in turns"
        read = f", after reading {', '.join(state.taint.sources)}" if state.taint.sources else ""
        return ToolContext(
            session=self._log.id,
            route=turn.route,
            now=self._now(),
            zone=self._toolset.zone,
            label=state.taint.label,
            source=f"{self._log.id} by {turn.principal}{read}",
            task_run=turn.errand,
            tools=usable(self._tools, turn),
            written=self._written(),
            results=[
                result.text
                for node in state.path
                if isinstance(node.message, Results)
                for result in node.message.results
            ],
            facts=facts or {},
        )

    def _written(self) -> Collection[str]:
        """Name the files that were written in this conversation, as far as its receipts say."""
        receipts = self._log.state.receipts
        tools = {one.tool: self._tools.get(one.tool) for one in receipts}
        writing = {name for name, tool in tools.items() if tool is not None and tool.writes}
        return {one.target for one in receipts if one.tool in writing and one.outcome == "ok"}

    def _target(self, tool: Tool, given: msgspec.Struct) -> str:
        return self._clean(tool.target(given), MAX_TARGET)

    def _clean(self, text: str, limit: int) -> str:
        text = self._redactor(repair_text(text))
        if len(text) > limit:
            text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
        return text

    def only_reads(self, call: ToolCall) -> bool:
        """Tell whether *call* changes nothing, so that it may run beside others, and again."""
        tool = self._tools.get(call.name)
        return tool is not None and tool.risk == "read"


def toolset(core: Core, tools: Sequence[Tool], *, dry_run: bool) -> Toolset:
    """Put together what holds for the *tools* in all sessions."""
    rules = Rules(tools=words(core.config.of(PolicySettings), tools))
    return Toolset(
        tools={tool.name: tool for tool in tools},
        rules=rules,
        version=version(rules),
        owners=core.channels.owners,
        zone=core.config.of(Owner).timezone,
        dry_run=dry_run,
        deadline=core.config.of(TurnSettings).tool_deadline,
    )


def words(policy: PolicySettings, tools: Sequence[Tool]) -> dict[str, Word]:
    """Find the word for each tool: the owner's, by its name or a pattern of its id, else its own.

    What the owner's words name and no tool bears is told in the log.
    """
    found = {tool.name: tool.policy for tool in tools if tool.policy is not None}
    for pattern, word in policy.words().items():
        named = [t.name for t in tools if t.name == pattern or fnmatchcase(t.id, pattern)]
        if not named:
            log.warning("no tool has this name", extra={"setting": f"policy.{word}: {pattern}"})
        found |= dict.fromkeys(named, word)
    return found
