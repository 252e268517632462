"""A durable fold: an append-only file, and the state its entries add up to.

A line is JSON, checked by a CRC and chained by SHA-256::

    {"seq": 7, "prev": "<hash of the line before>", "at": 1.5, "entries": [...], "crc": "0a1b2c3d"}

*seq* numbers the first entry of the line, from 1; *prev* is empty in the first line; *crc* covers
what stands before it.  The chain shows every edit, removal and exchange, except that the last lines
were taken away: compare the head with one noted earlier for that.

Rules: one write per line, newline last, fsync before anyone is told; only a tail that was never
acknowledged is cut; damage anywhere else stops the work and is left as it is.  A snapshot saves the
replay of what stands before it.  It is only a shortcut: if anything about it is in doubt, it is
ignored and the whole journal is read.
"""

import hashlib
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, Generic, Literal, Protocol, TypeVar, get_args, get_type_hints

import attrs
import msgspec
import trio

from elwood import __version__
from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.disk import Disk, DiskFull, JournalBroken, judged, temporary

# Entries after which a snapshot is written; their replay takes about 50 ms.
SNAPSHOT_EVERY = 10_000
# ,"crc":"xxxxxxxx"}\n
_LINE_SEAL = 19
# ,"checksum":"<64 hex digits>"}
_SNAPSHOT_SEAL = 79

E = TypeVar("E")
Entry_contra = TypeVar("Entry_contra", contravariant=True)
T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class JournalLine(msgspec.Struct, Generic[E], frozen=True):
    """One line: *entries* were recorded together, at Unix time *at*."""

    seq: int
    prev: str
    at: float
    entries: tuple[E, ...]
    crc: str


class _Unsealed(msgspec.Struct, Generic[E], frozen=True):
    seq: int
    prev: str
    at: float
    entries: tuple[E, ...]


def write_line(seq: int, prev: str, at: float, entries: tuple[E, ...]) -> bytes:
    """Make the line that records *entries*, with its newline."""
    body = _encoder.encode(_Unsealed(seq, prev, at, entries))[:-1]
    if b"\n" in body:
        # Only raw JSON of others can hold one, as white space: strings have it escaped.
        body = body.replace(b"\n", b" ")
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def is_sound(line: bytes) -> bool:
    """Tell whether *line* is as it was written, and to its end."""
    crc = zlib.crc32(line[:-_LINE_SEAL]) if len(line) > _LINE_SEAL else 0
    return line[-_LINE_SEAL:] == b',"crc":"%08x"}\n' % crc


def digest(line: bytes) -> str:
    """Name *line*, newline included, for the *prev* of the next one."""
    return hashlib.sha256(line).hexdigest()


@cache
def decoder(entries: Any) -> msgspec.json.Decoder[JournalLine[Any]]:
    """Make the decoder for lines of the type *entries*, once per type."""
    return msgspec.json.Decoder(JournalLine[entries])


@attrs.define
class JournalPlace:
    """How far a journal was followed: the last entry's *seq*, and where its line stands.

    *lines* counts lines, *offset* is the byte behind the last one, *length* that line's size in
    bytes, *head* its digest, *at* its Unix time.  *torn* stood behind it when that was read.
    """

    seq: int = 0
    lines: int = 0
    offset: int = 0
    length: int = 0
    head: str = ""
    at: float = 0.0
    torn: bytes = b""

    def advance(self, raw: bytes, count: int, at: float) -> None:
        """Go on behind the line *raw*, which has *count* entries and was written *at*."""
        self.seq += count
        self.lines += 1
        self.length = len(raw)
        self.offset += self.length
        self.head = digest(raw)
        self.at = at


class JournalDamaged(Exception):
    """Line *line* of *path* is not what was written; the file was left as it is (CP-34).

    Nobody's fault here: a disk, or somebody who edited.  A person must decide.
    """

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(
            f"{path}, line {line} {why}. The file was left untouched. Restore it from a backup, "
            f"or move it and {snapshot_of(path).name} away to go on without its history"
        )
        self.path = path
        self.line = line
        self.why = why


def follow(
    path: Path, file: IO[bytes], place: JournalPlace, decode: Callable[[bytes], JournalLine[E]]
) -> Iterator[JournalLine[E]]:
    """Yield the lines of *path*, open as *file*, from *place* on, which moves along.

    Stops at a torn tail, which a write that never ended can have left: no more than one line,
    without its end, or with holes.  Anything else raises JournalDamaged.
    """
    for raw in file:
        number = place.lines + 1
        if not is_sound(raw):
            if file.read(1):
                raise JournalDamaged(path, number, "is damaged, and more lines follow it")
            if raw.endswith(b"\n") and _is_json(raw):
                raise JournalDamaged(path, number, "was changed after it was written")
            if _holds_a_line(raw):
                raise JournalDamaged(path, number, "was whole once, and more stands behind it")
            place.torn = raw
            return
        try:
            line = decode(raw)
        except msgspec.DecodeError as error:
            why = f"holds what this version of Elwood does not know ({error})"
            raise JournalDamaged(path, number, why) from error
        if line.prev != place.head or line.seq != place.seq + 1:
            why = (
                f"does not follow the one before it: lines are missing or were moved "
                f"(entry {line.seq} stands where {place.seq + 1} belongs)"
            )
            raise JournalDamaged(path, number, why)
        place.advance(raw, len(line.entries), line.at)
        yield line


def entries_of(path: Path, entries: Any) -> Iterator[tuple[int, float, Any]]:
    """Yield the entries of the journal *path*, of the union *entries*, with numbers and times.

    What was not written to its end is left out.  Raises JournalDamaged and OSError.
    """
    with path.open("rb", buffering=1 << 20) as file:
        for line in follow(path, file, JournalPlace(), decoder(entries).decode):
            for seq, entry in enumerate(line.entries, line.seq):
                yield seq, line.at, entry


def _holds_a_line(raw: bytes) -> bool:
    """Tell whether *raw* starts with a whole line, but for a line break that was damaged."""
    crc = raw.find(b',"crc":"')
    while crc != -1:
        end = crc + _LINE_SEAL - 1
        # One byte behind it may be what became of the line break when the write was torn.
        if end + 1 < len(raw) and is_sound(raw[:end] + b"\n"):
            return True
        crc = raw.find(b',"crc":"', end)
    return False


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


class Snapshot(msgspec.Struct, frozen=True):
    """The *state* at *place*; *shape* names its type."""

    place: JournalPlace
    shape: str
    state: msgspec.Raw


def snapshot_of(journal: Path) -> Path:
    """Name the file that holds the snapshot of *journal*."""
    return journal.with_name(f"{journal.name}.snapshot")


@cache
def shape(kind: type) -> str:
    """Name what a state of type *kind* can hold, in this version of Elwood.

    A state that has learned a new field would find it empty in an old snapshot, although the
    journal can fill it.
    """
    found: dict[type, str] = {}
    todo: list[object] = [kind]
    while todo:
        part = todo.pop()
        todo.extend(get_args(part))
        if isinstance(part, type) and part not in found and _is_record(part):
            hints = get_type_hints(part, include_extras=True)
            found[part] = f"{part.__module__}.{part.__qualname__}{hints}"
            todo.extend(hints.values())
    known = "\n".join([__version__, *sorted(found.values())])
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _is_record(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) or attrs.has(kind) or is_dataclass(kind)


def take(state: object, shape: str, place: JournalPlace) -> bytes:
    """Make the snapshot file of *state*, which is what the journal adds up to at *place*."""
    snapshot = Snapshot(place, shape, msgspec.Raw(msgspec.json.encode(state)))
    body = msgspec.json.encode(snapshot)[:-1]
    return b'%b,"checksum":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


def load(path: Path) -> Snapshot | None:
    """Read a snapshot; None if there is none, or none that is whole."""
    try:
        sealed = path.read_bytes()
    except FileNotFoundError:
        return None
    body = sealed[:-_SNAPSHOT_SEAL]
    if sealed[-_SNAPSHOT_SEAL:] != b',"checksum":"%b"}' % hashlib.sha256(body).hexdigest().encode():
        return None
    try:
        return msgspec.json.decode(sealed, type=Snapshot)
    except msgspec.DecodeError:
        return None


def belongs(snapshot: Snapshot, file: IO[bytes]) -> bool:
    """Tell whether the line at which *snapshot* was taken stands in the journal *file*."""
    place = snapshot.place
    start = place.offset - place.length
    if start < 0:
        return False
    file.seek(start)
    line = file.read(place.length)
    return line.endswith(b"\n") and digest(line) == place.head


class Fold(Protocol[Entry_contra]):
    """What a journal keeps: a msgspec.Struct that takes in entries, in order."""

    def apply(self, seq: int, at: float, entry: Entry_contra, /) -> None:
        """Take in the entry *seq*, recorded at Unix time *at*."""


S = TypeVar("S", bound=Fold[Any])  # Python cannot bind it to Fold[E]


class Journal(Generic[E, S]):
    """Entries of the union *entries* in the file *path*, and their fold *state*.

    *new* is the type of the state, callable without arguments.  Exactly one journal may be open
    per file, and only *append* changes the state.  What is applied are the entries as they read
    back from their line, so a state never differs from its replay.  A snapshot is written after
    each *snapshot_every* entries.
    """

    def __init__(
        self,
        path: Path,
        entries: Any,  # a union; there is no static type for one yet
        new: Callable[[], S],
        disk: Disk,
        *,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        self.path = path
        self.state: S = new()
        self._new = new
        self._disk = disk
        self._entries = entries
        self._snapshot_every = snapshot_every
        self._decode: Callable[[bytes], Any] = decoder(entries).decode
        self._place = JournalPlace()
        self._saved = 0
        self._broken: JournalBroken | None = None
        self._usable = False
        # In *state* already, and to be written at the head of the next line.
        self._staged: list[E] = []
        # Tasks of one actor append at the same time; lines must not.
        self._turn = trio.Lock()

    async def open(self) -> None:
        """Read the file into *state*, cutting (and keeping) a torn tail.

        What was read is on the disk when this returns, also if a killed process left it in
        memory only.  Raises JournalDamaged, JournalBroken, and DiskFull if a torn tail cannot
        be kept.
        """
        async with self._turn:
            self._usable = False
            self._staged = []
            self.state, self._place, self._saved = await self._disk.blocking(self._read)
            self._broken = None
            self._usable = True
            await self._snapshot_if_due()

    async def open_sound(self) -> Path | None:
        """Open a file of which each line counts by itself, without the damaged lines.

        The damaged file is put aside then, and its path returned.  Raises JournalBroken, DiskFull.
        """
        try:
            await self.open()
        except JournalDamaged:
            aside = await self._disk.blocking(self._keep_sound)
            await self.open()
            return aside
        return None

    @property
    def last(self) -> float:
        """When the newest line was written, Unix time; 0 if there is none."""
        return self._place.at

    @property
    def head(self) -> str:
        """The digest of the newest line; empty if there is none."""
        return self._place.head

    async def look_back(self, read: Callable[[Iterator[tuple[int, float, E]]], T]) -> T:
        """Give what *read* makes of the whole file, entry by entry.  Raises JournalDamaged."""
        return await self._disk.blocking(lambda: read(entries_of(self.path, self._entries)))

    async def stage(self, entry: E) -> None:
        """Take *entry* into *state*, and write it at the head of the next line that is appended.

        A crash before that loses it: so it must matter only together with what is written next.
        Its time will be that of the line, so the fold must take no account of its time.
        """
        async with self._turn:
            self._check_usable()
            seq = self._place.seq + 1 + len(self._staged)
            raw = write_line(seq, self._place.head, self._disk.clock(), (entry,))
            line = self._decode(raw)
            self.state.apply(seq, line.at, line.entries[0])
            self._staged.append(entry)

    async def append(self, *entries: E, last_words: bool = False, synced: bool = True) -> None:
        """Record *entries* in one line, behind what was staged: all of it or, after a crash, none.

        They are on the disk, and in *state*, when this returns; if it is cancelled, neither.
        *last_words* may use the reserved space: results of what has happened already.  What is
        not *synced* may be lost by a power cut, and by nothing else.  Raises
        DiskFull (nothing was written, the journal stays usable), JournalBroken, and
        msgspec.DecodeError for an entry that could not be read back, which is a bug.
        """
        if not entries and not self._staged:
            return
        # Nearly always free: then the write below is the only point where others may run.
        if self._turn.locked():
            await self._turn.acquire()
        else:
            self._turn.acquire_nowait()
        try:
            await self._append(entries, last_words, synced)
            await self._snapshot_if_due()
        finally:
            self._turn.release()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise JournalBroken(self.path, self._broken.why)
        if not self._usable:
            raise RuntimeError(f"{self.path} is not open")

    async def _append(self, entries: tuple[E, ...], last_words: bool, synced: bool) -> None:
        self._check_usable()
        place = self._place
        staged = len(self._staged)
        entries = (*self._staged, *entries)
        raw = write_line(place.seq + 1, place.head, self._disk.clock(), entries)
        line = self._decode(raw)
        write = partial(
            self._disk.append,
            self.path,
            raw,
            at=place.offset,
            last_words=last_words,
            synced=synced,
        )
        try:
            await self._disk.blocking(write)
        except JournalBroken as error:
            self._broken = error
            raise
        place.advance(raw, len(entries), line.at)
        self._staged = []
        for seq, entry in enumerate(line.entries[staged:], line.seq + staged):
            self.state.apply(seq, line.at, entry)

    async def _snapshot_if_due(self) -> None:
        if self._place.seq - self._saved < self._snapshot_every:
            return
        what = f"snapshot of {self.path.name}"
        # The entries stand and were applied: a cancellation now must not say that they were not.
        with trio.CancelScope(shield=True):
            try:
                await self._disk.blocking(self._save)
            except DiskFull as error:
                report_error(what, str(error))
            else:
                clear_error(what)
        # Also if there was no room: the next one is worth as much as this one.
        self._saved = self._place.seq

    def _save(self) -> None:
        snapshot = take(self.state, shape(type(self.state)), self._place)
        self._disk.replace(snapshot_of(self.path), snapshot)

    def _read(self) -> tuple[S, JournalPlace, int]:
        state, place, saved = self._new(), JournalPlace(), 0
        self._disk.remove(temporary(snapshot_of(self.path)))
        try:
            file = self.path.open("rb", buffering=1 << 20)
        except FileNotFoundError:
            return state, place, saved
        with file, judged(self.path):
            found = self._shortcut(file, type(state))
            if found is not None:
                state, place = found
                saved = place.seq
            file.seek(place.offset)
            for line in follow(self.path, file, place, self._decode):
                for seq, entry in enumerate(line.entries, line.seq):
                    state.apply(seq, line.at, entry)
        if place.torn:
            name = f"{self.path.name}.torn-{self._disk.clock():.0f}"
            self._disk.set_aside(self.path.with_name(name), place.torn)
            self._disk.cut(self.path, place.offset)
            place.torn = b""
        self._disk.settle(self.path)
        return state, place, saved

    def _keep_sound(self) -> Path:
        with judged(self.path):
            damaged = self.path.read_bytes()
        name = f"{self.path.name}.damaged-{self._disk.clock():.0f}"
        aside = self._disk.set_aside(self.path.with_name(name), damaged)
        place, sound = JournalPlace(), []
        for raw in filter(is_sound, damaged.splitlines(keepends=True)):
            with suppress(msgspec.DecodeError):
                line = self._decode(raw)
                raw = write_line(place.seq + 1, place.head, line.at, line.entries)
                place.advance(raw, len(line.entries), line.at)
                sound.append(raw)
        self._disk.replace(self.path, b"".join(sound))
        return aside

    def _shortcut(self, file: IO[bytes], kind: type[S]) -> tuple[S, JournalPlace] | None:
        snapshot = load(snapshot_of(self.path))
        if snapshot is None or snapshot.shape != shape(kind) or not belongs(snapshot, file):
            return None
        try:
            return msgspec.json.decode(snapshot.state, type=kind), snapshot.place
        except msgspec.DecodeError:
            return None


class Verified(msgspec.Struct, frozen=True):
    """A whole chain: *entries* in *lines*, written from *first* to *last* (Unix time).

    *head* is the digest of the last line, *heads* are those of lines that end with entries which
    were asked for: who noted them earlier can tell that none were taken off the end since.  *torn*
    bytes at the end were never acknowledged.
    """

    entries: int
    lines: int
    first: float | None
    last: float | None
    head: str
    torn: int
    snapshot: Literal["none", "ok", "does not belong to this journal"]
    heads: frozenset[tuple[int, str]] = frozenset()


def verify(path: Path, wanted: Container[int] = ()) -> Verified:
    """Prove, from the file alone, that nothing in the journal *path* was edited, moved or removed.

    Reads everything and changes nothing.  What it cannot see: that whole lines are missing at the
    end, or that everything was written anew; compare the heads after the entries *wanted* for that
    (`anchors`).  Raises JournalDamaged and OSError.
    """
    place, heads = JournalPlace(), set[tuple[int, str]]()
    first: float | None = None
    snapshot = load(snapshot_of(path))
    with path.open("rb", buffering=1 << 20) as file:
        fits = snapshot is not None and belongs(snapshot, file)
        file.seek(0)
        for line in follow(path, file, place, decoder(msgspec.Raw).decode):
            first = line.at if first is None else first
            if place.seq in wanted:
                heads.add((place.seq, place.head))
    return Verified(
        entries=place.seq,
        lines=place.lines,
        first=first,
        last=None if first is None else place.at,
        head=place.head,
        torn=len(place.torn),
        snapshot="ok"
        if fits
        else "does not belong to this journal"
        if snapshot_of(path).exists()
        else "none",
        heads=frozenset(heads),
    )
