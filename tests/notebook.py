"""A notebook in memory, and sightings to put into it."""

from collections.abc import Sequence

import trio

from elwood.core.labels import CLEAN, Label
from elwood.core.learning import Kept, Kind, Seen
from elwood.store.calls import DiskFull


class MemoryNotebook:
    """Keeps notes by name; outlives the house that uses it."""

    def __init__(self, *notes: Seen | Kept) -> None:
        self.notes: dict[str, Seen | Kept] = {note.name: note for note in notes}
        self.buried: set[str] = set()
        self.full: DiskFull | None = None

    @property
    def seen(self) -> list[Seen]:
        return [note for note in self.notes.values() if isinstance(note, Seen)]

    @property
    def remembered(self) -> dict[str, str]:
        return {n.key: n.text for n in self.notes.values() if isinstance(n, Kept)}

    async def pending(self) -> Sequence[Seen]:
        await trio.lowlevel.checkpoint()
        return self.seen

    async def kept(self) -> Sequence[Kept]:
        await trio.lowlevel.checkpoint()
        return [note for note in self.notes.values() if isinstance(note, Kept)]

    async def keep(self, note: Seen | Kept) -> None:
        await trio.lowlevel.checkpoint()
        if self.full is not None:
            raise self.full
        self.notes[note.name] = note

    async def drop(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.notes.pop(key, None)

    async def bury(self, hash: str) -> None:
        await trio.lowlevel.checkpoint()
        self.buried.add(hash)

    async def tombstoned(self, hash: str) -> bool:
        await trio.lowlevel.checkpoint()
        return hash in self.buried


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


def kept(
    text: str = "Likes tea.", key: str = "tea", *, batch: str = "", label: Label = CLEAN
) -> Kept:
    """One memory."""
    return Kept(key, text, "fact", label, 0.0, batch)
