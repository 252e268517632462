"""Only the scheduling part of the app, through any time span and number of crashes.

The timetable and the scheduler are real, on a real file; sessions, chores and the owner are fakes
that survive Elwood, like the things they replace.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import trio
import trio.testing

from elwood.agent.conversation.inbound import Busy, Inbound, NotNow, Refused, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.parts import Do, Report
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Await, SessionsMail, StopRun
from elwood.features.tasks.actor import Scheduler, TaskRunner, TimetableActor
from elwood.features.tasks.messages import (
    Adopt,
    Change,
    ListTasks,
    PlanTask,
    TimetableChanged,
    TimetableMail,
)
from elwood.features.tasks.rules import Verb, WatchedState
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.features.tasks.task import Origin, Task
from elwood.foundation.runtime import (
    ActorTable,
    ActorUnavailable,
    Child,
    Mailbox,
    RestartPolicy,
    inline,
    supervise,
)
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.journeys.crashing import SteppedDisk
from tests.journeys.disk import Kill
from tests.journeys.judging import read

ALWAYS = RestartPolicy(first_delay=0.1, max_crashes=None)
Event = tuple[float, Callable[["World", "House"], Awaitable[None] | None]]


@attrs.define
class Work:
    """A run in a session: its result, and when (true time; never: it is lost)."""

    asked: Inbound
    done: RunResult
    ends: float
    is_done: bool = False


@attrs.define
class World:
    """The world that survives Elwood.

    *true* is the real time, *skew* how far the wall clock is ahead of it.
    """

    folder: Path
    random: random.Random
    true: float
    end: float
    tasks: dict[Origin, tuple[Task, ...]] = attrs.field(factory=dict)
    events: list[Event] = attrs.field(factory=list)
    skew: float = 0.0
    works: dict[str, Work] = attrs.field(factory=dict)
    effects: Counter[str] = attrs.field(factory=Counter)
    chores: list[str] = attrs.field(factory=list)
    chore_names: tuple[str, ...] = ()
    told: list[tuple[str, bool]] = attrs.field(factory=list)
    files: dict[str, str] = attrs.field(factory=dict)
    disk: SteppedDisk = attrs.field(factory=SteppedDisk)
    lives: int = 0
    look: float = 60.0
    off: Callable[["World"], float] = lambda world: 1.0
    outcome: Callable[["World", Inbound], tuple[RunResult, float]] = lambda world, asked: (
        RunResult(""),
        1.0,
    )
    full: str = ""
    refusal: Callable[["World"], Busy | NotNow | Refused | None] = lambda world: None
    route: Callable[[Task], Route | None] = lambda task: Route("chat")
    hears: Callable[[], bool] = lambda: True
    chore: Callable[["World", str, float], Report] = lambda world, name, since: Report()
    _began: float = 0.0

    def true_time(self) -> float:
        """Return the true time."""
        return self.true + trio.current_time() - self._began

    def now(self) -> float:
        """Read the wall clock."""
        return self.true_time() + self.skew

    def begin(self) -> None:
        """Start a process."""
        self._began = trio.current_time()
        self.disk.revive()
        self.lives += 1

    def entries(self) -> list[tuple[int, float, TimetableEntry]]:
        """Read the journal: number, time, entry."""
        return read(self.folder / "schedule.jsonl", TimetableEntry)

    def live(self) -> "World":
        """Run as many processes as needed to reach the end."""
        while self.true < self.end:
            try:
                trio.run(self._life, clock=trio.testing.MockClock(autojump_threshold=0))
            except* Kill:
                self.true += self.off(self)
        return self

    async def _life(self) -> None:
        self.begin()
        house = House(self)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(house.run)
                await self._happen(house)
                house.stop.set()
        finally:
            self.true = self.true_time()

    async def _happen(self, house: "House") -> None:
        while self.events and self.events[0][0] < self.end:
            await trio.sleep(max(0.0, self.events[0][0] - self.true_time()))
            event = self.events[0]
            with suppress(ActorUnavailable):  # it dies, and so does this task
                acting = event[1](self, house)
                if acting is not None:
                    await acting
                self.events.remove(event)
            await trio.lowlevel.checkpoint()
        await trio.sleep(max(0.0, self.end - self.true_time()))


class House:
    """One process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stop = trio.Event()
        self.timetable: Mailbox[TimetableMail] = Mailbox("timetable", 64)
        self.sessions: Mailbox[SessionsMail] = Mailbox("sessions", 64)
        self.scheduler: Mailbox[TimetableChanged] = Mailbox("scheduler", 16)
        self._adopted: dict[Origin, tuple[Task, ...]] = {}
        disk = Disk(blocking=inline, clock=world.now, calls=world.disk)
        path = world.folder / "schedule.jsonl"
        journal: Journal[TimetableEntry, Timetable] = Journal(
            path, TimetableEntry, Timetable, disk, segment=30_000
        )
        self.journal = journal
        self._timetable = TimetableActor(
            journal,
            hint=self.scheduler.address.offer,
            log_runs=self._log_runs,
            clock=world.now,
            zone="Europe/Berlin",
        )
        errands = TaskRunner(
            self.sessions.address,
            chores={name: self._chore(name) for name in world.chore_names},
            watching=self._watching,
            route=world.route,
            home=lambda route: None,
            refusal=self._refusal,
            now=world.now,
            zone="Europe/Berlin",
        )
        self._scheduler = Scheduler(
            self.timetable.address,
            errands,
            refresh=self._refresh,
            tell=self._tell,
            now=world.now,
            full=lambda: world.full,
            look=world.look,
        )

    async def run(self) -> None:
        """Run until stopped or killed."""
        children = (
            Child(self.timetable, self._timetable.run, ALWAYS),
            Child(self.sessions, self._sessions, ALWAYS),
            Child(self.scheduler, self._scheduler.run, ALWAYS, grace=1.0),
        )
        await supervise(
            children,
            stop=self.stop,
            listener=lambda event: None,
            actor_table=ActorTable(trio.current_time),
        )

    async def change(self, id_: str, verb: Verb) -> None:
        """Change a task as a person does."""
        await self.timetable.address.ask(Change(id=id_, verb=verb, by="me"))

    async def is_paused(self, id_: str) -> bool:
        """Return True if a task is paused."""
        tasks = await self.timetable.address.ask(ListTasks(chores=True))
        return any(one.task.id == id_ and one.paused for one in tasks)

    async def schedule(self, task: Task) -> None:
        """Add a task as a conversation does."""
        await self.timetable.address.ask(PlanTask(task=task))

    async def _refresh(self) -> None:
        self.world.disk.step("refresh")
        for origin, tasks in self.world.tasks.items():
            if self._adopted.get(origin) != tasks:
                adopt = partial(Adopt, origin=origin, tasks=tasks)
                await self.timetable.address.insist(adopt)
                self._adopted[origin] = tasks

    async def _log_runs(self, lines: object) -> None:
        await trio.lowlevel.checkpoint()

    async def _refusal(self, task: Task) -> str:
        await trio.lowlevel.checkpoint()
        return ""

    async def _watching(self, task: Task) -> WatchedState:
        await trio.lowlevel.checkpoint()
        return WatchedState(self.world.files.get(task.id, "as ever"))

    async def _tell(self, text: str, buttons: tuple[str, ...], again: bool) -> bool:
        self.world.disk.step("before telling")
        self.world.told.append((text, again))
        await trio.sleep(1.0)
        self.world.disk.step("after telling")
        return self.world.hears()

    def _chore(self, name: str) -> Do:
        async def chore(since: float) -> Report:
            self.world.disk.step("before a chore")
            report = self.world.chore(self.world, name, since)
            await trio.sleep(1.0)
            self.world.chores.append(name)
            self.world.disk.step("after a chore")
            return report

        return chore

    async def _sessions(self, mailbox: Mailbox[SessionsMail]) -> None:
        async with trio.open_nursery() as nursery:
            async for message in mailbox:
                if isinstance(message, Inbound):
                    self._take(message)
                elif isinstance(message, Await):
                    nursery.start_soon(self._await, message)
                elif isinstance(message, StopRun):
                    self._stop_run(message)
            nursery.cancel_scope.cancel()

    def _stop_run(self, message: StopRun) -> None:
        """Stop a run that may have had an effect."""
        work = self.world.works.get(message.id)
        if work is not None and not work.is_done:
            work.done, work.is_done = RunResult(message.why, failed=True, acted=True), True
            work.ends = self.world.true_time()
        message.reply.set(None if work is None else work.done)

    def _take(self, message: Inbound) -> None:
        world = self.world
        world.disk.step("before it is taken")
        if message.id not in world.works:
            refusal = world.refusal(world)
            if refusal is not None:
                message.reply.set(refusal)
                return
            done, seconds = world.outcome(world, message)
            ends = world.true_time() + seconds if seconds >= 0 else seconds
            world.works[message.id] = Work(message, done, ends)
        assert world.works[message.id].asked.session == message.session
        world.disk.step("after it was taken")
        message.reply.set(Taken())

    async def _await(self, message: Await) -> None:
        world = self.world
        work = world.works.get(message.id)
        if work is None or work.ends < 0:
            message.reply.set(None)
            return
        await trio.sleep(max(0.0, work.ends - world.true_time()))
        if not work.is_done:
            world.disk.step("before its effect")
            work.is_done = True
            world.effects[message.id] += 1
            world.disk.step("after its effect")
        message.reply.set(work.done)
