"""A timetable with a journal, for tests of its clients."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from elwood.features.tasks.actor import TimetableActor
from elwood.features.tasks.messages import TimetableMail
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.foundation.runtime import Address, Mailbox, inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal


@asynccontextmanager
async def keeping(
    state: Path, now: Callable[[], float], zone: str = "UTC"
) -> AsyncIterator[Address[TimetableMail]]:
    """Run a timetable with the journal in *state*."""
    journal: Journal[TimetableEntry, Timetable] = Journal(
        state / "schedule.jsonl", TimetableEntry, Timetable, Disk(blocking=inline, clock=now)
    )

    async def ignore(lines: object) -> None:
        await trio.lowlevel.checkpoint()

    actor = TimetableActor(journal, hint=lambda woken: True, log_runs=ignore, clock=now, zone=zone)
    mailbox: Mailbox[TimetableMail] = Mailbox("timetable", 16)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        yield mailbox.address
        mailbox.close()
