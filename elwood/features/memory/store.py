"""What is remembered across conversations: notes as files, which are the truth, and their index.

One writer; searches may run beside it.  Everything here blocks, and a crash between any two steps
loses nothing that was there before.
"""

import logging
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import attrs
import msgspec

from elwood.agent.session.settings import LearningSettings
from elwood.features.memory import vectors
from elwood.features.memory.learning import (
    MAX_PENDING,
    KnownFact,
    Lesson,
    Observation,
    digests,
    draft_of,
    drop,
    fact_of,
    keep,
    learn,
    observations_of,
)
from elwood.features.memory.messages import Forgotten, MemoryOverview, Saved, Undone, Unsaved
from elwood.features.memory.note import (
    MAX_FILE,
    MAX_TAGS,
    Note,
    NoteDraft,
    above,
    expires,
    is_observed,
    longer,
    parse,
    render,
    stamped,
    wrong,
)
from elwood.features.memory.ranking import fused, placed
from elwood.features.memory.undo import (
    NoteWrite,
    Tombstones,
    UndoBatch,
    UndoLog,
    content_hash,
    said_hash,
)
from elwood.foundation.storage.disk import Disk, DiskFull
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    CancelToken,
    DatabaseUnusable,
    Document,
    SearchQuery,
    grouped,
    ranked,
    stamp_of,
)
from elwood.foundation.text.words import KEY, saying

log = logging.getLogger("elwood.memory")

# Hits whose files are read to make up for those that have gone or changed since they were indexed.
SPARE = 5
# Notes that whoever looks for new facts is shown, so that the same gets the same key.
MAX_KNOWN = 100
# Notes that are looked at for those that wait: twice as many as observations are let be, for others
# may have made notes wait, by hand.
MOST_PENDING = 2 * MAX_PENDING
# Seconds for which a note stays that is out of date: somebody may want it back.
EXPIRED_STAY = 7 * 86_400.0
# Notes that are removed at once for that; the others the next time.
MAX_REMOVED = 1000
# What editors and crashes leave beside a file: `.tea.md.tmp`, `tea.md~`, `#tea.md#`, `.tea.md.swp`.
_MARKS = ".#"
_SUFFIX = ".md"


class NotesUnwritten(Exception):
    """Not all that was learned could be written; doing it again does no harm."""


@attrs.frozen
class NoteFile:
    """A note as its file has it.

    *stamp* is another one whenever the file has changed, except by an edit that leaves its size
    and falls into the same tick of the file system's clock (a few milliseconds) as the one before.
    *whole* says that the note is all there was, so that it may be written anew; *data* are the
    bytes.
    """

    note: Note
    stamp: str
    whole: bool
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
            fd = os.open(
                self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            with open(fd, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return None
                data = file.read(MAX_FILE + 1)
        except OSError:
            return None
        try:
            text, whole = data[:MAX_FILE].decode("utf-8-sig"), len(data) <= MAX_FILE
        except UnicodeDecodeError:
            text, whole = data[:MAX_FILE].decode("utf-8-sig", "replace"), False
        return NoteFile(parse(key, text), stamp_of(found), whole, data)

    def document(self, key: str) -> Document | None:
        """Read what the index takes in of a note."""
        filed = self.read(key)
        if filed is None:
            return None
        note = filed.note
        return Document(
            key=key,
            stamp=filed.stamp,
            text=note.text,
            tags=note.tags,
            listed=note.status == "kept",
            untrusted=note.untrusted,
            importance=note.importance,
            updated=note.updated,
            expires=expires(note),
        )

    def write(self, key: str, data: bytes) -> None:
        """Let the note be *data*: after a crash it is the old or the new one.

        Raises DiskFull, JournalBroken.
        """
        path = self._path(key)
        self._disk.make_folder(self.folder)
        self._disk.replace(path, data)

    def remove(self, key: str) -> bool:
        """Remove the note, for good, and what editors left of it; False if there was none.

        A folder of this name is none.
        """
        if not _is_key(key):
            return False
        path = self._path(key)
        there = self.is_file(key)
        for left in self._left_of(path.name):
            self._disk.remove(left)
        if not path.is_dir() or there:
            self._disk.remove(path, durably=True)
        return there

    def is_file(self, key: str) -> bool:
        """Tell whether there is something of this name that can be removed: no folder."""
        path = self._path(key)
        return path.is_symlink() or (path.exists() and not path.is_dir())

    def there(self, key: str) -> bool:
        """Tell whether there is something of this name."""
        return os.path.lexists(self._path(key))

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all notes, by key and stamp, in no order."""
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

    def sweep(self) -> None:
        """Remove what a crash has left of files that were being written."""
        for entry in self._entries():
            if re.fullmatch(r"\.[a-z0-9][a-z0-9-]{0,63}\.md\.tmp", entry.name):
                self._disk.remove(self.folder / entry.name)

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        try:
            with os.scandir(self.folder) as entries:
                yield from entries
        except (FileNotFoundError, NotADirectoryError):
            return

    def _left_of(self, name: str) -> Iterator[Path]:
        for entry in self._entries():
            if entry.name != name and entry.name.lstrip(_MARKS).startswith(name):
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        yield self.folder / entry.name

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


class NoteStore:
    """The notes in *state*/memory, at most *max_notes*, and their index in *state*/memory.db."""

    def __init__(self, state: Path, disk: Disk, *, max_notes: int) -> None:
        self.files = NoteFiles(state / "memory", disk)
        self.indexed = IndexedFiles(self.files, state / "memory.db")
        self._undo_log = UndoLog(state / "memory.undo", disk)
        self._tombstones = Tombstones(state / "memory.forgotten", disk)
        self._disk = disk
        self._max_notes = max_notes

    def open(self) -> None:
        """Remove what a crash has left; open the index for writing, if there is one."""
        self.files.sweep()
        self.indexed.open()

    # --- reading, also beside the writer --------------------------------------------------------

    def search(
        self,
        query: SearchQuery,
        limit: int,
        cancel: CancelToken,
        model: str = "",
    ) -> list[Note]:
        """Find the *limit* best notes, by words and near to the question's vector, by *model*.

        Raises DatabaseUnusable, Abandoned.
        """
        index = self.indexed.index
        groups = grouped(index.search(query, cancel))
        keys = [hit.key for group in groups for hit in group]
        if query.vector is not None:
            close = ranked(vectors.near(index, model, query, cancel))
            # Of versions that fit about equally well by words, meaning must not choose the old.
            versions = [hit.key for hit in groups[0] if hit.whole] if groups else ()
            keys = placed(fused(keys, close), versions)
        alive = (note for note in self._each(keys[: limit + SPARE]) if _is_found(note, query))
        return list(islice(alive, limit))

    def read(self, keys: Sequence[str]) -> list[Note]:
        """Read these notes, as far as they are there."""
        return list(self._each(keys))

    def _each(self, keys: Sequence[str]) -> Iterator[Note]:
        found = (self.files.read(key) for key in keys)
        return (filed.note for filed in found if filed is not None)

    def newest(self, limit: int, *, pending: bool = False) -> list[Note]:
        """Read the newest notes, kept or *pending*, the newest first.  Raises DatabaseUnusable."""
        return self.read(self.indexed.index.newest(limit, pending=pending))

    def observations(self) -> list[Observation]:
        """List what was noticed and waits.  Raises DatabaseUnusable."""
        return observations_of(self.newest(MOST_PENDING, pending=True))

    def known(self) -> tuple[KnownFact | Observation, ...]:
        """List what was remembered last, and all that was noticed.  Raises DatabaseUnusable."""
        return (*map(fact_of, self.newest(MAX_KNOWN)), *self.observations())

    def overview(self, limit: int) -> MemoryOverview:
        """Say how much there is, and give the newest *limit* notes of each kind.

        Raises DatabaseUnusable.
        """
        return MemoryOverview(
            self.indexed.index.counts(self._disk.clock()),
            tuple(self.newest(limit)),
            tuple(self.newest(limit, pending=True)),
            tuple(self.files.passed_over()),
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
        alone = before is not None or is_observed(draft.more)
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

    def _refused(self, draft: NoteDraft, before: NoteFile | None) -> str | None:
        if before is None:
            if self.files.there(draft.key):
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
        if draft.status == "pending" and before.note.status == "kept":
            return "a note of this key is kept already, and this one would be pending"
        return None

    def _count(self) -> int:
        try:
            if self.indexed.is_ready:
                return self.indexed.index.count()
        except DatabaseUnusable as error:
            log.warning("counting the files", extra={"why": str(error)})
        return sum(1 for _ in self.files.stamps())

    def _twin(self, draft: NoteDraft) -> NoteFile | None:
        """Find a note of another key that says the same, and may stand for *draft*.

        As far as the index knows.  Observations may be many, and are none; what is out of date is
        as good as gone; and strangers' words, with their key and all that nobody sees in them,
        never stand for the owner's.
        """
        said = saying(draft.text)
        for key in self.indexed.twins(said):
            filed = self.files.read(key)
            if filed is None or filed.note.is_observation:
                continue
            until = expires(filed.note)
            if until is not None and until <= self._disk.clock():
                continue
            if filed.note.untrusted and not draft.label.untrusted:
                continue
            if saying(filed.note.text) == said:
                return filed
        return None

    def _confirm(self, draft: NoteDraft, twin: NoteFile, batch: str, *, learned: bool) -> Saved:
        """Take what *draft* adds to the note that says the same; its words stay."""
        note = twin.note
        weaker = (draft.label.untrusted and not note.untrusted) or (
            draft.status == "pending" and note.status == "kept"
        )
        if not weaker and twin.whole:
            merged = msgspec.structs.replace(
                note,
                tags=tuple(dict.fromkeys((*note.tags, *(draft.tags or ()))))[:MAX_TAGS],
                importance=max(note.importance, draft.importance or note.importance),
                ttl=longer(note.ttl, draft.ttl or ""),
                status=draft.status,
                updated=stamped(self._disk.clock()),
            )
            self._write(merged, twin, batch, learned=learned)
        return Saved(note.key, known=True, untrusted=note.untrusted)

    def _made(self, draft: NoteDraft, before: Note | None) -> Note:
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

    def _write(self, note: Note, before: NoteFile | None, batch: str, *, learned: bool) -> None:
        data = render(note).encode("utf-8", "replace")
        write = NoteWrite(note.key, before.data if before else None, content_hash(data))
        self._undo_log.add(UndoBatch(batch, self._disk.clock(), learned, (write,)))
        self._put(note.key, data)

    def _put(self, key: str, data: bytes) -> None:
        self.files.write(key, data)
        self.indexed.put(key)

    # --- learning --------------------------------------------------------------------------------

    def learn(
        self,
        found: Sequence[Observation],
        batch: str,
        settings: LearningSettings,
        *,
        corrected: bool,
    ) -> Lesson:
        """Take in what one look at a conversation found (`learning.learn`).

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        hashes = {one: digests(one.key, one.text) for one in found}
        buried = self._tombstones.buried(chain.from_iterable(hashes.values()))
        facts = [one for one in found if buried.isdisjoint(hashes[one])]
        pending = self.indexed.look_up(lambda _: self.observations())
        notes = self.read(list(dict.fromkeys(one.key for one in (*facts, *pending))))
        known = [fact_of(note) for note in notes if note.status == "kept"]
        lesson = learn(facts, pending, known, settings, corrected=corrected)
        self._carry_out(lesson, batch, learned=True)
        return lesson

    def settle(self, code: str, at: float, *, is_kept: bool) -> str:
        """Keep or drop what the owner calls *code*, at Unix time *at*; "" if there is no such.

        Raises NotesUnwritten, DiskFull, JournalBroken and DatabaseUnusable.
        """
        pending = self.indexed.look_up(lambda _: self.observations())
        lesson = keep(code, pending, at) if is_kept else drop(code, pending)
        if lesson is None:
            return ""
        self._carry_out(lesson, f"owner/{at:.3f}", learned=False)
        said = " ".join(one.text for one in lesson.notes)
        return f"Remembered: {said}" if is_kept else "Dropped."

    def _carry_out(self, lesson: Lesson, batch: str, *, learned: bool) -> None:
        """Write first, then drop: a crash between them leaves observations of what is kept."""
        drafts = map(draft_of, lesson.notes)
        for answer in self.save(drafts, batch=batch, learned=learned):
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
        keys = tuple(dict.fromkeys(keys))
        there = tuple(key for key in keys if self.files.is_file(key))
        known = self.read(there)
        if known:
            self._tombstones.bury(
                hash_ for note in known for hash_ in digests(note.subject, note.text)
            )
        said = {said_hash(note) for note in known}
        about = {note.subject for note in known}
        noticed: Sequence[str] = ()
        why = ""
        try:
            noticed = self.indexed.look_up(lambda _: self._observed(about, said))
        except DatabaseUnusable as error:
            why = f"what was noticed of it may still be there: {error}"
        self._undo_log.forget({*keys, *noticed, *about}, said)
        try:
            self._remove((*keys, *noticed))
        except DatabaseUnusable as error:
            why = f"the index still has them, and could not be removed: {error}"
        return Forgotten(there, tuple(key for key in keys if key not in there), why)

    def _observed(self, about: Collection[str], said: Collection[str]) -> list[str]:
        """Name the observations that are about one of these, or say one of these."""
        return [
            note.key
            for note in self.newest(MOST_PENDING, pending=True)
            if note.is_observation and (note.subject in about or said_hash(note) in said)
        ]

    def undo(self) -> Undone | None:
        """Take the newest batch back; None if there is none.

        Raises DiskFull, JournalBroken, DatabaseUnusable.
        """
        batches = self._undo_log.read()
        if not batches:
            return None
        batch = batches[-1]
        removed, restored, changed = dict[str, str](), list[str](), list[str]()
        for write in batch.writes:
            now = self.files.read(write.key)
            if now is None or content_hash(now.data) != write.after:
                changed.append(write.key)
            elif write.before is not None:
                self._put(write.key, write.before)
                restored.append(write.key)
            else:
                if batch.learned:
                    # The text alone: something else may be learned of the same.
                    self._tombstones.bury((said_hash(now.note),))
                removed[write.key] = now.note.subject
        self._remove(tuple(removed))
        self._undo_log.pop()
        names = tuple(dict.fromkeys(removed.values()))
        return Undone(batch.at, names, tuple(restored), tuple(changed))

    def tidy(self, now: float) -> int:
        """Remove what is long out of date at Unix time *now*; say how many notes those were.

        Raises DiskFull, JournalBroken and DatabaseUnusable.
        """
        before = now - EXPIRED_STAY
        # The file is the truth: somebody may have given it more time.
        old = [
            note.key
            for note in self.read(
                self.indexed.look_up(lambda index: index.expired(before, MAX_REMOVED))
            )
            if (until := expires(note)) is not None and until <= before
        ]
        self._remove(old)
        self.indexed.tidy()
        return len(old)

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.files.remove(key)
        self.indexed.drop(keys)


def _is_found(note: Note, query: SearchQuery) -> bool:
    """Tell whether *note*, as its file is now, may be an answer."""
    until = expires(note)
    alive = until is None or until > query.now
    return note.status == "kept" and alive and (query.untrusted or not note.untrusted)


def _is_key(key: str) -> bool:
    return re.fullmatch(KEY, key) is not None and not key.endswith("\n")


def _is_note(entry: "os.DirEntry[str]") -> bool:
    name = entry.name
    return name.endswith(_SUFFIX) and _is_key(name.removesuffix(_SUFFIX))
