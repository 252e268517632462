"""The actor that remembers, alone in a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from elwood.agent.models.embeddings import Embedder
from elwood.features.daily_notes.store import DailyNoteSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.messages import MemoryMail
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import NoteSearch, NoteTools
from elwood.foundation.runtime import Address, Blocking, Mailbox, inline
from elwood.foundation.storage.disk import Disk


@asynccontextmanager
async def remembering(
    state: Path,
    *,
    now: Callable[[], float] = lambda: 0.0,
    blocking: Blocking = inline,
    embedder: Embedder | None = None,
    workspace: Path | None = None,
) -> AsyncIterator[Address[MemoryMail]]:
    """Run the actor over the notes in *state*, and the daily notes of *workspace*."""
    await blocking(lambda: state.mkdir(exist_ok=True))
    memory = NoteStore(state, Disk(blocking=blocking, clock=now), max_notes=1000)
    others = () if workspace is None else (DailyNoteSearch(state, workspace, blocking),)
    actor = Memory(memory, blocking=blocking, now=now, embedder=embedder, others=others)
    mailbox: Mailbox[MemoryMail] = Mailbox("memory", 32)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        yield mailbox.address
        mailbox.close()


@asynccontextmanager
async def note_tools(folder: Path) -> AsyncIterator[NoteTools]:
    """Run the actor, and give the tools that ask it."""
    state = folder / "state"
    async with remembering(state, workspace=folder) as memory:
        yield NoteTools(memory, (NoteSearch(memory), DailyNoteSearch(state, folder, inline)))
