"""The only way to run a tool: find, validate, examine, decide, seek, record, run, redact, record.

What a tool did stands in the log before anybody is told, and that it is about to do something
stands there before it does (reliability.md §1.1).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import attrs
import msgspec
import trio

from elwood.agent.approvals.client import Seeking, Wanted
from elwood.agent.conversation.actions import Other, ReadFiles, SearchWeb
from elwood.agent.conversation.labels import CLEAN, PRIVATE, Label
from elwood.agent.conversation.message import INTERRUPTED, ToolCall, repair_text
from elwood.agent.conversation.plans import Plan, exact
from elwood.agent.policy.decide import (
    Allow,
    Ask,
    Decision,
    Deny,
    Rules,
    Situation,
    Who,
    decide,
)
from elwood.agent.policy.quotes import quotes
from elwood.agent.session.log.entries import CallEnded, CallStarted, Outcome
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import OpenCall, usable
from elwood.agent.tools.tool import (
    Hands,
    Output,
    Tool,
    ToolFailure,
)
from elwood.foundation.runtime import ActorUnavailable, waiting
from elwood.foundation.storage.journal import DiskFull

log = logging.getLogger("elwood.gate")

T = TypeVar("T")
Record = Callable[..., Awaitable[None]]
# Characters of a target, and of a result of no tool of ours.
MAX_TARGET, MAX_TEXT = 200, 2000
# How often a call is examined anew because what it would do changed while the owner thought.
MAX_CHANGES = 3


@attrs.frozen
class _Broken:
    """A tool's step that came to nothing."""

    output: Output
    outcome: Outcome = "failed"


@attrs.frozen(kw_only=True)
class Gate:
    """Runs the calls of one session's turns.

    *redact* takes secrets out of a text, *reveals* finds the configured ones in what would leave
    the house.  *who* says whose words a principal's are.  *dry_run* answers everything that would
    change something with "dry run"; *record* appends to the session's log.  No tool may take
    longer than *deadline* seconds, nor longer than its own limit.
    """

    state: Callable[[], Session]
    tools: Mapping[str, Tool]
    hands: Hands
    record: Record
    rules: Rules
    seeking: Seeking
    redact: Callable[[str], str]
    reveals: Callable[[str], bool]
    who: Callable[[str], Who]
    dry_run: bool = False
    deadline: float = 60.0

    async def perform(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Bring every one of *calls* to its end; neighbours that only read run side by side.

        A call that was under way when the process died is judged by its effect class: a pure or
        keyed one runs again, any other is unknown, and is not repeated (CP-14 to CP-16).
        """
        left = [call for call in calls if call.ended is None]
        until = await self._ask_ahead(turn, left)
        while left:
            together = 1
            if self._only_reads(left[0].call):
                while together < len(left) and self._only_reads(left[together].call):
                    together += 1
            async with trio.open_nursery() as nursery:
                for call in left[:together]:
                    nursery.start_soon(self._perform, turn, call, until)
            left = left[together:]

    async def abandon(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Write down what became of calls whose turn was stopped while they ran."""
        for call in calls:
            started = call.started
            if call.ended is not None:
                continue
            if started is None:
                if call.pending is not None:
                    await self.seeking.withdraw(call.pending)
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
        if self.dry_run and tool.risk != "read":
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
            if isinstance(decision, Allow) or self.seeking.covers(call, wanted):
                await self._run(call, wanted)
                return
            refusal = await self.seeking.seek(call, wanted, decision, until)
            if refusal is not None:
                await self._end(turn, call, refusal.outcome, Output(refusal.text), target)
                return
            # The owner took their time: what would run now must still be what they were shown.
        text = "not run: what it would do changed each time that it was allowed"
        await self._end(turn, call, "denied", Output(text), target)

    def _find(self, call: ToolCall) -> str | tuple[Tool, msgspec.Struct]:
        """Return the tool with its checked arguments, or what is wrong, for the model."""
        known = usable(self.tools, self.state().turn)
        if call.name not in known:
            return f"no such tool: {call.name}; available: {', '.join(sorted(known)) or 'none'}"
        tool = self.tools[call.name]
        try:
            return tool, msgspec.json.decode(call.arguments or "{}", type=tool.input)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            return f"bad arguments for {tool.name}: {error}"

    async def _examine(self, turn: str, tool: Tool, given: msgspec.Struct) -> Wanted | _Broken:
        """Find out what the call would do."""
        plan = Plan(Other(tool.risk), f"{tool.name} {msgspec.json.encode(given).decode()}")
        if tool.plan is not None:
            examined = await self._guarded(tool, partial(tool.plan, given, self.hands), "failed")
            if isinstance(examined, _Broken):
                return examined
            plan = examined
        if plan.outgoing and self.reveals(plan.outgoing):
            text = "not allowed: it would send a secret of the configuration out"
            return _Broken(Output(text), "denied")
        if isinstance(plan.action, SearchWeb):
            quoting = quotes(plan.outgoing, self.state().private_texts())
            plan = attrs.evolve(plan, action=SearchWeb(quoting))
        digest = exact(tool.name, tool.definition, msgspec.to_builtins(given), plan)
        return Wanted(turn, tool, given, self._target(tool, given), plan, digest)

    def _decide(self, wanted: Wanted) -> Decision:
        state = self.state()
        assert state.turn is not None
        situation = Situation(
            label=state.taint.label,
            principal=self.who(state.turn.principal),
            origins=tuple(state.taint.sources),
            named_before=frozenset(state.named),
            named_now=state.turn.named,
        )
        return decide(wanted.tool.name, wanted.plan.action, situation, self.rules)

    async def _ask_ahead(self, turn: str, calls: Sequence[OpenCall]) -> float:
        """Put the questions of a whole round at once; return until when they are waited for.

        What stands behind a call that may bring strangers' words, or that changes something without
        a question, is judged when that is done.
        """
        until = self.seeking.until()
        for call in calls:
            found = self._find(call.call)
            if isinstance(found, str) or call.started is not None:
                continue
            tool, given = found
            if tool.gives.untrusted:
                break
            if tool.risk == "read" or self.dry_run:
                continue
            wanted = await self._examine(turn, tool, given)
            if isinstance(wanted, Wanted):
                decision = self._decide(wanted)
                if isinstance(decision, Allow):
                    break  # it changes what the next ones are about
                if isinstance(decision, Ask):
                    await self.seeking.put(call, wanted, decision)
        return until

    async def _run(self, call: OpenCall, wanted: Wanted) -> None:
        tool, turn, target = wanted.tool, wanted.turn, wanted.target
        if call.started is None:
            entry = CallStarted(
                turn,
                call.key,
                tool.name,
                tool.effect,
                target,
                self.seeking.bound(wanted),
                call.ruling,
            )
            try:
                await self.record(entry)
            except DiskFull:
                text = "not run: the disk is full, so it could not be recorded first"
                await self._end(turn, call, "failed", Output(text), target)
                return
        late: Outcome = "failed" if tool.effect == "pure" else "unknown"
        hands = attrs.evolve(self.hands, facts=wanted.plan.facts)
        given = await self._guarded(tool, partial(tool.run, wanted.given, hands), late)
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
        limit = min(self.deadline, tool.timeout)
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
        tool = self.tools.get(call.call.name)
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
        # The effect has happened: its record may use the reserved space (CP-32).
        await self.record(entry, last_words=True)

    def _target(self, tool: Tool, given: msgspec.Struct) -> str:
        return self._clean(tool.target(given), MAX_TARGET)

    def _clean(self, text: str, limit: int) -> str:
        text = self.redact(repair_text(text))
        if len(text) > limit:
            text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
        return text

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.risk == "read"
