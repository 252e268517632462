"""What the house does for itself, as tasks: the contract of a chore, the tasks, and the chores."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import date
from pathlib import Path

import attrs
import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.session.messages import SessionsMail
from elwood.features.daily_notes.reflections import due_reflections, request
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.features.memory.messages import MemoryMail, Tidy
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Every
from elwood.foundation.runtime import ActorUnavailable, Address, Blocking
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.text.lines import duration

# The chores; `task.RESERVED` keeps their names.
BACKUP, SWEEP, MEMORY, REFLECTIONS = "backup", "sweep", "memory", "reflections"
# Seconds: what was missed in a week of holidays is made up for.
LATE = 8 * 86_400.0
# What a reflection may do: look at notes, and write one.
REFLECTS = ("read_file", "write_file")
# Conversations that are opened at once to be put away, and the seconds until the next ones are:
# each is in memory for a while.
SWEPT, SWEEP_PAUSE = 50, 30.0
# Seconds by which windows of sweeps overlap: clocks of file systems are coarse.
OVERLAP = 60.0


@attrs.frozen
class Report:
    """What came of a chore, in *words*.

    With *prompt* it is not done yet: a model is to be asked this, in the run of the chore's task.
    """

    words: str = ""
    failed: bool = False
    prompt: str = ""


Chore = Callable[[float], Awaitable[Report]]
"""Does what is due; is given when it was last done well, Unix seconds (0: never)."""


def house_tasks(zone: str, *, backup_every: float, off: Iterable[str] = ()) -> tuple[Task, ...]:
    """List them, but those that are *off*; *backup_every* is in seconds, 0 for never.

    >>> [task.id for task in house_tasks("UTC", backup_every=0, off={"reflections"})]
    ['sweep', 'memory']
    """
    tasks = [
        _task(SWEEP, "put quiet conversations away", Cadence("hourly"), zone),
        _task(MEMORY, "tidy the memory up", Cadence("daily"), zone),
        _task(
            REFLECTIONS, "reflect on the week or the month", Cadence("daily"), zone, tools=REFLECTS
        ),
    ]
    if backup_every:
        when = Cadence("daily") if backup_every == 86_400 else Every(backup_every)
        tasks.append(_task(BACKUP, "take a backup", when, zone))
    return tuple(task for task in tasks if task.id not in set(off))


def _task(
    id_: str, title: str, when: Cadence | Every, zone: str, tools: tuple[str, ...] | None = None
) -> Task:
    return Task(
        id_,
        title,
        when,
        zone,
        chore=id_,
        role="cheap",
        tools=tools,
        catch_up=LATE,
        origin="house",
    )


@attrs.frozen
class Sweep:
    """Opens the conversations that were quiet for *after* seconds: then they are put away.

    Each is opened once for that, in the sweep after its time was up; *folder* holds their logs.
    """

    folder: Path
    sessions: Address[SessionsMail]
    after: float
    now: Callable[[], float]
    blocking: Blocking

    async def __call__(self, last: float) -> Report:
        """Open what has become due since Unix time *last*."""
        until = self.now() - self.after
        since = last - self.after - OVERLAP
        names = await self.blocking(lambda: quiet(self.folder, since, until))
        for number, name in enumerate(names, 1):
            try:
                # A hint that says nothing new: who gets it opens its log, which is all we want.
                await self.sessions.tell(Decided(name))
            except ActorUnavailable as error:
                return Report(str(error), failed=True)
            if number % SWEPT == 0:
                await trio.sleep(SWEEP_PAUSE)
        return Report(f"{len(names)} conversations looked at, quiet for {duration(self.after)}")


def quiet(folder: Path, since: float, until: float) -> list[str]:
    """Name the sessions whose log was written last between two Unix times, the oldest first.

    Blocks.
    """
    if not folder.is_dir():
        return []
    found = [(path.stat().st_mtime, path.stem) for path in folder.glob("*.jsonl")]
    return [name for written, name in sorted(found) if since < written <= until]


@attrs.frozen
class TidyMemory:
    """Has the memory tidied up, and the index of the daily notes."""

    memory: Address[MemoryMail]
    daily: DailyNoteSearch

    async def __call__(self, last: float) -> Report:
        """Ask for it."""
        await self.daily.tidy()
        try:
            done = await self.memory.ask(Tidy())
        except ActorUnavailable as error:
            return Report(str(error), failed=True)
        return Report(done.text, failed=not done.ok)


@attrs.frozen
class Reflecting:
    """Has the week or the month that is over reflected on, one at a time, the oldest first."""

    threads: DailyNotes
    now: Callable[[], float]

    async def __call__(self, last: float) -> Report:
        """Say what a model is to be asked, if anything is due."""
        try:
            names = await self.threads.names()
        except (PathRefused, Unconfined) as error:
            return Report(str(error), failed=True)
        due = due_reflections(names, date.fromisoformat(self.threads.today(self.now())))
        return Report(prompt=request(due[0])) if due else Report("nothing to reflect on")
