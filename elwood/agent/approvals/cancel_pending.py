"""Lets go of calls that wait for the owner: as somebody wants, or as their task was cancelled."""

from collections.abc import Collection, Sequence
from functools import partial

from elwood.agent.approvals.client import Seeking
from elwood.agent.session.log.entries import CallDecided, CallPending
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import call_key
from elwood.features.tasks.messages import TimetableMail, WhichCancelled
from elwood.foundation.runtime import Address


class Withdrawing:
    """Withdraws calls of one session; *timetable* knows which tasks were cancelled."""

    def __init__(
        self, log_: SessionLog, seeking: Seeking, timetable: Address[TimetableMail] | None
    ) -> None:
        self._log = log_
        self._seeking = seeking
        self._timetable = timetable

    async def __call__(self, *, anew: bool = False, turns: Collection[str] | None = None) -> int:
        """Let go of the calls that wait for the owner, or have been allowed and not begun.

        With *anew* the conversation ends, and what was permitted for it; with *turns* only the
        calls of these are meant.  Return how many.
        """
        pending = [kept.pending for kept in self._log.state.pending.values()]
        kept = [one for one in pending if turns is None or one.turn in turns]
        await self._let_go(kept, anew)
        return len(kept)

    async def forsaken(self) -> bool:
        """Let go of the calls that waited in runs of a task that was cancelled since.

        Tell whether the open turn was begun on a yes to one of them, and has not come to it.  Waits
        until the timetable answers: what it forbids must not be done.
        """
        state = self._log.state
        kept = [*state.pending.values(), *(state.turn.kept if state.turn is not None else ())]
        of = {one.pending: (one.errand.job, one.errand.series) for one in kept if one.errand}
        if self._timetable is None or not of:
            return False
        make = partial(WhichCancelled, runs=frozenset(of.values()))
        cancelled = await self._timetable.insist(make)
        gone = {call_key(one.turn, one.call): one for one, run in of.items() if run in cancelled}
        begun = state.turn.calls if state.turn is not None else {}
        await self._let_go([one for key, one in gone.items() if key in state.pending])
        calls = [begun[key] for key in gone if key in begun]
        return any(call.started is None and call.ended is None for call in calls)

    async def _let_go(self, kept: Sequence[CallPending], anew: bool = False) -> None:
        if kept or anew:
            await self._seeking.withdraw(*kept, anew=anew)
        if kept:
            gone = [CallDecided(one.turn, one.call, one.plan, "withdrawn") for one in kept]
            await self._log.keep(*gone)
