"""What is remembered across conversations: notes as files, which are the truth, and their index.

One writer; searches may run beside it.  Everything here blocks, and a crash between any two steps
loses nothing that was there before.
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
    Lesson,
    Observation,
    digests,
    learn,
    observations_of,
    settled,
)
from elwood.features.memory.messages import Forgotten, MemoryOverview, Saved, Unsaved
from elwood.features.memory.note import (
    MAX_FILE,
    Note,
    NoteDraft,
    expires,
    parse,
    render,
    stamped,
    wrong,
)
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.storage.disk import Disk, DiskFull, judged
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    Document,
    SearchQuery,
    grouped,
    stamp_of,
)
from elwood.foundation.text.words import KEY

K = TypeVar("K", bound=Hashable)

# Hits whose files are read to make up for those that have gone or changed since they were indexed.
SPARE = 5
# Notes that are looked at for those that wait: twice as many as observations are let be, for others
# may have made notes wait, by hand.
MOST_PENDING = 2 * MAX_PENDING
# Batches that can be taken back; and lines of their log, which then is written anew.
MAX_BATCHES, MAX_LINES = 10, 50
# Notes whose return is watched for, each by two hashes; the oldest are let go.
MAX_FORGOTTEN = 20_000
# The constant of reciprocal rank fusion, as published (Cormack et al., 2009).
FUSION = 60
# What editors and crashes leave beside a file: `.tea.md.tmp`, `tea.md~`, `#tea.md#`, `.tea.md.swp`.
_MARKS = ".#"
_SUFFIX = ".md"


class NotesUnwritten(Exception):
    """Not all that was learned could be written; doing it again does no harm."""


@attrs.frozen
class NoteFile:
    """A note as its file has it, of *data*; *stamp* is as `stamp_of` makes it."""

    note: Note
    stamp: str
    data: bytes = attrs.field(repr=False)

    @property
    def is_cut(self) -> bool:
        """Whether *data* are not all of the file."""
        return len(self.data) > MAX_FILE


class NoteFiles:
    """The notes in *folder*; it is made with the first one."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk

    def read(self, key: str) -> NoteFile | None:
        """Read a note; None if there is none, or nothing that could be one."""
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
        """Let the note be *data*: after a crash it is the old or the new one.

        Raises DiskFull, JournalBroken.
        """
        path = self.path(key)
        self._disk.make_folder(self.folder)
        self._disk.replace(path, data)

    def remove(self, key: str) -> None:
        """Remove the note, for good, and what editors and crashes left of it; a folder is none."""
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

    def passed_over(self) -> list[str]:
        """Name the Markdown files that are no notes, as their names cannot be keys."""
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
    """The note *key* was *before* (None: not there), and then had the hash *after*."""

    key: str
    before: bytes | None
    after: bytes


class UndoBatch(msgspec.Struct, frozen=True):
    """What one call, or one look back at a conversation, wrote."""

    id: str
    at: float
    learned: bool
    writes: tuple[NoteWrite, ...]


class UndoLog:
    """The newest batches, in the file *path*; what cannot be read there is as good as none.

    Each line has some, and adds to those before it.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> list[UndoBatch]:
        """List them, the newest last.  Raises DiskFull, JournalBroken."""
        return _batches(_read(self._path))

    def add(self, id_: str, at: float, write: NoteWrite, *, learned: bool) -> None:
        """Note *write* before it is done, in the batch *id_*: the newest, or a new one.

        Raises DiskFull, JournalBroken.
        """
        data = _read(self._path)
        # It begins a line: what was torn off at the end of the last one costs itself alone.
        line = b"\n" + msgspec.json.encode([UndoBatch(id_, at, learned, (write,))])
        if data.count(b"\n") < MAX_LINES:
            self._disk.append(self._path, line, at=len(data), last_words=False, synced=True)
        else:
            self._write(_batches(data + line))

    def drop(self, id_: str) -> None:
        """Let go of a batch.  Raises DiskFull, JournalBroken."""
        self._write([batch for batch in self.read() if batch.id != id_])

    def clear(self) -> None:
        """Let go of all of them.  Raises DiskFull, JournalBroken."""
        self._disk.remove(self._path, durably=True)
        self._disk.remove(self._path.with_name(f".{self._path.name}.tmp"))

    def _write(self, batches: list[UndoBatch]) -> None:
        self._disk.replace(self._path, msgspec.json.encode(batches))


def _batches(data: bytes) -> list[UndoBatch]:
    """Read an undo log; what one batch wrote may stand in several lines."""
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
    """Hashes of what was forgotten, in the file *path*: salted, and nothing else of it."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def buried(self, hashes: Iterable[str]) -> frozenset[str]:
        salt, marks = self._read()
        known = set(marks)
        return frozenset(hash_ for hash_ in hashes if _mark(salt, hash_) in known)

    def bury(self, hashes: Iterable[str]) -> None:
        """Remember that what has these hashes was forgotten.  Raises DiskFull, JournalBroken."""
        salt, marks = self._read()
        salt = salt or secrets.token_hex(16)
        new = (_mark(salt, hash_) for hash_ in hashes)
        self._write(salt, list(dict.fromkeys([*marks, *new])))

    def lift(self, hashes: Iterable[str]) -> None:
        """The owner wants these again.  Raises DiskFull, JournalBroken."""
        salt, marks = self._read()
        gone = {_mark(salt, hash_) for hash_ in hashes}
        if not gone.isdisjoint(marks):
            self._write(salt, [mark for mark in marks if mark not in gone])

    def _read(self) -> tuple[str, list[str]]:
        data = _read(self._path)
        # What is damaged costs itself alone: all of it is written again with the next one.
        salt, *marks = data.decode("ascii", "ignore").split() or [""]
        return salt, marks

    def _write(self, salt: str, marks: list[str]) -> None:
        lines = "\n".join([salt, *marks[-2 * MAX_FORGOTTEN :]])
        self._disk.replace(self._path, f"{lines}\n".encode())


def said_hash(note: Note) -> str:
    """Name what *note* says, as what was forgotten is known by."""
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

    # --- reading, also beside the writer --------------------------------------------------------

    def search(self, query: SearchQuery, limit: int, close: Sequence[str] = ()) -> list[Note]:
        """Find the *limit* best notes by words, together with those that are *close* by meaning.

        Raises DatabaseUnusable.
        """
        groups = grouped(self.indexed.index.search(query))
        keys = [hit.key for group in groups for hit in group]
        if close:
            # Of versions that fit about equally well by words, meaning must not choose the old.
            versions = [hit.key for hit in groups[0] if hit.whole] if groups else ()
            keys = placed(fused(keys, close), versions)
        notes = self.read(keys[: limit + SPARE])
        return [note for note in notes if _is_found(note, query)][:limit]

    def read(self, keys: Sequence[str]) -> list[Note]:
        return [filed.note for key in keys if (filed := self.files.read(key)) is not None]

    def newest(self, limit: int, *, pending: bool = False) -> list[Note]:
        """Read the newest notes, kept or not (*pending*), the newest first.

        Raises DatabaseUnusable.
        """
        return self.read(self.indexed.index.newest(limit, pending=pending))

    def observations(self) -> list[Observation]:
        """List what was noticed and waits.  Raises DatabaseUnusable."""
        return observations_of(self.newest(MOST_PENDING, pending=True))

    def overview(self) -> MemoryOverview:
        """Say how much there is, what came last, and what waits.  Raises DatabaseUnusable."""
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

    def _save(self, draft: NoteDraft, batch: str, *, learned: bool) -> Saved | Unsaved:
        draft = msgspec.structs.replace(draft, text=draft.text.replace("\r\n", "\n").strip())
        if (why := wrong(draft)) is not None:
            return Unsaved(draft.key, why)
        hashes = digests(draft.key, draft.text)
        forgotten = self._tombstones.buried(hashes)
        if forgotten and learned:
            return Unsaved(draft.key, "it was forgotten, and is not learned again", forgotten=True)
        before = self.files.read(draft.key)
        if (why := self._refused(draft, before)) is not None:
            return Unsaved(draft.key, why)
        if forgotten:
            self._tombstones.lift(hashes)
        note = self._made(draft, before.note if before is not None else None)
        self._write(note, before, batch, learned=learned)
        return Saved(draft.key, replaced=before is not None)

    def _refused(self, draft: NoteDraft, before: NoteFile | None) -> str | None:
        if before is None:
            if os.path.lexists(self.files.path(draft.key)):
                return "what is there under this name cannot be read"
            if self._count() >= self._max_notes:
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
        if draft.status == "pending" and before.note.status == "active":
            return "a note of this key is kept already, and this one would be pending"
        return None

    def _count(self) -> int:
        with suppress(DatabaseUnusable):
            if self.indexed.is_ready:
                return self.indexed.index.count()
        return sum(1 for _ in self.files.stamps())

    def _made(self, draft: NoteDraft, before: Note | None) -> Note:
        now = stamped(self._disk.clock())
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
            self._more(draft, old),
        )

    def _more(self, draft: NoteDraft, old: Note) -> tuple[str, ...]:
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

    def learn(self, found: Sequence[Observation], batch: str, settings: LearningSettings) -> Lesson:
        """Take in what one look at a conversation found (`learning.learn`).

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        hashes = {one: digests(one.key, one.text) for one in found}
        buried = self._tombstones.buried(chain.from_iterable(hashes.values()))
        facts = [one for one in found if buried.isdisjoint(hashes[one])]
        pending = self.indexed.look_up(self.observations)
        notes = self.read(list(dict.fromkeys(one.key for one in (*facts, *pending))))
        known = [note for note in notes if note.status == "active"]
        lesson = learn(facts, pending, known, settings)
        self._carry_out(lesson, batch, learned=True)
        return lesson

    def settle(self, code: str, *, is_kept: bool) -> str:
        """Keep or drop what the owner calls *code*; say what was done.

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        pending = self.indexed.look_up(self.observations)
        lesson = settled(code, pending, is_kept=is_kept)
        if lesson is None:
            return "There is nothing of that kind."
        self._carry_out(lesson, "", learned=False)
        said = " ".join(one.text for one in lesson.drafts)
        return f"Remembered: {said}" if is_kept else "Dropped."

    def _carry_out(self, lesson: Lesson, batch: str, *, learned: bool) -> None:
        """Write first, then drop: a crash between them leaves observations of what is kept."""
        for answer in self.save(lesson.drafts, batch=batch, learned=learned):
            if isinstance(answer, Unsaved) and not answer.forgotten:
                raise NotesUnwritten(f"{answer.key}: {answer.why}")
        if lesson.buried:
            self._tombstones.bury(lesson.buried)
        self._remove([note.key for note in self.read(lesson.dropped) if note.status == "pending"])

    # --- forgetting and taking back --------------------------------------------------------------

    def forget(self, keys: Sequence[str]) -> Forgotten:
        """Forget these notes: no byte of them, or noticed of them, stays in the memory's files.

        What stays are salted hashes, which keep them from being learned again.  Raises DiskFull
        (nothing was forgotten yet) and JournalBroken.
        """
        there = [key for key in dict.fromkeys(keys) if self._is_there(key)]
        known = self.read(there)
        if known:
            self._tombstones.bury(
                hash_ for note in known for hash_ in digests(note.subject, note.text)
            )
        said = {said_hash(note) for note in known}
        about = {note.subject for note in known}
        self._undo_log.clear()  # also of one that is gone: it may have what that was
        noticed, why = list[str](), ""
        try:
            noticed = [
                note.key
                for note in self.indexed.look_up(lambda: self.newest(MOST_PENDING, pending=True))
                if note.is_observation and (note.subject in about or said_hash(note) in said)
            ]
        except DatabaseUnusable as error:
            why = f"what was noticed of it may still be there: {error}"
        try:
            self._remove((*there, *noticed))
        except DatabaseUnusable as error:
            why = f"the index still has them, and could not be removed: {error}"
        return Forgotten(tuple(there), tuple(key for key in keys if key not in there), why)

    def _is_there(self, key: str) -> bool:
        """Tell whether there is something of this name that can be removed: no folder."""
        path = self.files.path(key)
        return _is_key(key) and (path.is_symlink() or (path.exists() and not path.is_dir()))

    def undo(self) -> str:
        """Take the newest batch back, and say what came of its notes, by what they are about.

        Raises DiskFull, JournalBroken, DatabaseUnusable.
        """
        batches = self._undo_log.read()
        if not batches:
            return "There is nothing to take back."
        return self._take_back(batches[-1], for_good=batches[-1].learned)

    def unlearn(self, session: str, parts: Sequence[tuple[int, int]]) -> str:
        """Let go of what looks back at *parts* of the log of *session* have found.

        What is said again may be learned again.  Raises DiskFull, JournalBroken, DatabaseUnusable.
        """

        def is_gone(batch: str) -> bool:
            of, _, upto = batch.rpartition("/")
            return of == session and upto.isdecimal() and is_on(int(upto), parts)

        for batch in reversed(self._undo_log.read()):
            if batch.learned and is_gone(batch.id):
                self._take_back(batch, for_good=False)
        pending = self.indexed.look_up(self.observations)
        self._remove([one.name for one in pending if is_gone(one.batch)])
        return "Let go of."

    def _take_back(self, batch: UndoBatch, *, for_good: bool) -> str:
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
                    # The text alone: something else may be learned of the same.
                    self._tombstones.bury((said_hash(now.note),))
                removed[write.key] = now.note.subject
                restored.pop(write.key, None)
        self._remove(tuple(removed))
        self._undo_log.drop(batch.id)
        told = []
        for what, notes in (
            ("Removed", removed),
            ("As before", restored),
            ("Left, as changed since", changed),
        ):
            if notes:
                told.append(f"{what}: {', '.join(dict.fromkeys(notes.values()))}.")
        return " ".join(told)

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.files.remove(key)
        self.indexed.drop(keys)


def fused(*lists: Sequence[K]) -> list[K]:
    """Join rankings by the places that each gives (reciprocal rank fusion)."""
    scores: dict[K, float] = {}
    for keys in lists:
        for place, key in enumerate(keys, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda key: -scores[key])


def placed(keys: Sequence[str], group: Sequence[str]) -> list[str]:
    """Bring those of *keys* that are in *group* into its order, in the places they have.

    >>> placed(["old", "a", "new"], ["new", "old", "b"])
    ['new', 'a', 'old']
    """
    in_order = iter([key for key in group if key in keys])
    members = set(group)
    return [next(in_order) if key in members else key for key in keys]


def _is_found(note: Note, query: SearchQuery) -> bool:
    """Tell whether *note*, as its file is now, may be an answer."""
    until = expires(note)
    alive = until is None or until > query.now
    return note.status == "active" and alive and (query.untrusted or not note.untrusted)


def _is_key(key: str) -> bool:
    return re.fullmatch(KEY, key) is not None and not key.endswith("\n")


def _is_note(entry: "os.DirEntry[str]") -> bool:
    name = entry.name
    return name.endswith(_SUFFIX) and _is_key(name.removesuffix(_SUFFIX))


def _read(path: Path) -> bytes:
    """Read a file that may be missing; what cannot be read now must not be taken for nothing."""
    with judged(path), suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _mark(salt: str, hash_: str) -> str:
    # Salted, as the hashes alone could be guessed.
    key = salt.encode()[:64]
    return hashlib.blake2b(hash_.encode(), digest_size=16, key=key).hexdigest()
