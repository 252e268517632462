"""Store notes as files, the source of truth, and index them.

There is one writer; searches may run concurrently.  All functions block, and a crash between any
two steps loses no existing note.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeVar

import attrs
import msgspec

from elwood.agent.session.reading.records import is_on
from elwood.features.memory.learning import (
    MAX_KNOWN,
    MAX_PENDING,
    LearningPlan,
    Observation,
    batch_code,
    digests,
    observations_of,
    plan_changes,
    plan_decision,
)
from elwood.features.memory.messages import Forgotten, MemoryOverview, Saved, Unsaved
from elwood.features.memory.note import (
    MAX_FILE,
    Note,
    NoteDraft,
    expires,
    format_time,
    is_alive,
    parse,
    render,
    wrong,
)
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.storage.disk import Disk, DiskFull, convert_errors
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    Document,
    SearchQuery,
    group_hits,
    stamp_of,
)
from elwood.foundation.text.words import KEY

K = TypeVar("K", bound=Hashable)

# Extra hits to read, as some files may be gone or changed since they were indexed.
SPARE = 5
# Unlisted notes that are read: twice the most observations, as people may add pending notes.
MOST_PENDING = 2 * MAX_PENDING
# Batches that can be undone; lines of their log before it is compacted.
MAX_BATCHES, MAX_LINES = 10, 50
# Forgotten notes that are recognized, by two hashes each; the oldest are dropped.
MAX_FORGOTTEN = 20_000
# The constant of reciprocal rank fusion, as published (Cormack et al., 2009).
FUSION = 60
# Prefixes of leftover files: `.tea.md.tmp`, `tea.md~`, `#tea.md#`, `.tea.md.swp`.
_MARKS = ".#"
_SUFFIX = ".md"


class NotesUnwritten(Exception):
    """A part of the changes could not be written; repeating them is harmless."""


@attrs.frozen
class NoteFile:
    """A note with the content of its file."""

    note: Note
    stamp: str  # from `stamp_of`
    data: bytes = attrs.field(repr=False)

    @property
    def is_cut(self) -> bool:
        """Return True if the file is longer than *data*."""
        return len(self.data) > MAX_FILE


class NoteFiles:
    """The notes in *folder*, which is created with the first one."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk

    def read(self, key: str) -> NoteFile | None:
        """Read a note; None if there is no readable regular file."""
        if not _is_key(key):
            return None
        try:
            fd = os.open(self.path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return None
                data = file.read(MAX_FILE + 1)
        except OSError:
            return None
        text = data[:MAX_FILE].decode("utf-8-sig", "replace")
        return NoteFile(parse(key, text), stamp_of(found), data)

    def document(self, key: str) -> Document | None:
        filed = self.read(key)
        if filed is None:
            return None
        note = filed.note
        return Document(
            key=key,
            stamp=filed.stamp,
            text=note.text,
            tags=note.tags,
            listed=note.status == "active",
            untrusted=note.untrusted,
            updated=note.updated,
            expires=expires(note),
        )

    def write(self, key: str, data: bytes) -> None:
        """Write the note atomically.

        Raises DiskFull, JournalBroken.
        """
        path = self.path(key)
        self._disk.make_folder(self.folder)
        self._disk.replace(path, data)

    def remove(self, key: str) -> None:
        """Remove the note durably, with leftovers of editors and crashes, but no folder."""
        name = f"{key}{_SUFFIX}"
        for entry in self._entries():
            is_left = entry.name.lstrip(_MARKS).startswith(name)
            if is_left and not entry.is_dir(follow_symlinks=False):
                self._disk.remove(self.folder / entry.name, durably=True)

    def path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def stamps(self) -> Iterator[tuple[str, str]]:
        for entry in self._entries():
            with suppress(OSError):
                if _is_note(entry) and entry.is_file(follow_symlinks=False):
                    yield (
                        entry.name.removesuffix(_SUFFIX),
                        stamp_of(entry.stat(follow_symlinks=False)),
                    )

    def list_ignored(self) -> list[str]:
        """List the Markdown files whose names cannot be keys."""
        return sorted(
            entry.name
            for entry in self._entries()
            if entry.name.endswith(_SUFFIX) and entry.name[0] not in _MARKS and not _is_note(entry)
        )

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        try:
            with os.scandir(self.folder) as entries:
                yield from entries
        except (FileNotFoundError, NotADirectoryError):
            return


class NoteWrite(msgspec.Struct, frozen=True):
    """A change of one note."""

    key: str
    before: bytes | None  # None: there was no note
    after: bytes  # hash of the new content


class UndoBatch(msgspec.Struct, frozen=True):
    """The changes of one call or one pass of the observer."""

    id: str
    at: float
    learned: bool
    writes: tuple[NoteWrite, ...]


class UndoLog:
    """The newest batches, in the file *path*; each line adds to them.

    Lines that cannot be read are ignored.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> list[UndoBatch]:
        """Read all batches, the newest last.  Raises DiskFull, JournalBroken."""
        return _batches(_read(self._path))

    def add(self, id_: str, at: float, write: NoteWrite, *, learned: bool) -> None:
        """Record *write* before it is done, in the batch *id_*: the newest, or a new one.

        Raises DiskFull, JournalBroken.
        """
        data = _read(self._path)
        # Start with a newline, so that a torn last line does not damage this one.
        line = b"\n" + msgspec.json.encode([UndoBatch(id_, at, learned, (write,))])
        if data.count(b"\n") < MAX_LINES:
            self._disk.append(self._path, line, at=len(data), last_words=False, synced=True)
        else:
            self._write(_batches(data + line))

    def drop(self, id_: str) -> None:
        """Remove a batch.  Raises DiskFull, JournalBroken."""
        self._write([batch for batch in self.read() if batch.id != id_])

    def clear(self) -> None:
        """Remove all batches.  Raises DiskFull, JournalBroken."""
        self._disk.remove(self._path, durably=True)
        self._disk.remove(self._path.with_name(f".{self._path.name}.tmp"))

    def _write(self, batches: list[UndoBatch]) -> None:
        self._disk.replace(self._path, msgspec.json.encode(batches))


def _batches(data: bytes) -> list[UndoBatch]:
    """Parse an undo log; a batch may span several lines."""
    batches: list[UndoBatch] = []
    for line in data.split(b"\n"):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            for batch in msgspec.json.decode(line, type=list[UndoBatch]):
                writes = batch.writes
                if batches and batches[-1].id == batch.id:
                    writes = (*batches.pop().writes, *writes)
                batches.append(msgspec.structs.replace(batch, writes=writes))
    return batches[-MAX_BATCHES:]


class Tombstones:
    """Salted hashes of forgotten notes, in the file *path*."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def find(self, hashes: Iterable[str]) -> frozenset[str]:
        """Return those of *hashes* that have a tombstone."""
        salt, marks = self._read()
        known = set(marks)
        return frozenset(hash_ for hash_ in hashes if _mark(salt, hash_) in known)

    def add(self, hashes: Iterable[str]) -> None:
        """Add tombstones for these hashes.  Raises DiskFull, JournalBroken."""
        salt, marks = self._read()
        salt = salt or secrets.token_hex(16)
        new = (_mark(salt, hash_) for hash_ in hashes)
        self._write(salt, list(dict.fromkeys([*marks, *new])))

    def remove(self, hashes: Iterable[str]) -> None:
        """Remove the tombstones of these hashes.  Raises DiskFull, JournalBroken."""
        salt, marks = self._read()
        gone = {_mark(salt, hash_) for hash_ in hashes}
        if not gone.isdisjoint(marks):
            self._write(salt, [mark for mark in marks if mark not in gone])

    def _read(self) -> tuple[str, list[str]]:
        data = _read(self._path)
        # Damaged hashes are skipped; the next change writes the whole file.
        salt, *marks = data.decode("ascii", "ignore").split() or [""]
        return salt, marks

    def _write(self, salt: str, marks: list[str]) -> None:
        lines = "\n".join([salt, *marks[-2 * MAX_FORGOTTEN :]])
        self._disk.replace(self._path, f"{lines}\n".encode())


def text_hash(note: Note) -> str:
    """Return the hash of the note's text, as tombstones have it."""
    return digests("", note.text)[1]


def content_hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class NoteStore:
    """The notes in *state*/memory, at most *max_notes*, and their index in *state*/memory.db."""

    def __init__(self, state: Path, disk: Disk, *, max_notes: int) -> None:
        self.files = NoteFiles(state / "memory", disk)
        self.indexed = IndexedFiles(self.files, state / "memory.db")
        self._undo_log = UndoLog(state / "memory.undo", disk)
        self._tombstones = Tombstones(state / "memory.forgotten", disk)
        self._disk = disk
        self._max_notes = max_notes

    # --- reading, also concurrent with the writer -----------------------------------------------

    def search(self, query: SearchQuery, limit: int, close: Sequence[str] = ()) -> list[Note]:
        """Return the *limit* best notes by words, merged with those that are *close* by meaning.

        Raises DatabaseUnusable.
        """
        groups = group_hits(self.indexed.index.search(query))
        keys = [hit.key for group in groups for hit in group]
        if close:
            # Meaning must not rank an old version above a new one with the same words.
            versions = [hit.key for hit in groups[0] if hit.whole] if groups else ()
            keys = sort_group(fuse_rankings(keys, close), versions)
        notes = self.read(keys[: limit + SPARE])
        return [note for note in notes if _is_found(note, query)][:limit]

    def read(self, keys: Sequence[str]) -> list[Note]:
        return [filed.note for key in keys if (filed := self.files.read(key)) is not None]

    def newest(self, limit: int, *, pending: bool = False) -> list[Note]:
        """Read the newest listed or unlisted (*pending*) notes that are alive, the newest first.

        Raises DatabaseUnusable.
        """
        found = self.read(self.indexed.index.newest(limit, pending=pending))
        return [note for note in found if is_alive(note, self._disk.clock())]

    def observations(self) -> list[Observation]:
        """Return the pending observations.  Raises DatabaseUnusable."""
        return observations_of(self.newest(MOST_PENDING, pending=True))

    def overview(self) -> MemoryOverview:
        """Return counts, and the newest, pending and archived notes.  Raises DatabaseUnusable."""
        unlisted = self.newest(MOST_PENDING, pending=True)
        return MemoryOverview(
            self.indexed.index.counts(self._disk.clock()),
            tuple(self.newest(MAX_KNOWN)),
            tuple(note for note in unlisted if note.status == "pending"),
            tuple(note for note in unlisted if note.status == "archived"),
        )

    # --- writing ---------------------------------------------------------------------------------

    def save(
        self, drafts: Iterable[NoteDraft], *, batch: str = "", learned: bool = False
    ) -> list[Saved | Unsaved]:
        """Save *drafts* durably.

        They join the newest undo batch if that has the id *batch*.  *learned* drafts that were
        forgotten before are not saved.  Raises JournalBroken.
        """
        batch = batch or secrets.token_hex(8)
        answers: list[Saved | Unsaved] = []
        for draft in drafts:
            try:
                answers.append(self._save(draft, batch, learned=learned))
            except DiskFull as error:
                answers.append(Unsaved(draft.key, str(error)))
        return answers

    def _save(self, draft: NoteDraft, batch: str, *, learned: bool) -> Saved | Unsaved:
        draft = msgspec.structs.replace(draft, text=draft.text.replace("\r\n", "\n").strip())
        if (why := wrong(draft)) is not None:
            return Unsaved(draft.key, why)
        hashes = digests(draft.key, draft.text)
        forgotten = self._tombstones.find(hashes)
        if forgotten and learned:
            return Unsaved(
                draft.key, "it was forgotten, and will not be learned again", forgotten=True
            )
        before = self.files.read(draft.key)
        if (why := self._find_conflict(draft, before)) is not None:
            return Unsaved(draft.key, why)
        if forgotten:
            self._tombstones.remove(hashes)
        note = self._build_note(draft, before.note if before is not None else None)
        self._write(note, before, batch, learned=learned)
        return Saved(draft.key, replaced=before is not None)

    def _find_conflict(self, draft: NoteDraft, before: NoteFile | None) -> str | None:
        """Return the reason why *draft* must not replace *before*; None if it may."""
        if before is None:
            if os.path.lexists(self.files.path(draft.key)):
                return "the file with this name cannot be read"
            if self._count() >= self._max_notes:
                return f"there are {self._max_notes:,} notes already; forget some, or replace one"
            return None
        if before.is_cut:
            return "its file is longer than a note may be, and its end would be lost"
        if draft.label.untrusted and not before.note.untrusted:
            # Strangers' words must not replace the owner's.
            return (
                "the note with this key is from a conversation without strangers' words, and this "
                "conversation has some; choose another key"
            )
        if draft.status == "pending" and before.note.status == "active":
            return "an active note has this key already, and this one would be pending"
        return None

    def _count(self) -> int:
        with suppress(DatabaseUnusable):
            if self.indexed.is_ready:
                return self.indexed.index.count()
        return sum(1 for _ in self.files.stamps())

    def _build_note(self, draft: NoteDraft, before: Note | None) -> Note:
        now = format_time(self._disk.clock())
        old = before or Note(draft.key, "")
        return Note(
            draft.key,
            draft.text,
            old.tags if draft.tags is None else tuple(dict.fromkeys(draft.tags)),
            draft.source,
            old.ttl if draft.ttl is None else draft.ttl,
            draft.status,
            draft.label,
            old.created or now,
            now,
            self._header_lines(draft, old),
        )

    def _header_lines(self, draft: NoteDraft, old: Note) -> tuple[str, ...]:
        more = old.more if draft.more is None else draft.more
        if draft.kind is None:
            return more
        others = [line for line in more if line.partition(":")[0].strip() != "kind"]
        return (*others, f"kind: {draft.kind}")

    def _write(self, note: Note, before: NoteFile | None, batch: str, *, learned: bool) -> None:
        data = render(note).encode("utf-8", "replace")
        write = NoteWrite(note.key, before.data if before else None, content_hash(data))
        self._undo_log.add(batch, self._disk.clock(), write, learned=learned)
        self._put(note.key, data)

    def _put(self, key: str, data: bytes) -> None:
        self.files.write(key, data)
        self.indexed.put(key)

    # --- learning --------------------------------------------------------------------------------

    def learn(
        self, found: Sequence[Observation], batch: str, settings: LearningSettings
    ) -> LearningPlan:
        """Apply the plan for the facts *found* in one pass (`learning.plan_changes`).

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        hashes = {one: digests(one.key, one.text) for one in found}
        buried = self._tombstones.find(chain.from_iterable(hashes.values()))
        facts = [one for one in found if buried.isdisjoint(hashes[one])]
        pending = self.indexed.look_up(self.observations)
        notes = self.read(list(dict.fromkeys(one.key for one in (*facts, *pending))))
        known = [note for note in notes if note.status == "active"]
        plan = plan_changes(facts, pending, known, settings)
        self._apply(plan, batch, learned=True)
        return plan

    def decide_observation(self, code: str, *, is_kept: bool) -> str:
        """Keep or drop the observation *code*; return a message for the owner.

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        pending = self.indexed.look_up(self.observations)
        plan = plan_decision(code, pending, is_kept=is_kept)
        if plan is None:
            return "There is no pending note with that code."
        self._apply(plan, "", learned=False)
        text = " ".join(one.text for one in plan.drafts)
        return f"Remembered: {text}" if is_kept else "Dropped."

    def _apply(self, plan: LearningPlan, batch: str, *, learned: bool) -> None:
        """Save first, then remove: after a crash between them the observations are still there."""
        for answer in self.save(plan.drafts, batch=batch, learned=learned):
            if isinstance(answer, Unsaved) and not answer.forgotten:
                raise NotesUnwritten(f"{answer.key}: {answer.why}")
        if plan.buried:
            self._tombstones.add(plan.buried)
        self._remove([note.key for note in self.read(plan.dropped) if note.status == "pending"])

    # --- forgetting and undo ---------------------------------------------------------------------

    def forget(self, keys: Sequence[str]) -> Forgotten:
        """Remove these notes, and observations of them, from all files of the memory.

        Salted hashes remain, so that they are not learned again.  Raises DiskFull (before any
        removal) and JournalBroken.
        """
        there = [key for key in dict.fromkeys(keys) if self._is_there(key)]
        known = self.read(there)
        if known:
            self._tombstones.add(
                hash_ for note in known for hash_ in digests(note.subject, note.text)
            )
        texts = {text_hash(note) for note in known}
        subjects = {note.subject for note in known}
        self._undo_log.clear()  # also for a missing note: the log may have its text
        noticed, why = list[str](), ""
        try:
            noticed = [
                note.key
                for note in self.indexed.look_up(lambda: self.newest(MOST_PENDING, pending=True))
                if note.is_observation and (note.subject in subjects or text_hash(note) in texts)
            ]
        except DatabaseUnusable as error:
            why = f"pending notes about it may still be there: {error}"
        try:
            self._remove((*there, *noticed))
        except DatabaseUnusable as error:
            why = f"the search index still has them: {error}"
        return Forgotten(tuple(there), tuple(key for key in keys if key not in there), why)

    def remove_expired(self) -> str:
        """Remove the expired notes; return a message, "" if there are none.

        Raises DatabaseUnusable.
        """
        now = self._disk.clock()
        found = self.read(self.indexed.look_up(lambda: self.indexed.index.expired(now)))
        keys = [note.key for note in found if not is_alive(note, now)]
        self._remove(keys)
        return f"Removed: {', '.join(keys)}." if keys else ""

    def _is_there(self, key: str) -> bool:
        """Return True if there is a file or link of this name, but no folder."""
        path = self.files.path(key)
        return _is_key(key) and (path.is_symlink() or (path.exists() and not path.is_dir()))

    def undo(self, code: str = "") -> str:
        """Undo the newest batch, of this *code* if given; return a message with its subjects.

        Raises DiskFull, JournalBroken, DatabaseUnusable.
        """
        batches = [b for b in self._undo_log.read() if not code or batch_code(b.id) == code]
        if not batches:
            return "There is nothing to undo."
        return self._undo_batch(batches[-1], for_good=batches[-1].learned)

    def unlearn(self, session: str, parts: Sequence[tuple[int, int]]) -> str:
        """Remove the facts and observations from *parts* of the log of *session*.

        They may be learned again.  Raises DiskFull, JournalBroken, DatabaseUnusable.
        """

        def is_gone(batch: str) -> bool:
            of, _, upto = batch.rpartition("/")
            return of == session and upto.isdecimal() and is_on(int(upto), parts)

        for batch in reversed(self._undo_log.read()):
            if batch.learned and is_gone(batch.id):
                self._undo_batch(batch, for_good=False)
        pending = self.indexed.look_up(self.observations)
        self._remove([one.name for one in pending if is_gone(one.batch)])
        return "Removed."

    def _undo_batch(self, batch: UndoBatch, *, for_good: bool) -> str:
        removed, restored, changed = dict[str, str](), dict[str, str](), dict[str, str]()
        for write in reversed(batch.writes):
            now = self.files.read(write.key)
            if now is None or content_hash(now.data) != write.after:
                changed[write.key] = write.key
            elif write.before is not None:
                self._put(write.key, write.before)
                restored[write.key] = write.key
            else:
                if for_good:
                    # Only the text: another fact may be learned with the same key.
                    self._tombstones.add((text_hash(now.note),))
                removed[write.key] = now.note.subject
                restored.pop(write.key, None)
        self._remove(tuple(removed))
        self._undo_log.drop(batch.id)
        lines = []
        for what, notes in (
            ("Removed", removed),
            ("Restored", restored),
            ("Kept, because they changed later", changed),
        ):
            if notes:
                lines.append(f"{what}: {', '.join(dict.fromkeys(notes.values()))}.")
        return " ".join(lines)

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.files.remove(key)
        self.indexed.drop(keys)


def fuse_rankings(*lists: Sequence[K]) -> list[K]:
    """Merge rankings by reciprocal rank fusion."""
    scores: dict[K, float] = {}
    for keys in lists:
        for place, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda key: -scores[key])


def sort_group(keys: Sequence[str], group: Sequence[str]) -> list[str]:
    """Sort those *keys* that are in *group* by its order; others keep their places.

    >>> sort_group(["old", "a", "new"], ["new", "old", "b"])
    ['new', 'a', 'old']
    """
    in_order = iter([key for key in group if key in keys])
    members = set(group)
    return [next(in_order) if key in members else key for key in keys]


def _is_found(note: Note, query: SearchQuery) -> bool:
    """Return True if *note*, from its current file, may be a result of *query*."""
    is_allowed = query.untrusted or not note.untrusted
    return note.status == "active" and is_alive(note, query.now) and is_allowed


def _is_key(key: str) -> bool:
    return re.fullmatch(KEY, key) is not None and not key.endswith("\n")


def _is_note(entry: "os.DirEntry[str]") -> bool:
    name = entry.name
    return name.endswith(_SUFFIX) and _is_key(name.removesuffix(_SUFFIX))


def _read(path: Path) -> bytes:
    """Read a file, b"" if it is missing.  Raises if it cannot be read."""
    with convert_errors(path), suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _mark(salt: str, hash_: str) -> str:
    # Salted, since plain hashes could be guessed.
    key = salt.encode()[:64]
    return hashlib.blake2b(hash_.encode(), digest_size=16, key=key).hexdigest()
