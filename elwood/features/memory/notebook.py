"""The notebook of what is learned: sightings and memories, kept by the memory."""

from collections.abc import Iterable, Sequence

import attrs

from elwood.features.memory.learning import MAX_PENDING, Kept, Seen
from elwood.features.memory.learning_deps import Unwritten
from elwood.features.memory.messages import (
    Buried,
    Discard,
    KeptNotes,
    MemoryMail,
    PendingNotes,
    ReadNotes,
    Remember,
)
from elwood.features.memory.observations import (
    memory,
    remembered,
    sighted,
    sighting,
)
from elwood.features.memory.observing import MAX_KNOWN
from elwood.features.memory.results import Unsaved
from elwood.foundation.runtime import Address


@attrs.frozen
class MemoryNotebook:
    """A `Notebook` whose notes the actor *memory* keeps."""

    memory: Address[MemoryMail]

    async def pending(self) -> Sequence[Seen]:
        """List the sightings."""
        # Twice as many as are let be: others may have made notes wait, by hand.
        notes = await self.memory.ask(PendingNotes(limit=2 * MAX_PENDING))
        return [one for note in notes if (one := sighting(note)) is not None]

    async def kept(self, keys: Iterable[str]) -> Sequence[Kept]:
        """List what is remembered under *keys*."""
        notes = await self.memory.ask(ReadNotes(keys=tuple(dict.fromkeys(keys))))
        return [memory(note) for note in notes if note.status == "kept"]

    async def newest(self) -> Sequence[Kept]:
        """List what was remembered last."""
        return [memory(note) for note in await self.memory.ask(KeptNotes(limit=MAX_KNOWN))]

    async def keep(self, notes: Sequence[Seen | Kept], batch: str, *, learned: bool) -> None:
        """Write *notes*, to be taken back together."""
        drafts = tuple(sighted(one) if isinstance(one, Seen) else remembered(one) for one in notes)
        answers = await self.memory.ask(Remember(drafts=drafts, batch=batch, learned=learned))
        for answer in answers:
            if isinstance(answer, Unsaved) and not answer.forgotten:
                raise Unwritten(f"{answer.key}: {answer.why}")

    async def drop(self, names: Sequence[str], bury: Sequence[str] = ()) -> None:
        """Remove pending notes; what has the hashes *bury* is not learned again."""
        done = await self.memory.ask(Discard(keys=tuple(names), bury=tuple(bury)))
        if not done.ok:
            raise Unwritten(done.text)

    async def buried(self, hashes: Iterable[str]) -> frozenset[str]:
        """Tell which of *hashes* are those of what was forgotten."""
        return await self.memory.ask(Buried(hashes=tuple(hashes)))
