"""What the house does for itself at planned times: the chores, but the backup."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import attrs
import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.session.messages import SessionsMail
from elwood.agent.session.turn.inputs import age
from elwood.features.daily_notes.reflections import due_reflections, request
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.features.memory.messages import MemoryMail, Tidy
from elwood.features.tasks.chores import Report
from elwood.foundation.runtime import ActorUnavailable, Address, Blocking
from elwood.foundation.storage.confined import PathRefused, Unconfined

# Conversations that are opened at once to be put away, and the seconds until the next ones are:
# each is in memory for a while.
SWEPT, SWEEP_PAUSE = 50, 30.0
# Seconds by which windows of sweeps overlap: clocks of file systems are coarse.
OVERLAP = 60.0


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
        return Report(f"{len(names)} conversations looked at, quiet for {age(self.after)}")


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
