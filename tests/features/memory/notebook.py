"""A notebook in memory, and sightings to put into it."""

from collections.abc import Collection, Iterable, Sequence

import trio

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.features.memory.learning import Kept, Kind, Seen
from elwood.features.memory.learning_deps import Unwritten


class MemoryNotebook:
    """Keeps notes by name; outlives the house that uses it."""

    def __init__(self, *notes: Seen | Kept) -> None:
        self.notes: dict[str, Seen | Kept] = {note.name: note for note in notes}
        self.graves: set[str] = set()
        self.batches: list[tuple[str, bool]] = []
        self.full: Unwritten | None = None

    @property
    def seen(self) -> list[Seen]:
        return [note for note in self.notes.values() if isinstance(note, Seen)]

    @property
    def remembered(self) -> dict[str, str]:
        return {n.key: n.text for n in self.notes.values() if isinstance(n, Kept)}

    async def pending(self) -> Sequence[Seen]:
        await trio.lowlevel.checkpoint()
        return self.seen

    async def kept(self, keys: Iterable[str]) -> Sequence[Kept]:
        wanted = set(keys)
        return [note for note in await self.newest() if note.key in wanted]

    async def newest(self) -> Sequence[Kept]:
        await trio.lowlevel.checkpoint()
        return [note for note in self.notes.values() if isinstance(note, Kept)]

    async def keep(self, notes: Sequence[Seen | Kept], batch: str, *, learned: bool) -> None:
        await trio.lowlevel.checkpoint()
        if self.full is not None:
            raise self.full
        self.notes |= {note.name: note for note in notes}
        self.batches.append((batch, learned))

    async def drop(self, names: Sequence[str], bury: Sequence[str] = ()) -> None:
        await trio.lowlevel.checkpoint()
        self.graves |= set(bury)
        for name in names:
            self.notes.pop(name, None)

    async def buried(self, hashes: Iterable[str]) -> Collection[str]:
        await trio.lowlevel.checkpoint()
        return self.graves & set(hashes)


def seen(
    text: str = "Likes tea.",
    key: str = "tea",
    *,
    session: str = "s",
    at: float = 0.0,
    kind: Kind = "fact",
    label: Label = CLEAN,
    asked: bool = False,
) -> Seen:
    """One sighting, in a pass of its own."""
    return Seen(key, text, kind, session, "t1", label, at, f"{session}/{at:.0f}", asked)


def kept(text: str = "Likes tea.", key: str = "tea", *, label: Label = CLEAN) -> Kept:
    """One memory."""
    return Kept(key, text, "fact", label, 0.0)
