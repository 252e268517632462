"""Ten years of a busy Elwood: the size of its logs, and the cost of a start and a turn.

The logs have Elwood's format and the times of a clock that runs through the years.  Each month,
data older than `sessions.keep` is removed.  Then a real Elwood starts with them.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from elwood.agent.session.log.entries import Archived, Entry
from elwood.agent.session.log.state import Session, may_close
from elwood.agent.session.settings import SessionSettings
from elwood.features.tasks.state import (
    PlannedRun,
    RunFinished,
    RunStarted,
    TaskScheduled,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import Journal, list_closed, segments, verify
from tests.bench.rig import make_turn, run_elwood, run_server

YEARS, DAY = 10, 86_400
# Per day: runs of a job, and turns of a chat.
RUNS, TURNS = 1, 3
STARTS = 3
SAID = "We could have the rest of the soup, or I could look for something with leeks. " * 4
CHAT, JOB = "tg-1", "task-news"


class NoSync(Calls):
    """A disk without syncs, so that years pass in minutes."""

    def sync(self, fd: int) -> None:
        """Do nothing."""


class Years:
    """The logs of the folder *state* over the years."""

    def __init__(self, state: Path) -> None:
        self.now = time.time() - YEARS * 365 * DAY
        disk = Disk(blocking=inline, clock=lambda: self.now, calls=NoSync())
        self.talks = {
            name: Journal[Entry, Session](
                state / "sessions" / f"{name}.jsonl", Entry, Session, disk, may_close=may_close
            )
            for name in (CHAT, JOB)
        }
        self.schedule = Journal[TimetableEntry, Timetable](
            state / "schedule.jsonl", TimetableEntry, Timetable, disk
        )
        self.journals: list[Journal[Any, Any]] = [*self.talks.values(), self.schedule]
        self._turns = 0

    async def open(self) -> None:
        for journal in self.journals:
            await journal.open()
        task = Task("news", "news", Every(float(DAY)), prompt="p", origin="config")
        await self.schedule.append(TaskScheduled(task, self.now))

    async def day(self) -> None:
        """Simulate a day."""
        for _ in range(TURNS):
            await self._turn(CHAT)
        for _ in range(RUNS):
            run = PlannedRun("news", self.now, 1, 1)
            await self.schedule.append(RunStarted(run))
            await self._turn(JOB)
            await self.schedule.append(RunFinished(run, "done", "All is well."))
        for log in self.talks.values():
            await log.append(Archived())
        self.now += DAY

    async def _turn(self, name: str) -> None:
        self._turns += 1
        entries = make_turn(1, self._turns, SAID, self.now)
        for part in (entries[:2], entries[2:4], entries[4:]):
            await self.talks[name].append(*part)

    def sweep(self) -> None:
        """Remove expired data, like the chore."""
        for journal in self.journals:
            for path in segments(journal.path).values():
                if path.stat().st_mtime > self.now:  # sealed since the last sweep
                    os.utime(path, (self.now, self.now))
            for path in list_closed(journal.path, self.now - SessionSettings().keep)[0]:
                path.unlink()

    def size(self) -> float:
        """Return the size of all logs in MB."""
        files = (
            path
            for journal in self.journals
            for path in (journal.path, *segments(journal.path).values())
        )
        return sum(path.stat().st_size for path in files) / 1e6


async def live(state: Path) -> list[float]:
    """Simulate the years; return the size of the logs after each."""
    years, sizes = Years(state), []
    await years.open()
    for _ in range(YEARS):
        for day in range(365):
            await years.day()
            if day % 30 == 0:
                years.sweep()
        sizes.append(years.size())
    return sizes


@pytest.mark.bench
def test_ten_years_cost_as_much_as_two(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    began = time.monotonic()
    sizes = trio.run(live, old / "state")
    took = time.monotonic() - began
    for journal in (f"sessions/{CHAT}.jsonl", f"sessions/{JOB}.jsonl", "schedule.jsonl"):
        assert verify(old / "state" / journal).gone
    starts: dict[Path, list[float]] = {new: [], old: []}
    turns: dict[Path, float] = {}
    memory: dict[Path, float] = {}
    with run_server("tests.fake_models", tmp_path / "models") as models:
        for number in range(STARTS):
            for folder in (new, old):
                with run_elwood(folder, models, chats=1) as bot:
                    starts[folder].append(bot.start)
                    if number == STARTS - 1:
                        turns[folder] = bot.telegram.turn(1, "hello")
                    memory[folder] = bot.rss()
    start = min(starts[old]) / min(starts[new])
    print(f"\n{YEARS} years in {took:.0f} s; MB after each: {', '.join(f'{n:.1f}' for n in sizes)}")
    print(f"start {start:.2f} times that of a new one (aim 1.1), {min(starts[old]):.2f} s")
    print(f"first turn {turns[old]:.2f} s, of a new one {turns[new]:.2f} s")
    print(f"memory behind it {memory[old]:.1f} MB, of a new one {memory[new]:.1f} MB")
    # Two years are kept; the rest depends on the fill of the newest files.
    assert sizes[-1] < 1.15 * sizes[2] + 1.5
    assert start < 1.3
    assert memory[old] < memory[new] + 4
