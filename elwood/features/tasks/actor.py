"""The two actors of tasks: the timetable keeps what is to be done, the scheduler has it done.

They are two because sessions ask the timetable, and the scheduler asks sessions.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import assert_never

import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.features.tasks import rules
from elwood.features.tasks.messages import (
    Adopt,
    Begin,
    Change,
    Consult,
    End,
    Heard,
    ListTasks,
    PlanTask,
    TimetableMail,
    Unscheduled,
    WhichCancelled,
    Woken,
)
from elwood.features.tasks.rules import Agenda, DueRun, Telling
from elwood.features.tasks.run import Outcome, TaskRunner
from elwood.features.tasks.state import (
    NewsPosting,
    NewsTold,
    RunStarted,
    Timetable,
    TimetableEntry,
    is_cancelled,
)
from elwood.features.tasks.task import Task, TaskStatus
from elwood.foundation.runtime import Address, Mailbox, clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.journal import Journal

log = logging.getLogger(__name__)

RECORD, COPY, ADOPT = "writing the timetable", "writing down your tasks", "taking tasks in"
# Seconds until what failed is tried again.
AGAIN = 60.0

# Runs at once, of different tasks: each may be a conversation with a model.
MAX_RUNS = 8
# Reminders at once, beside those runs: a session says them at once, and runs take half an hour.
MAX_REMINDERS = 8
# Seconds between two looks at the wall clock: how late a suspend, or a clock that was set, is
# noticed at most.
LOOK = 60.0
# Seconds until what found no room, or did not reach the owner, is tried again.
RECORD_AGAIN, TELL_AGAIN = 10.0, 600.0

Changed = Callable[[Sequence[Task]], Awaitable[None]]
Tell = Callable[[str, tuple[str, ...], bool], Awaitable[bool]]
"""Posts a text with buttons to the owner, marked as a repeat or not; says if it has arrived."""


class TimetableActor:
    """Answers what is to be done, and records what was.

    *hint* wakes the scheduler, and must not wait.  *changed* is given all tasks made in
    conversations whenever they are others, and at the start: it writes a copy for people, whose
    failure is shown and changes nothing here.  *clock* tells Unix time, *zone* is the owner's.
    What was planned before *restored_at* may have been done by the state that a backup replaced.
    """

    def __init__(
        self,
        journal: Journal[TimetableEntry, Timetable],
        *,
        hint: Callable[[Woken], bool],
        changed: Changed,
        clock: Callable[[], float],
        zone: str,
        restored_at: float | None = None,
    ) -> None:
        self._journal = journal
        self._hint = hint
        self._changed = changed
        self._clock = clock
        self._zone = zone
        self._restored_at = restored_at
        self._copied: tuple[Task, ...] | None = None

    async def run(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Replay, then answer until stopped."""
        await self._journal.open()
        if self._restored_at is not None:
            await self._close(self._restored_at)
        self._copied = None
        await self._copy()
        async for message in mailbox:
            await self._answer(message)
            await self._copy()

    async def _close(self, restored_at: float) -> None:
        """Close what may have been done; nobody is answered before that."""
        while True:
            if await self._record(rules.restored(self._table, restored_at, self._zone)):
                return
            await trio.sleep(AGAIN)

    async def _answer(self, message: TimetableMail) -> None:
        match message:
            case PlanTask():
                message.reply.set(await self._schedule(message.task))
            case ListTasks(chores=chores):
                message.reply.set(self._list(chores))
            case WhichCancelled(runs=runs):
                known = self._table.cancelled
                message.reply.set(frozenset(run for run in runs if is_cancelled(known, *run)))
            case Change():
                message.reply.set(await self._change(message))
            case Adopt():
                await self._adopt(message)
                message.reply.set(None)
            case Consult(now=now):
                message.reply.set(await self._consult(now))
            case Begin():
                message.reply.set(await self._begin(message))
            case End():
                message.reply.set(await self._end(message))
            case Heard(upto=upto):
                if self._table.news and self._table.news[0].seq <= upto:
                    await self._record([NewsTold(upto)])
                message.reply.set(None)
            case _:
                assert_never(message)

    @property
    def _table(self) -> Timetable:
        return self._journal.state

    async def _schedule(self, task: Task) -> TaskStatus | Unscheduled:
        now = self._clock()
        task, decision = rules.schedule(self._table, task, now)
        if not decision.ok:
            return Unscheduled(decision.words)
        if not await self._record(decision.entries):
            return Unscheduled("there is no room on the disk to write it down")
        if decision.entries:
            log.info("task scheduled", extra={"task": task.id})
            self._hint(Woken())
        return rules.task_status(self._table.tasks[task.id], now)

    async def _change(self, change: Change) -> CommandResult:
        decision = rules.change(
            self._table,
            change.id,
            change.verb,
            change.by,
            self._clock(),
            stop=change.stop,
            own=change.own,
        )
        if not await self._record(decision.entries):
            return CommandResult("There is no room on the disk to write that down.", ok=False)
        if decision.entries or decision.stop:
            log.info("task changed", extra={"task": change.id, "verb": change.verb})
            self._hint(Woken(stop=change.id if decision.stop else ""))
        return CommandResult(decision.words, decision.ok)

    async def _adopt(self, adopt: Adopt) -> None:
        decision, problems = rules.adopt(self._table, adopt.origin, adopt.tasks, self._clock())
        if problems:
            report_error(f"{ADOPT} ({adopt.origin})", "; ".join(problems))
        else:
            clear_error(f"{ADOPT} ({adopt.origin})")
        if decision.entries and await self._record(decision.entries):
            log.info(
                "tasks adopted", extra={"origin": adopt.origin, "entries": len(decision.entries)}
            )
            self._hint(Woken())

    def _list(self, chores: bool) -> tuple[TaskStatus, ...]:
        now = self._clock()
        ones = [one for one in self._table.tasks.values() if not one.removed]
        seen = [rules.task_status(one, now) for one in ones if chores or not one.task.chore]
        return tuple(sorted(seen, key=lambda one: (one.next is None, one.next or 0.0)))

    async def _consult(self, now: float) -> Agenda:
        """Settle what has passed by; without room to write that down nothing new is begun."""
        settled = await self._record(rules.clock_behind(self._table, now, self._zone))
        settled = settled and await self._record(rules.missed_runs(self._table, now, self._zone))
        if settled:
            await self._record(rules.finished(self._table, now))
        agenda = rules.agenda(self._table, now)
        if agenda.tell is not None and not agenda.tell.again:
            settled = await self._record([NewsPosting(agenda.tell.upto)]) and settled
        if not settled:
            return Agenda(tuple(run for run in agenda.runs if run.begun))
        return agenda

    async def _begin(self, begin: Begin) -> bool:
        one, run = self._table.tasks.get(begin.run.task), begin.run
        if one is None:
            return False
        if one.run is not None:
            return one.run.planned == run
        may = rules.may_begin(one, run, self._clock())
        return may and await self._record([RunStarted(run, begin.seen)])

    async def _end(self, end: End) -> bool:
        one, run = self._table.tasks.get(end.run.task), end.run
        is_running = one is not None and one.run is not None and one.run.planned == run
        if one is None or not (is_running or one.knows(run)):
            return True
        entries = rules.on_run_finished(
            one,
            run,
            end.result,
            end.words,
            self._clock(),
            self._zone,
            acted=end.acted,
            told=end.told,
        )
        return await self._record(entries, last_words=True)

    async def _record(self, entries: Sequence[TimetableEntry], *, last_words: bool = False) -> bool:
        try:
            await self._journal.append(*entries, last_words=last_words)
        except DiskFull as error:
            report_error(RECORD, str(error))
            return False
        if entries:
            clear_error(RECORD)
        return True

    async def _copy(self) -> None:
        """Hand the tasks made in conversations on, whenever they are others."""
        states = self._table.tasks.values()
        tasks = tuple(one.task for one in states if one.task.origin == "talk" and not one.removed)
        if tasks == self._copied:
            return
        try:
            await self._changed(tasks)
        except (OSError, DiskFull) as error:  # the truth stands in the log
            report_error(COPY, f"{type(error).__name__}: {error}")
            return
        clear_error(COPY)
        self._copied = tasks


class Scheduler:
    """Asks the timetable what is to be done, has it done, and says what came of it.

    *refresh* is called before each look: it reads what people may have changed.  *now* tells Unix
    time, and is asked each time anew.  *full* says why no new work is taken, if none is: runs then
    wait, and come late.  *look* is how many seconds it sleeps at most.
    """

    def __init__(
        self,
        timetable: Address[TimetableMail],
        runner: TaskRunner,
        *,
        refresh: Callable[[], Awaitable[None]],
        tell: Tell,
        now: Callable[[], float],
        full: Callable[[], str] = lambda: "",
        look: float = LOOK,
    ) -> None:
        self._timetable = timetable
        self._runner = runner
        self._refresh = refresh
        self._tell = tell
        self._now = now
        self._full = full
        self._look = look
        self._running: set[str] = set()
        self._reminding: set[str] = set()
        self._telling = False

    async def run(self, mailbox: Mailbox[Woken]) -> None:
        """Work until stopped; runs under way are left to their sessions, and gone on with later."""
        self._running, self._reminding = set(), set()
        self._telling = False
        async with trio.open_nursery() as nursery:
            wake = mailbox.address
            while True:
                await self._refresh()
                now = self._now()
                agenda = await self._timetable.insist(partial(Consult, now=now))
                self._start(agenda, nursery, wake)
                for session in agenda.let_go:
                    self._runner.let_go(session)
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

    async def _carry_out(self, run: DueRun, busy: set[str], wake: Address[Woken]) -> None:
        """Do one run from its beginning, or from wherever the life before this one left it."""
        try:
            await self._do(run)
        finally:
            busy.discard(run.task.id)
        wake.offer(Woken())

    async def _do(self, run: DueRun) -> None:
        failure: Outcome | None = None
        begin = partial(Begin, run=run.planned)
        if not run.begun:
            seen = await self._runner.look(run.task)
            if isinstance(seen, Outcome):
                failure, seen = seen, ""
            elif seen and seen == run.seen and not run.planned.is_requested:
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
        outcome = failure or await self._runner.carry_out(run)
        log.info("run ended", extra={**about, "result": outcome.result})
        await self._end(run, outcome)

    async def _end(self, run: DueRun, outcome: Outcome) -> None:
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

    async def _pause(self, mailbox: Mailbox[Woken], seconds: float) -> bool:
        """Wait for *seconds*, or until woken; False if we are stopped."""
        with trio.move_on_after(seconds), suppress(trio.WouldBlock):
            try:
                woken = await mailbox.receive()
                while True:  # several hints to look are one
                    if woken.stop:
                        self._runner.stop(woken.stop)
                    woken = mailbox.receive_nowait()
            except trio.EndOfChannel:
                return False
        return True
