"""What is remembered across conversations: saving, finding, forgetting, taking back.

One writer; searches may run beside it.  Everything here blocks, and a crash between any two steps
loses nothing that was there before.
"""

import logging
import secrets
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

import attrs

from elwood.features.memory import vector_store as memory_vectors
from elwood.features.memory.learning import MAX_PENDING, digests
from elwood.features.memory.note import (
    MAX_TAGS,
    Draft,
    Note,
    above,
    expires,
    longer,
    render,
    stamped,
    wrong,
)
from elwood.features.memory.note_files import Filed
from elwood.features.memory.note_store import Shelf
from elwood.features.memory.observations import is_sighting, subject
from elwood.features.memory.ranking import (
    fused,
    grouped,
    placed,
    ranked,
)
from elwood.features.memory.results import (
    Forgotten,
    Overview,
    Saved,
    Undone,
    Unsaved,
)
from elwood.features.memory.undo import (
    Batch,
    Batches,
    Tombstones,
    Write,
    content_hash,
    said_hash,
)
from elwood.foundation.storage.disk import Disk, DiskFull
from elwood.foundation.storage.search_index import IndexCounts, SearchQuery
from elwood.foundation.storage.sqlite import CancelToken, DatabaseUnusable
from elwood.foundation.text.words import saying

log = logging.getLogger("elwood.memory")

# Hits whose files are read to make up for those that have gone or changed since they were indexed.
SPARE = 5


class Memory:
    """The notes of the state folder *state*; at most *max_notes* of them."""

    def __init__(self, state: Path, disk: Disk, *, max_notes: int) -> None:
        self.shelf = Shelf(state, disk)
        self._files = self.shelf.files
        self._batches = Batches(state / "memory.undo", disk)
        self._tombstones = Tombstones(state / "memory.forgotten", disk)
        self._disk = disk
        self._max_notes = max_notes

    # --- reading ---------------------------------------------------------------------------------

    def search(
        self, asked: SearchQuery, limit: int, cancel: CancelToken, model: str = ""
    ) -> list[Note]:
        """Find the *limit* best notes, by words and, by *model*, near to the question's vector.

        Raises Abandoned.
        """
        groups = grouped(self.shelf.by(lambda store: store.search(asked, cancel)))
        keys = [hit.key for group in groups for hit in group]
        if asked.vector is not None:
            try:
                close = ranked(memory_vectors.near(self.shelf.index, model, asked, cancel))
            except DatabaseUnusable as error:
                log.warning("searching without vectors", extra={"why": str(error)})
            else:
                # Of versions that fit about equally well by words, meaning must not choose the old.
                versions = [hit.key for hit in groups[0] if hit.whole] if groups else ()
                keys = placed(fused(keys, close), versions)
        alive = (note for note in self._each(keys[: limit + SPARE]) if _is_found(note, asked))
        return list(islice(alive, limit))

    def read(self, keys: Sequence[str]) -> list[Note]:
        """Read these notes, as far as they are there."""
        return list(self._each(keys))

    def _each(self, keys: Sequence[str]) -> Iterator[Note]:
        found = (self._files.read(key) for key in keys)
        return (filed.note for filed in found if filed is not None)

    def newest(self, limit: int, *, pending: bool = False) -> list[Note]:
        """Read the newest notes, kept or *pending*, the newest first."""
        return self.read(self.shelf.by(lambda store: store.newest(limit, pending=pending)))

    def overview(self, limit: int) -> Overview:
        """Say how much there is, and give the newest *limit* notes of each kind."""
        counts: IndexCounts | None = IndexCounts()
        if self.shelf.index.exists:
            try:
                counts = self.shelf.index.counts(self._disk.clock())
            except DatabaseUnusable:
                counts = None
        return Overview(
            counts,
            tuple(self.newest(limit)),
            tuple(self.newest(limit, pending=True)),
            tuple(self._files.passed_over()),
        )

    # --- writing ---------------------------------------------------------------------------------

    def save(
        self, drafts: Sequence[Draft], *, batch: str = "", learned: bool = False
    ) -> list[Saved | Unsaved]:
        """Remember *drafts*, on the disk when this returns.

        What is saved can be taken back together, with what had the same *batch* just before.
        *learned* ones are wanted by nobody in particular: what was forgotten stays so.  Raises
        JournalBroken.
        """
        batch = batch or secrets.token_hex(8)
        answers: list[Saved | Unsaved] = []
        for draft in drafts:
            try:
                answers.append(self._save(draft, batch, learned=learned))
            except DiskFull as error:
                answers.append(Unsaved(draft.key, str(error)))
        return answers

    def _save(self, draft: Draft, batch: str, *, learned: bool) -> Saved | Unsaved:
        draft = attrs.evolve(draft, text=draft.text.replace("\r\n", "\n").strip())
        if (why := wrong(draft)) is not None:
            return Unsaved(draft.key, why)
        hashes = digests(draft.key, draft.text)
        forgotten = self._tombstones.buried(hashes)
        if forgotten and learned:
            return Unsaved(draft.key, "it was forgotten, and is not learned again", forgotten=True)
        before = self._files.read(draft.key)
        alone = before is not None or is_sighting(draft.more)
        twin = None if alone else self._twin(draft)
        if twin is not None:
            return self._confirm(draft, twin, batch, learned=learned)
        if (why := self._refused(draft, before)) is not None:
            return Unsaved(draft.key, why)
        if forgotten:
            self._tombstones.lift(hashes)
        note = self._made(draft, before.note if before is not None else None)
        self._write(note, before, batch, learned=learned)
        return Saved(draft.key, replaced=before is not None)

    def _refused(self, draft: Draft, before: Filed | None) -> str | None:
        if before is None:
            if self._files.there(draft.key):
                return "what is there under this name cannot be read"
            if self.shelf.count() >= self._max_notes:
                return f"there are {self._max_notes:,} notes already; forget some, or replace one"
            return None
        if before.is_cut:
            return "its file is longer than any note, and what was not read of it would be lost"
        if draft.label.untrusted and not before.note.untrusted:
            # Strangers' words must not make us forget what the owner told us.
            return (
                "a note of this key is from a conversation that strangers had no part in, and this "
                "one has read strangers' words; choose another key"
            )
        if draft.status == "pending" and before.note.status == "kept":
            return "a note of this key is kept already, and this one would be pending"
        return None

    def _twin(self, draft: Draft) -> Filed | None:
        """Find a note of another key that says the same, and may stand for *draft*.

        Sightings may be many, and are none; what is out of date is as good as gone; and strangers'
        words, with their key and all that nobody sees in them, never stand for the owner's.
        """
        said = saying(draft.text)
        for key in self.shelf.twins(said):
            filed = self._files.read(key)
            if filed is None or is_sighting(filed.note.more):
                continue
            until = expires(filed.note)
            if until is not None and until <= self._disk.clock():
                continue
            if filed.note.untrusted and not draft.label.untrusted:
                continue
            if saying(filed.note.text) == said:
                return filed
        return None

    def _confirm(self, draft: Draft, twin: Filed, batch: str, *, learned: bool) -> Saved:
        """Take what *draft* adds to the note that says the same; its words stay."""
        note = twin.note
        weaker = (draft.label.untrusted and not note.untrusted) or (
            draft.status == "pending" and note.status == "kept"
        )
        if not weaker and twin.whole:
            merged = attrs.evolve(
                note,
                tags=tuple(dict.fromkeys((*note.tags, *(draft.tags or ()))))[:MAX_TAGS],
                importance=max(note.importance, draft.importance or note.importance),
                ttl=longer(note.ttl, draft.ttl or ""),
                status=draft.status,
                updated=stamped(self._disk.clock()),
            )
            self._write(merged, twin, batch, learned=learned)
        return Saved(note.key, known=True, untrusted=note.untrusted)

    def _made(self, draft: Draft, before: Note | None) -> Note:
        now = stamped(self._disk.clock())
        old = before or Note(draft.key, "")
        return Note(
            draft.key,
            draft.text,
            old.tags if draft.tags is None else tuple(dict.fromkeys(draft.tags)),
            draft.source,
            draft.importance or old.importance,
            old.ttl if draft.ttl is None else draft.ttl,
            draft.status,
            draft.label,
            old.created or now,
            now,
            above(old.more, draft.more or ()),
        )

    def _write(self, note: Note, before: Filed | None, batch: str, *, learned: bool) -> None:
        data = render(note).encode("utf-8", "replace")
        write = Write(note.key, before.data if before else None, content_hash(data))
        self._batches.add(Batch(batch, self._disk.clock(), learned, (write,)))
        self.shelf.put(note.key, data)

    # --- forgetting and taking back --------------------------------------------------------------

    def forget(self, keys: Sequence[str]) -> Forgotten:
        """Forget these notes: no byte of them, or seen of them, stays in the memory's files.

        What stays are salted hashes, which keep them from being learned again.  Raises DiskFull
        (nothing was forgotten yet) and JournalBroken.
        """
        keys = tuple(dict.fromkeys(keys))
        there = tuple(key for key in keys if self._files.is_file(key))
        known = self.read(there)
        if known:
            self._tombstones.bury(
                hash_ for note in known for hash_ in digests(subject(note), note.text)
            )
        said = {said_hash(note) for note in known}
        about = {subject(note) for note in known}
        seen = self._sightings(about, said)
        self._batches.forget({*keys, *seen, *about}, said)
        why = self._remove((*keys, *seen))
        return Forgotten(there, tuple(key for key in keys if key not in there), why)

    def discard(self, keys: Sequence[str], bury: Sequence[str]) -> str:
        """Remove pending notes; what has the hashes *bury* is not learned again.

        Returns what could not be done.  Raises DiskFull and JournalBroken.
        """
        if bury:
            self._tombstones.bury(bury)
        return self._remove([note.key for note in self.read(keys) if note.status == "pending"])

    def buried(self, hashes: Sequence[str]) -> frozenset[str]:
        """Tell which of *hashes* (`core.learning.digests`) are those of what was forgotten."""
        return self._tombstones.buried(hashes)

    def _sightings(self, about: Collection[str], said: Collection[str]) -> list[str]:
        """Name the sightings that are about one of these, or say one of these."""
        return [
            note.key
            for note in self.newest(2 * MAX_PENDING, pending=True)
            if is_sighting(note.more) and (subject(note) in about or said_hash(note) in said)
        ]

    def undo(self) -> Undone | None:
        """Take the newest batch back; None if there is none.  Raises DiskFull, JournalBroken."""
        batches = self._batches.read()
        if not batches:
            return None
        batch = batches[-1]
        removed, restored, changed = dict[str, str](), list[str](), list[str]()
        for write in batch.writes:
            now = self._files.read(write.key)
            if now is None or content_hash(now.data) != write.after:
                changed.append(write.key)
            elif write.before is not None:
                self.shelf.put(write.key, write.before)
                restored.append(write.key)
            else:
                if batch.learned:
                    # The text alone: something else may be learned of the same.
                    self._tombstones.bury((said_hash(now.note),))
                removed[write.key] = subject(now.note)
        why = self._remove(tuple(removed))
        self._batches.pop()
        return Undone(
            batch.at, tuple(dict.fromkeys(removed.values())), tuple(restored), tuple(changed), why
        )

    def _remove(self, keys: Sequence[str]) -> str:
        """Remove notes; say what could not be done."""
        try:
            self.shelf.remove(keys)
        except DatabaseUnusable as error:
            return f"the index still has them, and could not be removed: {error}"
        return ""


def _is_found(note: Note, asked: SearchQuery) -> bool:
    """Tell whether *note*, as its file is now, may be an answer."""
    until = expires(note)
    alive = until is None or until > asked.now
    return note.status == "kept" and alive and (asked.untrusted or not note.untrusted)
