"""State, start and memory stay as small after ten thousand reminders as before."""

import os
from pathlib import Path
from typing import Any

import msgspec
import trio

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.session.log.entries import Delivered, Entry, Posted, Posting, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.features.tasks.state import (
    PlannedRun,
    RunFinished,
    RunStarted,
    TaskRemoved,
    TaskScheduled,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import REMINDERS, Task
from elwood.features.tasks.when import Once
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal, segments
from tests.fake_telegram import OWNER
from tests.journeys.home import EPOCH, Home

MANY, AT_ONCE, DAY = 10_000, 100, 86_400.0
# The number per day, for a hundred days.
A_DAY = 100
CHAT = Route("telegram", chat=str(OWNER))


def task_entries(number: int, at: float) -> list[TimetableEntry]:
    """Return the timetable's entries of a reminder with a unique name."""
    id_, words = f"call-mum-{number}", "Call mum, and ask how the garden is."
    run = PlannedRun(id_, at, 1, number)
    task = Task(id_, "Call mum", Once(at), "Europe/Berlin", message=words, route=CHAT)
    return [
        TaskScheduled(task, at - 60),
        RunStarted(run),
        RunFinished(run, "done", words),
        TaskRemoved(id_, "its last planned time has passed"),
    ]


def reminder_entries(number: int, at: float) -> list[Entry]:
    """Return the entries of one reminder in the conversation of reminders."""
    id_, words = f"task:call-mum-{number}:{number}:{at:.0f}:1", "⏰ Call mum, and ask how she is."
    run = RunBounds(f"call-mum-{number}", says="text", series=number)
    return [
        Received(id_, words, f"task:call-mum-{number}", CHAT, at, bounds=run),
        Replied(id_, None, (id_,), CHAT, words),
        Posting(id_, 0, 1),
        Posted(id_, 0, f"{OWNER}:{number}"),
        Delivered(id_),
    ]


async def write_entries(path: Path, journal: Journal[Any, Any], make: Any) -> list[int]:
    """Write the entries of all reminders; return sizes of the state over time."""
    await journal.open()
    sizes, closed = [], set[Path]()
    for first in range(0, MANY, AT_ONCE):
        at = EPOCH - (MANY - first) / A_DAY * DAY
        await journal.append(*(one for n in range(first, first + AT_ONCE) for one in make(n, at)))
        for segment in set(segments(path).values()) - closed:
            os.utime(segment, (at, at))
            closed.add(segment)
        if (first + AT_ONCE) % 1000 == 0:
            sizes.append(len(msgspec.json.encode(journal.state)))
    return sizes


async def test_ten_thousand_reminders_use_no_more_space_than_a_thousand(h: Home) -> None:
    (h.state / "sessions").mkdir(parents=True)
    disk = Disk(blocking=inline, clock=lambda: EPOCH)
    timetable, session = h.state / "schedule.jsonl", h.journal(REMINDERS)
    table = Journal[TimetableEntry, Timetable](timetable, TimetableEntry, Timetable, disk)
    log = Journal[Entry, Session](session, Entry, Session, disk)
    memory = [
        await write_entries(timetable, table, task_entries),
        await write_entries(session, log, reminder_entries),
    ]
    for sizes in memory:
        assert max(sizes) < 1.1 * sizes[0] + 1_000, "the state in memory"
    for path in (timetable, session):
        assert path.stat().st_size < 1 << 20, "the bytes read at a start"
        assert len(segments(path)) > 3
    async with h.life() as life:
        await trio.sleep(1)
        for _ in range(2):
            await life.pass_time(DAY)
    for path in (timetable, session):
        kept = [one.stat().st_mtime for one in segments(path).values()]
        assert kept, "those of the last month"
        assert min(kept) > EPOCH - 31 * DAY
    left = sum(path.stat().st_size for path in h.state.rglob("*") if path.is_file())
    assert left < 4 << 20, "1 MiB is the reserve"
