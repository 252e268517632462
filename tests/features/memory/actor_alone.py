"""The actor that remembers, alone in a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from elwood.agent.models.embeddings import Embedder
from elwood.agent.tools.tool import Hands
from elwood.features.daily_notes.store import DailyNoteSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.messages import MemoryMail
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import NoteSearch
from elwood.foundation.runtime import (
    Address,
    Blocking,
    Mailbox,
    inline,
)
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
async def hands_of(folder: Path) -> AsyncIterator[Hands]:
    """Hands with a memory."""
    state = folder / "state"
    async with remembering(state, workspace=folder) as memory:
        searches = (NoteSearch(memory), DailyNoteSearch(state, folder, inline))
        source = "tg-1 by tg:1"
        yield Hands(folder, inline, source=lambda: source, memory=memory, searches=searches)
