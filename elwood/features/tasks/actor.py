"""Keeps what is to be done and what came of it: the only writer of schedule.jsonl."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.features.tasks import changes as scheduling
from elwood.features.tasks import due_runs as planning
from elwood.features.tasks import missed_runs as passing
from elwood.features.tasks import on_run_finished as ending
from elwood.features.tasks import task_status as outlook
from elwood.features.tasks.cancelled import is_cancelled
from elwood.features.tasks.due_runs import Agenda
from elwood.features.tasks.entries import (
    Begun,
    Shown,
    TimetableEntry,
    Told,
)
from elwood.features.tasks.messages import (
    Adopt,
    Begin,
    Change,
    Consult,
    End,
    Heard,
    ListTasks,
    Schedule,
    TimetableMail,
    Unscheduled,
    WhichCancelled,
    Woken,
)
from elwood.features.tasks.state import Row, Timetable
from elwood.features.tasks.task import Seen, Task
from elwood.foundation.runtime import (
    Halt,
    Mailbox,
    clear_error,
    report_error,
)
from elwood.foundation.storage.journal import DiskFull, Journal

log = logging.getLogger(__name__)

RECORD, COPY, ADOPT = "writing the timetable", "writing down your tasks", "taking tasks in"
# Seconds until what failed is tried again.
AGAIN = 60.0

Changed = Callable[[Sequence[Task]], Awaitable[None]]


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
        self._to_copy = trio.Event()

    async def run(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Replay, then answer until stopped."""
        await self._journal.open()
        if self._restored_at is not None:
            await self._close(self._restored_at)
        self._copied = None
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._copy)
            async for message in mailbox:
                await self._answer(message)
            tasks.cancel_scope.cancel()

    async def _close(self, restored_at: float) -> None:
        """Close what may have been done; nobody is answered before that."""
        while True:
            if await self._record(scheduling.restored(self._table, restored_at, self._zone)):
                return
            await trio.sleep(AGAIN)

    async def _answer(self, message: TimetableMail) -> None:
        match message:
            case Schedule():
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
                    await self._record([Told(upto)])
                message.reply.set(None)
            case _:
                assert_never(message)

    @property
    def _table(self) -> Timetable:
        return self._journal.state

    async def _schedule(self, task: Task) -> Seen | Unscheduled:
        now = self._clock()
        task, decision = scheduling.schedule(self._table, task, now)
        if not decision.ok:
            return Unscheduled(decision.words)
        if not await self._record(decision.entries):
            return Unscheduled("there is no room on the disk to write it down")
        if decision.entries:
            log.info("task scheduled", extra={"task": task.id})
            self._hint(Woken())
        return outlook.seen(self._table.rows[task.id], now)

    async def _change(self, change: Change) -> CommandResult:
        decision = scheduling.change(
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
        decision, problems = scheduling.adopt(self._table, adopt.origin, adopt.tasks, self._clock())
        if problems:
            report_error(f"{ADOPT} ({adopt.origin})", "; ".join(problems))
        else:
            clear_error(f"{ADOPT} ({adopt.origin})")
        if decision.entries and await self._record(decision.entries):
            log.info(
                "tasks adopted", extra={"origin": adopt.origin, "entries": len(decision.entries)}
            )
            self._hint(Woken())

    def _list(self, chores: bool) -> tuple[Seen, ...]:
        now = self._clock()
        rows = [row for row in self._table.rows.values() if not row.gone]
        seen = [outlook.seen(row, now) for row in rows if chores or not row.task.chore]
        return tuple(sorted(seen, key=lambda one: (one.next is None, one.next or 0.0)))

    async def _consult(self, now: float) -> Agenda:
        """Settle what has passed by; without room to write that down nothing new is begun."""
        settled = await self._record(passing.turned(self._table, now, self._zone))
        settled = settled and await self._record(passing.settle(self._table, now, self._zone))
        if settled:
            await self._record(planning.finished(self._table, now))
        agenda = planning.agenda(self._table, now)
        if agenda.tell is not None and not agenda.tell.again:
            settled = await self._record([Shown(agenda.tell.upto)]) and settled
        if not settled:
            return Agenda(tuple(run for run in agenda.runs if run.begun))
        return agenda

    async def _begin(self, begin: Begin) -> bool:
        row, run = self._table.rows.get(begin.run.task), begin.run
        if row is None:
            return False
        if row.run is not None:
            return row.run.planned == run
        may = planning.may_begin(row, run, self._clock())
        return may and await self._record([Begun(run, begin.seen)])

    async def _end(self, end: End) -> bool:
        row, run = self._table.rows.get(end.run.task), end.run
        if row is None or not (_is_running(row, end) or row.knows(run)):
            return True
        entries = ending.ended(
            row, run, end.result, end.words, end.acted, self._clock(), self._zone, told=end.told
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
            self._to_copy.set()
        return True

    async def _copy(self) -> None:
        """Hand the tasks made in conversations on, whenever they are others."""
        while True:
            self._to_copy = trio.Event()
            rows = self._table.rows.values()
            tasks = tuple(row.task for row in rows if row.task.origin == "talk" and not row.gone)
            if tasks != self._copied:
                try:
                    await self._changed(tasks)
                except Halt:
                    raise
                except Exception as error:  # a copy: the truth stands in the log, and goes on
                    log.exception("tasks not copied")
                    report_error(COPY, f"{type(error).__name__}: {error}")
                    with trio.move_on_after(AGAIN):
                        await self._to_copy.wait()
                    continue
                clear_error(COPY)
                self._copied = tasks
            await self._to_copy.wait()


def _is_running(row: Row, end: End) -> bool:
    return row.run is not None and row.run.planned == end.run
