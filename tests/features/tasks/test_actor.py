"""The timetable: requests can be repeated, and its answers are on disk first."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio
from msgspec.structs import replace

from elwood.agent.conversation.inbound import CommandResult
from elwood.features.tasks.actor import TimetableActor
from elwood.features.tasks.messages import (
    Adopt,
    Change,
    FinishRun,
    GetAgenda,
    ListTasks,
    PlanTask,
    StartRun,
    TimetableMail,
)
from elwood.features.tasks.rules import Agenda, DueRun, Outcome
from elwood.features.tasks.state import PlannedRun, Timetable, TimetableEntry
from elwood.features.tasks.task import Result, Task, TaskStatus
from elwood.features.tasks.when import Every
from elwood.foundation.runtime import ActorTable, Child, Mailbox, RestartPolicy, inline, supervise
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import Journal

HOUR = 3600.0
NOON = 1_774_699_200.0
TASK = Task("", "Check the build", Every(HOUR, NOON), prompt="p")


class Full(Calls):
    """A disk that can be full."""

    is_full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)


@attrs.define
class House:
    """A timetable on a disk that can be full."""

    box: Mailbox[TimetableMail]
    actor_table: ActorTable
    disk: Full
    now: float = NOON

    async def consult(self, now: float) -> Agenda:
        self.now = now
        return await self.box.address.ask(GetAgenda(now=now))

    async def begin(self, run: DueRun, seen: str = "") -> bool:
        return await self.box.address.ask(StartRun(run=run.planned, seen=seen))

    async def end(self, run: DueRun, result: Result = "done") -> bool:
        return await self.box.address.ask(FinishRun(run=run.planned, outcome=Outcome(result)))

    async def listed(self) -> list[str]:
        return [one.task.id for one in await self.box.address.ask(ListTasks())]


async def ignore(lines: object) -> None:
    await trio.lowlevel.checkpoint()


@asynccontextmanager
async def house(folder: Path, restored_at: float | None = None) -> AsyncIterator[House]:
    calls, actor_table = Full(), ActorTable(trio.current_time)
    it = House(Mailbox("timetable", 16), actor_table, calls)
    journal: Journal[TimetableEntry, Timetable] = Journal(
        folder / "schedule.jsonl",
        TimetableEntry,
        Timetable,
        Disk(blocking=inline, clock=lambda: it.now, calls=calls),
    )

    actor = TimetableActor(
        journal,
        hint=lambda woken: True,
        log_runs=ignore,
        clock=lambda: it.now,
        zone="Europe/Berlin",
        restored_at=restored_at,
    )
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        children = [Child(it.box, actor.run, RestartPolicy(first_delay=0.1))]

        async def run() -> None:
            await supervise(
                children, stop=stop, listener=lambda event: None, actor_table=actor_table
            )

        nursery.start_soon(run)
        yield it
        stop.set()


async def scheduled(it: House, task: Task = TASK) -> TaskStatus:
    seen = await it.box.address.ask(PlanTask(task=task))
    assert isinstance(seen, TaskStatus)
    return seen


async def test_a_run_begins_once_and_ends_once(tmp_path: Path, autojump_clock: object) -> None:
    async with house(tmp_path) as it:
        await scheduled(it)
        (run,) = (await it.consult(NOON + HOUR)).runs
        assert await it.begin(run, seen="x")
        assert await it.begin(run)
        (standing,) = (await it.consult(NOON + HOUR + 1)).runs
        assert standing.begun
        other = replace(run, planned=replace(run.planned, attempt=2))
        assert not await it.begin(other), "no second run begins"
        assert await it.end(run)
        assert await it.end(run, "failed"), "it has its outcome"
        assert not await it.begin(run)
    async with house(tmp_path) as it:
        assert not await it.begin(run)
        assert (await it.consult(NOON + HOUR + 2)).runs == ()
        (seen,) = await it.box.address.ask(ListTasks())
        assert (seen.result, seen.last, seen.failures) == ("done", NOON + HOUR + 1, 0)


async def test_a_removed_task_does_not_start(tmp_path: Path, autojump_clock: object) -> None:
    async with house(tmp_path) as it:
        await scheduled(it)
        (run,) = (await it.consult(NOON + HOUR)).runs
        for verb in ("pause", "cancel"):
            assert (await it.box.address.ask(Change(id="check-the-build", verb=verb, by="me"))).ok
            assert not await it.begin(run)
        assert await it.listed() == []
        assert await it.end(run)


async def test_a_full_disk_starts_nothing_and_loses_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house(tmp_path) as it:
        await scheduled(it)
        (run,) = (await it.consult(NOON + HOUR)).runs
        it.disk.is_full = True
        assert not await it.begin(run)
        answer = await it.box.address.ask(PlanTask(task=replace(TASK, title="other")))
        assert isinstance(answer, CommandResult)
        assert not (
            await it.box.address.ask(Change(id="check-the-build", verb="pause", by="me"))
        ).ok
        await it.box.address.ask(Adopt(origin="config", tasks=(replace(TASK, id="c"),)))
        assert (await it.consult(NOON + 5 * HOUR)).runs == ()
        it.disk.is_full = False
        (run,) = (await it.consult(NOON + 5 * HOUR)).runs
        assert await it.begin(run)
        it.disk.is_full = True
        assert not await it.end(run)
        it.disk.is_full = False
        assert await it.end(run)


async def test_an_invalid_task_is_shown(tmp_path: Path, autojump_clock: object) -> None:
    async with house(tmp_path) as it:
        bad, good = replace(TASK, id="bad"), replace(TASK, id="good")
        await it.box.address.ask(Adopt(origin="house", tasks=(bad,)))
        await it.box.address.ask(Adopt(origin="config", tasks=(bad, good)))
        assert await it.listed() == ["bad", "good"]
        (trouble,) = it.actor_table.statuses["timetable"].troubles.values()
        assert trouble.error == "bad: this id belongs to a task of Elwood itself"
        await it.box.address.ask(Adopt(origin="config", tasks=(good,)))
        assert not it.actor_table.statuses["timetable"].troubles


async def test_a_state_from_a_backup_repeats_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house(tmp_path) as it:
        await scheduled(it)
        (run,) = (await it.consult(NOON + HOUR)).runs
        assert await it.begin(run)
    for _ in range(2):
        async with house(tmp_path, restored_at=NOON + 3.5 * HOUR) as it:
            agenda = await it.consult(NOON + 3.6 * HOUR)
            assert agenda.runs == ()
            assert agenda.tell is not None
            assert agenda.tell.text.count("backup") == 2
            (run,) = (await it.consult(NOON + 4 * HOUR)).runs
            assert run.planned == PlannedRun("check-the-build", NOON + 4 * HOUR, series=1)
