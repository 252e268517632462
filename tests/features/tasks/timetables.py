"""A timetable that keeps its tasks in memory, for tests of those who ask one."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec
import trio

from elwood.agent.approvals.messages import CommandResult
from elwood.features.tasks.actor import TimetableActor
from elwood.features.tasks.messages import Change, ListTasks, PlanTask, TimetableMail, Unscheduled
from elwood.features.tasks.state import Timetable as Kept
from elwood.features.tasks.state import TimetableEntry
from elwood.features.tasks.task import Result, Task, TaskStatus
from elwood.features.tasks.texts import next_runs
from elwood.foundation.runtime import Address, Mailbox, inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal


@attrs.define
class Timetable:
    """Answers as the real one does, and forgets everything; *full* refuses what is new."""

    now: Callable[[], float]
    seen: dict[str, TaskStatus] = attrs.field(factory=dict)
    changes: list[tuple[str, str, str]] = attrs.field(factory=list)
    full: bool = False

    async def run(self, mailbox: Mailbox[TimetableMail]) -> None:
        """Answer until the mailbox is closed."""
        async for message in mailbox:
            match message:
                case PlanTask(task=task):
                    message.reply.set(self._take(task))
                case ListTasks(chores=chores):
                    shown = [one for one in self.seen.values() if chores or not one.task.chore]
                    message.reply.set(tuple(shown))
                case Change(id=id_, verb=verb, by=by):
                    self.changes.append((id_, verb, by))
                    message.reply.set(self._change(id_, verb, by))
                case _:
                    raise AssertionError(message)

    def put(
        self,
        task: Task,
        *,
        last: float | None = None,
        result: Result | None = None,
        paused: str = "",
        failures: int = 0,
    ) -> None:
        """Have *task* in it."""
        next_ = None if paused else next(iter(next_runs(task, self.now(), 1)), None)
        self.seen[task.id] = TaskStatus(
            task,
            next=next_,
            last=last,
            result=result,
            paused=paused,
            failures=failures,
        )

    def _take(self, task: Task) -> TaskStatus | Unscheduled:
        for old in self.seen.values():
            if msgspec.structs.replace(old.task, id="") == task:
                return old
        if self.full:
            return Unscheduled("there are 100 tasks already")
        slug = "-".join(re.findall("[a-z0-9]+", task.title.lower())) or "task"
        slug += f"-{len(self.seen)}" if slug in self.seen else ""
        task = msgspec.structs.replace(task, id=slug)
        self.put(task)
        return self.seen[slug]

    def _change(self, id_: str, verb: str, by: str) -> CommandResult:
        if id_ not in self.seen:
            return CommandResult(f"There is no task {id_!r}; /tasks lists them.", ok=False)
        match verb:
            case "cancel":
                del self.seen[id_]
                return CommandResult("Cancelled.", ok=True)
            case "pause":
                self.seen[id_] = msgspec.structs.replace(
                    self.seen[id_], paused=f"paused by {by}", next=None
                )
                return CommandResult("Paused.", ok=True)
            case "resume":
                self.put(self.seen[id_].task)
                return CommandResult("It goes on.", ok=True)
            case "stop":
                return CommandResult("Nothing of it is running.", ok=False)
            case _:
                return CommandResult("It runs now.", ok=True)


@asynccontextmanager
async def answering(timetable: Timetable) -> AsyncIterator[Address[TimetableMail]]:
    """Run *timetable*."""
    mailbox: Mailbox[TimetableMail] = Mailbox("timetable", 16)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timetable.run, mailbox)
        yield mailbox.address
        mailbox.close()


@asynccontextmanager
async def keeping(
    state: Path, now: Callable[[], float], zone: str = "UTC"
) -> AsyncIterator[Address[TimetableMail]]:
    """Run the real one over the journal in *state*."""
    journal: Journal[TimetableEntry, Kept] = Journal(
        state / "schedule.jsonl", TimetableEntry, Kept, Disk(blocking=inline, clock=now)
    )

    async def changed(tasks: Sequence[Task]) -> None:
        await trio.lowlevel.checkpoint()

    actor = TimetableActor(journal, hint=lambda woken: True, changed=changed, clock=now, zone=zone)
    mailbox: Mailbox[TimetableMail] = Mailbox("timetable", 16)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        yield mailbox.address
        mailbox.close()
