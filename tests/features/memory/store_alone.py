"""A memory for tests: its store on a disk with planned failures, or its actor."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import trio

from elwood.agent.conversation.labels import Label
from elwood.agent.models.embeddings import Embedder
from elwood.features.daily_notes.store import DailyNoteSearch
from elwood.features.memory.actor import Memory
from elwood.features.memory.messages import MemoryMail, Saved, Unsaved
from elwood.features.memory.note import Note, NoteDraft, Status
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import NoteSearch, NoteTools
from elwood.foundation.runtime import Address, Blocking, Mailbox, inline
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.search_index import SearchQuery

MINE = Label(private=True)
THEIRS = Label(untrusted=True, private=True)


def draft(
    key: str, text: str, *tags: str, untrusted: bool = False, status: Status = "active"
) -> NoteDraft:
    """Return a note to save, as the tool makes it."""
    return NoteDraft(key, text, THEIRS if untrusted else MINE, "tg-1 by tg:1", tags, status=status)


@contextmanager
def opened(
    state: Path,
    *,
    clock: Callable[[], float] = lambda: 0.0,
    calls: Calls | None = None,
    max_notes: int = 1000,
) -> Iterator[NoteStore]:
    """Open the memory in a new process, with an up-to-date index."""
    state.mkdir(exist_ok=True)
    memory = NoteStore(state, Disk(blocking=inline, clock=clock, calls=calls), max_notes=max_notes)
    try:
        for _ in memory.indexed.catch_up():
            pass
        yield memory
    finally:
        memory.indexed.close()


def save(
    memory: NoteStore, key: str, text: str, *tags: str, untrusted: bool = False
) -> Saved | Unsaved:
    """Save one note."""
    [answer] = memory.save([draft(key, text, *tags, untrusted=untrusted)])
    return answer


def find(memory: NoteStore, query: str, limit: int = 10, now: float = 0.0) -> list[Note]:
    """Search."""
    wanted = SearchQuery(query=query, now=now)
    return memory.indexed.look_up(lambda: memory.search(wanted, limit))


def pending(memory: NoteStore) -> list[Note]:
    """List the notes that wait for the owner."""
    return memory.indexed.look_up(lambda: memory.newest(9, pending=True))


def keys(memory: NoteStore, query: str, limit: int = 10) -> list[str]:
    """Search, and return the keys found."""
    return [note.key for note in find(memory, query, limit)]


def catch_up(memory: NoteStore) -> int:
    """Update the index from the files; return the number of notes indexed."""
    return sum(memory.indexed.catch_up())


def holding(state: Path, *pieces: str) -> list[str]:
    """Return the files below *state* that contain any of these words, in any case."""
    wanted = [piece.lower().encode() for piece in pieces]
    return [
        str(path.relative_to(state))
        for path in sorted(state.rglob("*"))
        if path.is_file() and any(piece in path.read_bytes().lower() for piece in wanted)
    ]


@asynccontextmanager
async def remembering(
    state: Path,
    *,
    now: Callable[[], float] = lambda: 0.0,
    blocking: Blocking = inline,
    embedder: Embedder | None = None,
    workspace: Path | None = None,
) -> AsyncIterator[Address[MemoryMail]]:
    """Run the actor with the notes in *state*, and the daily notes of *workspace*."""
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
    """Run the actor, and yield the tools that use it."""
    state = folder / "state"
    async with remembering(state, workspace=folder) as memory:
        yield NoteTools(memory, (NoteSearch(memory), DailyNoteSearch(state, folder, inline)))
