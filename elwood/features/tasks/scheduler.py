"""Starts what is planned when its time has come; owns nothing, so a crash costs nothing."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from elwood.features.tasks.due_runs import Agenda, Run, Telling
from elwood.features.tasks.messages import (
    Begin,
    Consult,
    End,
    Heard,
    TimetableMail,
    Woken,
)
from elwood.features.tasks.run import Errands, Outcome
from elwood.foundation.runtime import Address, Mailbox

log = logging.getLogger(__name__)

# Runs at once, of different tasks: each may be a conversation with a model.
MAX_RUNS = 8
# Reminders at once, beside those runs: a session says them at once, and runs take half an hour.
MAX_REMINDERS = 8
# Seconds between two looks at the wall clock: how late a suspend, or a clock that was set, is
# noticed at most.
LOOK = 60.0
# Seconds by which the two clocks may drift apart between two looks without a word.
DRIFT = 5.0
# Seconds until what found no room, or did not reach the owner, is tried again.
RECORD_AGAIN, TELL_AGAIN = 10.0, 600.0

Tell = Callable[[str, tuple[str, ...], bool], Awaitable[bool]]
"""Posts a text with buttons to the owner, marked as a repeat or not; says if it has arrived."""


class Scheduler:
    """Asks the timetable what is to be done, has it done, and says what came of it.

    *refresh* is called before each look: it reads what people may have changed.  *now* tells Unix
    time, and is asked each time anew.  *full* says why no new work is taken, if none is: runs then
    wait, and come late.  *look* is how many seconds it sleeps at most.
    """

    def __init__(
        self,
        timetable: Address[TimetableMail],
        errands: Errands,
        *,
        refresh: Callable[[], Awaitable[None]],
        tell: Tell,
        now: Callable[[], float],
        full: Callable[[], str] = lambda: "",
        look: float = LOOK,
    ) -> None:
        self._timetable = timetable
        self._errands = errands
        self._refresh = refresh
        self._tell = tell
        self._now = now
        self._full = full
        self._look = look
        self._running: set[str] = set()
        self._reminding: set[str] = set()
        self._telling = False
        self._clocks: tuple[float, float] | None = None

    async def run(self, mailbox: Mailbox[Woken]) -> None:
        """Work until stopped; runs under way are left to their sessions, and gone on with later."""
        self._running, self._reminding = set(), set()
        self._telling, self._clocks = False, None
        async with trio.open_nursery() as nursery:
            wake = mailbox.address
            while True:
                await self._refresh()
                now = self._now()
                self._compare(now)
                agenda = await self._timetable.insist(partial(Consult, now=now))
                self._start(agenda, nursery, wake)
                for session in agenda.let_go:
                    self._errands.let_go(session)
                pause = self._look
                if agenda.next is not None:
                    pause = min(pause, max(0.0, agenda.next - self._now()))
                if not await self._pause(mailbox, pause):
                    break
            nursery.cancel_scope.cancel()

    def _start(self, agenda: Agenda, nursery: trio.Nursery, wake: Address[Woken]) -> None:
        full = self._full()
        for run in agenda.runs:
            if full and not run.begun:
                continue  # a session would refuse it, and five times of that pause a task
            busy, most = self._running, MAX_RUNS
            if run.task.message:
                busy, most = self._reminding, MAX_REMINDERS
            if run.task.id not in busy and len(busy) < most:
                busy.add(run.task.id)
                nursery.start_soon(self._carry_out, run, busy, wake)
        if agenda.tell is not None and not self._telling:
            self._telling = True
            nursery.start_soon(self._bring, agenda.tell, wake)

    async def _carry_out(self, run: Run, busy: set[str], wake: Address[Woken]) -> None:
        """Do one run from its beginning, or from wherever the life before this one left it."""
        try:
            await self._do(run)
        finally:
            busy.discard(run.task.id)
        wake.offer(Woken())

    async def _do(self, run: Run) -> None:
        failure: Outcome | None = None
        begin = partial(Begin, run=run.planned)
        if not run.begun:
            seen = await self._errands.look(run.task)
            if isinstance(seen, Outcome):
                failure, seen = seen, ""
            elif seen and seen == run.seen and not run.planned.is_wanted:
                await self._end(run, Outcome("unchanged"))
                return
            begin = partial(begin, seen=seen)
        # Also if it has begun: since the agenda was made it may have ended.
        if not await self._timetable.insist(begin):
            if not run.begun:
                await trio.sleep(RECORD_AGAIN)
            return
        about = {"task": run.task.id, "due": run.planned.due, "attempt": run.planned.attempt}
        log.info("run goes on" if run.begun else "run began", extra=about)
        outcome = failure or await self._errands(run)
        log.info("run ended", extra={**about, "result": outcome.result})
        await self._end(run, outcome)

    async def _end(self, run: Run, outcome: Outcome) -> None:
        end = partial(
            End,
            run=run.planned,
            result=outcome.result,
            words=outcome.words,
            acted=outcome.acted,
            told=outcome.told,
        )
        while True:
            if await self._timetable.insist(end):
                return
            await trio.sleep(RECORD_AGAIN)

    async def _bring(self, news: Telling, wake: Address[Woken]) -> None:
        if await self._tell(news.text, news.buttons, news.again):
            await self._timetable.insist(partial(Heard, upto=news.upto))
        else:
            await trio.sleep(TELL_AGAIN)
        self._telling = False
        wake.offer(Woken())

    def _compare(self, now: float) -> None:
        """Note when the wall clock went another way than ours: it was set, or the machine slept."""
        here = trio.current_time()
        if self._clocks is not None:
            drift = (now - self._clocks[0]) - (here - self._clocks[1])
            if abs(drift) > DRIFT:
                log.warning("the clock was set, or the machine slept", extra={"seconds": drift})
        self._clocks = (now, here)

    async def _pause(self, mailbox: Mailbox[Woken], seconds: float) -> bool:
        """Wait for *seconds*, or until woken; False if we are stopped."""
        with trio.move_on_after(seconds), suppress(trio.WouldBlock):
            try:
                woken = await mailbox.receive()
                while True:  # several hints to look are one
                    if woken.stop:
                        self._errands.stop(woken.stop)
                    woken = mailbox.receive_nowait()
            except trio.EndOfChannel:
                return False
        return True
