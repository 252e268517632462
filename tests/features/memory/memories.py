"""The actor that remembers, alone in a test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from elwood.agent.models.embeddings import Embedder
from elwood.agent.tools.tool import Hands
from elwood.features.daily_notes.index import Pages
from elwood.features.memory.actor import Remembering
from elwood.features.memory.messages import MemoryMail
from elwood.features.memory.store import Memory
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
    memory = Memory(state, Disk(blocking=blocking, clock=now), max_notes=1000)
    pages = Pages(state, workspace) if workspace is not None else None
    actor = Remembering(memory, blocking=blocking, now=now, embedder=embedder, pages=pages)
    mailbox: Mailbox[MemoryMail] = Mailbox("memory", 32)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        yield mailbox.address
        mailbox.close()


@asynccontextmanager
async def hands_of(folder: Path) -> AsyncIterator[Hands]:
    """Hands with a memory."""
    async with remembering(folder / "state", workspace=folder) as memory:
        yield Hands(folder, inline, source=lambda: "tg-1 by tg:1", memory=memory)
