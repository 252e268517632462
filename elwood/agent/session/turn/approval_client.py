"""Gets the owner's approval for a call: record the question, ask approvals, wait, record.

Facts are fetched from approvals; a message from there is only a hint to ask again.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

import attrs
import msgspec
import trio

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    CallReported,
    LookUpDecision,
    Pending,
    RequestApproval,
    Verdict,
    WithdrawRequests,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import Question
from elwood.agent.channels.questions import is_fresh
from elwood.agent.conversation.calls import (
    ApprovalScope,
    Outcome,
    OwnerAnswer,
    Plan,
    ReadFiles,
    hash_binding,
)
from elwood.agent.conversation.labels import CLEAN, NAMELESS, PRIVATE, Label
from elwood.agent.conversation.run import owner_of
from elwood.agent.policy.decide import Ask
from elwood.agent.session.extension import Runs
from elwood.agent.session.log.entries import CallDecided, CallPending, Endorsed, Entry
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import OpenCall, call_key
from elwood.agent.tools.tool import Output, Tool
from elwood.foundation.runtime import ActorUnavailable, Address, Signal
from elwood.foundation.storage.disk import DiskFull

# Seconds between two tries to reach approvals during its restart.
PAUSE = 1.0
# Seconds of a turn, or a tenth of its remaining time, reserved for the model's answer.
TO_ANSWER = 60.0
# Calls of one conversation that may wait for the owner at the same time.
MAX_KEPT = 10
WAITING = (
    "waiting for approval: the owner has the question and has not answered yet. It will run if "
    "they allow it, and you will get the result then. Do not call it again; continue or end your "
    "turn."
)
WAITS_ALREADY = (
    "waiting already: the owner has a question about exactly this and has not answered yet. It "
    "was not sent again. Do not call it again; continue or end your turn."
)
UNANSWERED = "not run: the owner did not answer while the call could wait."
TOLD = {
    "denied": "the owner said no. Do not try it again in this turn.",
    "expired": "the owner did not answer in time.",
    "withdrawn": "the question was withdrawn.",
}


class ExaminedCall(msgspec.Struct, frozen=True):
    """A call with its plan, the hash of exactly that, and its scope."""

    tool: Tool
    given: object
    target: str
    plan: Plan
    exact: str
    scope: ApprovalScope | None = None

    @property
    def gives(self) -> Label:
        """The label of its result."""
        is_private = isinstance(self.plan.action, ReadFiles)
        return self.tool.gives | PRIVATE if is_private else self.tool.gives


class CallNotRun(Exception):
    """A call failed, or its outcome is unknown; *output* is the reason, for the model.

    *gives* is the label that it brought into the conversation.
    """

    def __init__(self, outcome: Outcome, output: str | Output) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.output = Output(output) if isinstance(output, str) else output
        self.gives = CLEAN


def _name_outer(call: OpenCall) -> str:
    """Describe a running call that makes another one, for the owner."""
    started = call.started
    return f"{call.call.name} {started.target if started else ''}".rstrip()


@attrs.define(eq=False)
class ApprovalClient:
    """Asks *approvals* for the owner's decisions about the calls of the session of *log_*.

    *version* is the version of the policy rules; *now* is the wall clock. *hints* fires when
    there may be a decision or another message.
    """

    _log: SessionLog
    _approvals: Address[ApprovalsMail]
    _settings: ApprovalSettings
    _version: str
    _now: Callable[[], float]
    hints: Signal = attrs.field(factory=Signal, init=False)

    def get_wait(self) -> float:
        """Return how long to wait for questions asked now, on Trio's clock.

        Less than the rest of the turn, so that the model can still report that they wait.
        """
        now = trio.current_time()
        left = trio.current_effective_deadline() - now
        return now + min(self._settings.wait, left - min(TO_ANSWER, left / 10))

    def hash_binding(self, wanted: ExaminedCall) -> str:
        """Return the hash of the call in the present circumstances."""
        return hash_binding(wanted.exact, self._log.state.taint.label.untrusted, self._version)

    def covers(self, call: OpenCall, wanted: ExaminedCall) -> bool:
        """Return True if the owner allowed exactly this, with the same or worse taint.

        An approval that was not used in time expires (CP-13).
        """
        pending, decided = call.pending, call.decided
        if pending is None or decided is None or not decided.allowed:
            return False
        if not is_fresh(self._settings.expires, self._now() - call.decided_at):
            return False
        if self._log.state.taint.label.untrusted and not pending.untrusted:
            return False
        return decided.plan == hash_binding(wanted.exact, pending.untrusted, self._version)

    async def request_ahead(self, call: OpenCall, wanted: ExaminedCall, why: Ask) -> None:
        """Ask early; `request` collects and reports the answer."""
        if not self.covers(call, wanted):
            with suppress(CallNotRun, ActorUnavailable, DiskFull):
                self._check(call, wanted)
                await self._ask(call, wanted, why)

    def _check(self, call: OpenCall, wanted: ExaminedCall) -> None:
        """Raise CallNotRun if there must be no question to the owner.

        A periodic task that repeats the same call would ask all night long. Requests of another job
        are withdrawn with that job, so they do not count here.
        """
        state, turn, plan = self._log.state, self._log.turn, self.hash_binding(wanted)
        if plan in turn.denied:
            text = (
                "denied: the owner already said no to exactly this in this turn; do not try again"
            )
            raise CallNotRun("denied", text)
        if call.pending is not None:
            return
        job = owner_of(turn.bounds)
        kept = [one for one in state.pending.values() if one.decided is None]
        if any(one.pending.plan == plan and owner_of(one.bounds) == job for one in kept):
            raise CallNotRun("denied" if call.outer else "waiting", WAITS_ALREADY)
        open_ = [one for one in turn.unended if one.pending and not one.decided]
        if len(state.pending) + len(open_) >= MAX_KEPT:
            text = f"not run: {MAX_KEPT} calls already wait for the owner"
            raise CallNotRun("denied", text)

    async def _ask(self, call: OpenCall, wanted: ExaminedCall, why: Ask) -> Pending | Verdict:
        """Send the question, unless it was sent before; return the known answer.

        Raises ActorUnavailable, DiskFull.
        """
        pending = call.pending
        # A call that was decided and must be decided again is a new question.
        if pending is None or call.decided or pending.plan != self.hash_binding(wanted):
            untrusted = self._log.state.taint.label.untrusted
            pending = CallPending(
                self._log.turn.id,
                call.key,
                wanted.tool.name,
                self.hash_binding(wanted),
                wanted.target,
                untrusted,
            )
            await self._log.record(pending)
        return await self._approvals.ask(
            RequestApproval(question=self._question(call, wanted, why))
        )

    async def request(self, call: OpenCall, wanted: ExaminedCall, why: Ask, until: float) -> None:
        """Get an approval, recorded in the log, by *until* on Trio's clock.  Raises CallNotRun."""
        self._check(call, wanted)
        try:
            verdict = await self._wait_for_answer(call, wanted, why, until)
            if verdict is None:
                if call.pending is not None:
                    # the question may have arrived
                    await self.withdraw(call.pending)
                raise CallNotRun("failed", "not run: the question could not be sent to the owner")
            if isinstance(verdict, Pending) and call.outer is None:
                raise CallNotRun("waiting", WAITING)
            if isinstance(verdict, Pending):
                # Unlike a turn, a running tool cannot wait for hours.
                if call.pending is not None:
                    await self.withdraw(call.pending)
                raise CallNotRun("denied", UNANSWERED)
            await self._record_decision(
                self._log.turn.id, call.key, self.hash_binding(wanted), verdict
            )
        except DiskFull as error:
            text = "not run: the disk is full, so it could not be recorded"
            raise CallNotRun("failed", text) from error
        if not verdict.allowed:
            raise CallNotRun("denied", f"denied: {verdict.why or TOLD[verdict.ruling]}")

    def report_outcome(self, call: OpenCall, outcome: Outcome) -> None:
        """Report how an allowed call has ended: its question may have been asked elsewhere."""
        if call.pending is not None and call.decided is not None and call.decided.allowed:
            key = call_key(call.pending.turn, call.pending.call)
            self._approvals.offer(CallReported(self._log.id, key, outcome))

    async def withdraw(self, *pending: CallPending, anew: bool = False) -> None:
        """Close the questions about these calls, which will not run, before that is recorded here.

        If *anew*, also revoke the permissions of the conversation.
        """
        calls = tuple(call_key(one.turn, one.call) for one in pending)
        make = partial(WithdrawRequests, session=self._log.id, calls=calls, anew=anew)
        while True:
            if await self._approvals.insist(make):
                return
            await trio.sleep(PAUSE)  # the disk is full

    async def close_question(self, call: OpenCall, pending: CallPending) -> bool:
        """Withdraw the question about *call*, which will not run, if it is still open.

        Record what the question says then. Return True if it says that the owner allowed the call.
        """
        await self.withdraw(pending)
        if call.decided is None:
            with suppress(ActorUnavailable):
                await self._fetch_decision(pending)
        return call.decided is not None and call.decided.allowed

    async def cancel_pending(
        self, *, anew: bool = False, turns: Collection[str] | None = None
    ) -> int:
        """Cancel the calls that wait for the owner, or were allowed and have not begun.

        With *anew* the conversation ends, with its permissions. With *turns*, cancel only the calls
        of these turns. Return the number of cancelled calls.
        """
        pending = [kept.pending for kept in self._log.state.pending.values()]
        kept = [one for one in pending if turns is None or one.turn in turns]
        await self._cancel(kept, anew)
        return len(kept)

    async def cancel_removed_runs(self, cancelled: Callable[[Runs], Awaitable[Runs]]) -> bool:
        """Cancel the waiting calls of task runs that have been cancelled.

        *cancelled* returns those runs. Return True if the open turn began on an approval of such a
        call and has not started the call. Waits for the scheduler: forbidden work must not be done.
        """
        state = self._log.state
        kept = [*state.pending.values(), *(state.turn.kept if state.turn is not None else ())]
        of = {one.pending: (one.bounds.owner, one.bounds.series) for one in kept if one.bounds}
        if not of:
            return False
        lost = await cancelled(frozenset(of.values()))
        gone = {call_key(one.turn, one.call): one for one, run in of.items() if run in lost}
        begun = state.turn.calls if state.turn is not None else {}
        await self._cancel([one for key, one in gone.items() if key in state.pending])
        calls = [begun[key] for key in gone if key in begun]
        return any(call.started is None and call.ended is None for call in calls)

    async def _cancel(self, kept: Sequence[CallPending], anew: bool = False) -> None:
        if kept or anew:
            await self.withdraw(*kept, anew=anew)
        if kept:
            gone = [CallDecided(one.turn, one.call, one.plan, "withdrawn") for one in kept]
            await self._log.keep(*gone)

    async def fetch_decisions(self) -> None:
        """Fetch the decisions about the calls that the conversation continued without.

        Called after each hint and each turn: the hint for a decision may come while the call is
        still being recorded as waiting.
        """
        for kept in list(self._log.state.pending.values()):
            pending = kept.pending
            if kept.decided is not None:
                continue
            try:
                await self._fetch_decision(pending)
            except ActorUnavailable:
                return  # it sends a hint when it is back

    async def _fetch_decision(self, pending: CallPending) -> None:
        """Record the decision about *pending*, if there is one.  Raises ActorUnavailable."""
        turn, call, plan = pending.turn, pending.call, pending.plan
        look_up = LookUpDecision(session=self._log.id, call=call_key(turn, call), plan=plan)
        verdict = await self._approvals.ask(look_up)
        if isinstance(verdict, Verdict):
            await self._record_decision(turn, call, plan, verdict, keep=True)

    async def _wait_for_answer(
        self, call: OpenCall, wanted: ExaminedCall, why: Ask, until: float
    ) -> Pending | Verdict | None:
        """Ask until there is an answer, another message comes, or the time is over.

        Return None if no question could be sent.
        """
        known: Pending | None = None
        while True:
            pause = self.hints.wait
            try:
                verdict = await self._ask(call, wanted, why)
            except ActorUnavailable:
                pause = partial(trio.sleep, PAUSE)
            else:
                if isinstance(verdict, Verdict):
                    return verdict
                known = verdict
                if self._log.inputs():
                    return known  # the question stays open; the message is answered first
            with trio.move_on_at(until) as scope:
                await pause()
            if scope.cancelled_caught:
                return known

    async def _record_decision(
        self, turn: str, call: str, plan: str, verdict: Verdict, *, keep: bool = False
    ) -> None:
        """Record a decision; with *keep*, wait as long as the disk is full."""
        entries: list[Entry] = [CallDecided(turn, call, plan, verdict.ruling, verdict.by)]
        if verdict.ruling == "source":
            entries.append(Endorsed(verdict.origins, verdict.by))
        if keep:
            await self._log.keep(*entries, last_words=True)
        else:
            await self._log.record(*entries)

    def _question(self, call: OpenCall, wanted: ExaminedCall, why: Ask) -> Question:
        turn, action = self._log.turn, wanted.plan.action
        origins = tuple(self._log.state.taint.sources)
        offered: list[OwnerAnswer] = []
        if why.remember:
            offered += ["conversation", "always"]
        elif len(origins) == 1 and origins[0] not in NAMELESS:
            offered.append("source")
        return Question(
            session=self._log.id,
            call=call_key(turn.id, call.key),
            tool=wanted.tool.name,
            plan=self.hash_binding(wanted),
            exact=wanted.exact,
            subject=wanted.plan.subject,
            why=why.why
            if call.outer is None
            else f"{why.why}; it is part of {_name_outer(call.outer)}",
            route=turn.route,
            principal=turn.principal,
            offered=tuple(offered),
            origins=origins,
            scope=wanted.scope if why.remember else None,
            asks=wanted.plan.asks or action.asks,
            arguments=call.call.arguments,
            message=turn.message,
        )
