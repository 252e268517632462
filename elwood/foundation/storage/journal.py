"""A durable fold: an append-only log, and the state that its entries add up to.

A line is JSON, checked by a CRC and chained by SHA-256::

    {"seq": 7, "prev": "<hash of the line before>", "at": 1.5, "entries": [...], "crc": "0a1b2c3d"}

*seq* is the number of the line's first entry, from 1; *prev* is empty in the first line; *crc*
covers the text before it. The chain shows every edit, removal and exchange, but not the removal of
the last lines: compare the head with an earlier copy for that.

Rules: one write per line, newline last, fsync before the result is used, except for lines of which
a power cut may take the newest (`append`); only a tail that was never acknowledged is cut; any
other damage stops the work and is not touched.

A log that reaches its limit is closed: packed into a *segment* beside it, ``NAME.<seq of its first
entry>.jsonl.gz``. A new file begins with a line without entries, but with the *state*, chained as
any other. So opening a log costs the same however long its history is, and the oldest segments may
be removed (decision 18).
"""

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from functools import cache, partial
from glob import escape
from itertools import chain, takewhile
from math import inf
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import msgspec
import trio

from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.disk import (
    PAGE,
    Disk,
    DiskFull,
    JournalBroken,
    convert_errors,
    temporary,
)

# Bytes by which a log grows until it is closed, or the size of its state if that is larger;
# replaying them takes about 10 ms.
SEGMENT = 1 << 19
# ,"crc":"xxxxxxxx"}\n
_LINE_SEAL = 19
_FIRST = re.compile(rb'\{"seq":(\d{1,18}),')
_SEGMENT = re.compile(r"\.(\d{10,18})\.jsonl\.gz")

E = TypeVar("E")
Entry_contra = TypeVar("Entry_contra", contravariant=True)
T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class Fold(Protocol[Entry_contra]):
    """The state of a journal: a msgspec.Struct that applies entries, in order."""

    def apply(self, seq: int, at: float, entry: Entry_contra, /) -> None:
        """Apply the entry *seq*, recorded at Unix time *at*."""


S = TypeVar("S", bound=Fold[Any])  # Python cannot bind it to Fold[E]


class JournalLine(msgspec.Struct, Generic[E], frozen=True):
    """One line: *entries* were recorded together, at Unix time *at*.

    The first line after a segment has no entries, but the *state* as JSON.
    """

    seq: int
    prev: str
    at: float
    entries: tuple[E, ...]
    crc: str
    state: msgspec.Raw = msgspec.Raw()


def write_line(
    seq: int, prev: str, at: float, entries: tuple[E, ...], state: object = None
) -> bytes:
    """Build the line that records *entries*, or the *state* before the entry *seq*."""
    body = _encoder.encode({"seq": seq, "prev": prev, "at": at, "entries": entries})[:-1]
    if state is not None:
        body += b',"state":' + _encoder.encode(state)
    if b"\n" in body:
        # Only foreign raw JSON can contain one, as white space: in strings it is escaped.
        body = body.replace(b"\n", b" ")
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def is_sound(line: bytes) -> bool:
    """Return True if *line* is complete and unchanged."""
    crc = zlib.crc32(line[:-_LINE_SEAL]) if len(line) > _LINE_SEAL else 0
    return line[-_LINE_SEAL:] == b',"crc":"%08x"}\n' % crc


def digest(line: bytes) -> str:
    """Return the hash of *line*, newline included, for the *prev* of the next one."""
    return hashlib.sha256(line).hexdigest()


@cache
def decoder(entries: Any) -> msgspec.json.Decoder[JournalLine[Any]]:
    """Return the decoder for lines of the type *entries*, created once per type."""
    return msgspec.json.Decoder(JournalLine[entries])


class JournalPlace(msgspec.Struct):
    """A position in a journal, after its last read line."""

    seq: int = 0  # of the last entry
    lines: int = 0  # lines in the newest file
    offset: int = 0  # of the end of the last line in the newest file
    carried: int = 0  # size of the line with the state, bytes
    head: str = ""  # digest of the last line
    at: float = 0.0  # Unix time of the last line
    torn: bytes = b""  # torn tail that was found after it

    def advance(self, raw: bytes, count: int, at: float) -> None:
        """Advance past the line *raw*, which has *count* entries and was written *at*."""
        self.seq += count
        self.lines += 1
        self.offset += len(raw)
        self.head = digest(raw)
        self.at = at

    def begin_file(self) -> None:
        """Advance to the beginning of the next file."""
        self.lines = self.offset = self.carried = 0


class JournalDamaged(Exception):
    """Line *line* of *path* differs from its original; the file was not touched (CP-34).

    The cause is outside Elwood: a disk, or an edit. A person must decide.
    """

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(
            f"{path}, line {line} {why}. The file was not changed. Restore it from a backup, "
            f"or move it away to continue without its history"
        )
        self.path = path
        self.line = line
        self.why = why


def follow(
    path: Path,
    file: IO[bytes] | gzip.GzipFile,
    place: JournalPlace,
    decode: Callable[[bytes], JournalLine[E]],
) -> Iterator[JournalLine[E]]:
    """Yield the lines of *path*, open as *file*, from *place* on, and advance *place*.

    A file that begins with a state may begin at any entry, if no line was read before it. Stops at
    a torn tail, as an interrupted write leaves it: at most one line, without its end, or with
    holes. Any other fault raises JournalDamaged.
    """
    for raw in file:
        number = place.lines + 1
        if not is_sound(raw):
            if file.read(1):
                raise JournalDamaged(path, number, "is damaged, and more lines follow it")
            if raw.endswith(b"\n") and _is_json(raw):
                raise JournalDamaged(path, number, "was changed after it was written")
            if _holds_a_line(raw):
                raise JournalDamaged(path, number, "was complete once, but more bytes follow it")
            if place.lines == 0 and _first_seq(raw) > 1:
                # This line was written in one piece, with the state.
                raise JournalDamaged(path, number, "is damaged")
            place.torn = raw
            return
        try:
            line = decode(raw)
        except msgspec.DecodeError as error:
            why = f"contains an entry that this version of Elwood does not know ({error})"
            raise JournalDamaged(path, number, why) from error
        if line.state and not place.head:
            place.seq, place.head = line.seq - 1, line.prev
        if line.prev != place.head or line.seq != place.seq + 1:
            why = (
                f"does not continue the previous line: lines are missing or were moved "
                f"(entry {line.seq} instead of {place.seq + 1})"
            )
            raise JournalDamaged(path, number, why)
        place.advance(raw, len(line.entries), line.at)
        if line.state:
            place.carried = len(raw)
        yield line


def segment_of(journal: Path, first: int) -> Path:
    """Return the path of the segment of *journal* whose first entry has the number *first*."""
    return journal.with_name(f"{journal.stem}.{first:010}.jsonl.gz")


def segments(journal: Path) -> dict[int, Path]:
    """Return the segments of *journal* by the numbers of their first entries, in order."""
    found = {}
    for path in journal.parent.glob(f"{escape(journal.stem)}.*.jsonl.gz"):
        if (match := _SEGMENT.fullmatch(path.name[len(journal.stem) :])) is not None:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def list_closed(journal: Path, at: float) -> tuple[list[Path], int]:
    """Return the segments of *journal* closed before Unix time *at*, and their last entry."""
    with journal.open("rb") as file:
        begins = _first_seq(file.readline())
    closed = {first: path for first, path in segments(journal).items() if first < begins}
    old = list(takewhile(lambda path: path.stat().st_mtime < at, closed.values()))
    return old, [*closed, begins][len(old)] - 1


def lines_of(
    journal: Path, decode: Callable[[bytes], JournalLine[E]], place: JournalPlace, since: float = 0
) -> Iterator[JournalLine[E]]:
    """Yield the lines of *journal* from the file that contains the entry *since*, or the oldest.

    Segments that are removed during that are read to their end. Raises JournalDamaged and OSError.
    """
    with journal.open("rb", buffering=1 << 20) as file:
        # Opened before the segments are listed, so that all segments before this file exist by
        # then.
        begins = _first_seq(file.readline())
        file.seek(0)
        older = {first: path for first, path in segments(journal).items() if first < begins}
        start = max((first for first in (*older, begins) if first <= since), default=0)
        for first, path in older.items():
            if first >= start:
                place.begin_file()
                yield from _segment_lines(path, place, decode)
        place.begin_file()
        yield from follow(journal, file, place, decode)


def _segment_lines(
    path: Path, place: JournalPlace, decode: Callable[[bytes], JournalLine[E]]
) -> Iterator[JournalLine[E]]:
    number = place.lines + 1
    try:
        with gzip.open(path) as file:
            for line in follow(path, file, place, decode):
                number = place.lines + 1
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise JournalDamaged(path, number, f"cannot be unpacked ({error})") from error
    if place.torn or not place.lines:
        raise JournalDamaged(path, number, "is damaged")


def _first_seq(raw: bytes) -> int:
    """Return the number of the first entry of the line *raw*, however damaged; 1 if unreadable."""
    match = _FIRST.match(raw)
    return 1 if match is None else int(match[1])


def entries_of(path: Path, entries: Any) -> Iterator[tuple[int, float, Any]]:
    """Yield the entries of the journal *path*, of the union *entries*, with numbers and times.

    Without the entries of a torn line, and of removed segments. Raises JournalDamaged and OSError.
    """
    return _number_entries(lines_of(path, decoder(entries).decode, JournalPlace()))


def read_since(
    path: Path, entries: Any, new: type[S], since: float
) -> tuple[S, Iterator[tuple[int, float, Any]]]:
    """Return a state of the journal *path*, and the entries after it, with numbers and times.

    It is the newest stored state before the entry *since*. Raises JournalDamaged, OSError, and
    HistoryGone if the segment of that entry was removed.
    """
    lines = lines_of(path, decoder(entries).decode, JournalPlace(), since)
    first = next(lines, None)
    if first is None:
        return new(), iter(())
    if 0 < since < first.seq:
        raise HistoryGone(path)
    state = _decode_state(path, first, new) if first.state else new()
    return state, _number_entries(chain([first], lines))


class HistoryGone(Exception):
    """The requested segment of *path* was removed because of its age."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: this part was removed, because it was old")


def replay(path: Path, entries: Any, new: type[S]) -> tuple[S, float]:
    """Return the state of the journal *path*, and the time of its newest line (0: no line)."""
    state, place = new(), JournalPlace()
    for line in lines_of(path, decoder(entries).decode, place, inf):
        state = _apply_line(path, state, line)
    return state, place.at


def _apply_line(path: Path, state: S, line: JournalLine[Any]) -> S:
    """Apply *line* to *state*; return the result, or the state in the line."""
    if line.state:
        return _decode_state(path, line, type(state))
    for seq, entry in enumerate(line.entries, line.seq):
        state.apply(seq, line.at, entry)
    return state


def _number_entries(lines: Iterator[JournalLine[E]]) -> Iterator[tuple[int, float, E]]:
    for line in lines:
        for seq, entry in enumerate(line.entries, line.seq):
            yield seq, line.at, entry


def _decode_state(path: Path, line: JournalLine[Any], kind: type[S]) -> S:
    try:
        state: S = msgspec.json.decode(line.state, type=kind)
    except msgspec.DecodeError as error:
        why = f"contains an entry that this version of Elwood does not know ({error})"
        raise JournalDamaged(path, 1, why) from error
    return state


def _holds_a_line(raw: bytes) -> bool:
    """Return True if *raw* starts with a whole line, except for a damaged line break."""
    crc = raw.find(b',"crc":"')
    while crc != -1:
        end = crc + _LINE_SEAL - 1
        # One byte after it may be a line break that was damaged by the torn write.
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


class Journal(Generic[E, S]):
    """Entries of the union *entries* in the file *path*, and their fold *state*.

    *new* is the type of the state. Only one journal may be open per file, and only `stage` and
    `append` change the state. Entries are applied as they read back from their line, so a state is
    always equal to its replay. After *segment* bytes the file is closed, as soon as *may_close*
    allows it for the state.
    """

    def __init__(
        self,
        path: Path,
        entries: Any,  # a union; there is no static type for one yet
        new: type[S],
        disk: Disk,
        *,
        segment: int = SEGMENT,
        may_close: Callable[[S], bool] = lambda state: True,
    ) -> None:
        self.path = path
        self.state: S = new()
        self._new = new
        self._disk = disk
        self._entries = entries
        self._segment = segment
        self._may_close = may_close
        self._decode: Callable[[bytes], Any] = decoder(entries).decode
        self._place = JournalPlace()
        self._begins = 1
        # Size in bytes at which the file is closed.
        self._bound = segment
        self._broken: JournalBroken | None = None
        self._usable = False
        # Already in *state*; written at the head of the next line.
        self._staged: list[E] = []
        # Tasks of one actor append concurrently, but lines must not be mixed.
        self._turn = trio.Lock()
        # The task that holds the turn has written its line, and only waits for its sync.
        self._is_syncing = False

    async def open(self) -> None:
        """Read the file into *state*; cut a torn tail, and store it separately.

        All content is synced when this returns, even if a killed process left it only in memory.
        Raises JournalDamaged, JournalBroken, and DiskFull if a torn tail cannot be stored.
        """
        async with self._turn:
            self._usable = False
            self._staged = []
            if self.path.exists():
                self.state, self._place, self._begins = await self._disk.blocking(self._read)
            else:
                self.state, self._place, self._begins = self._new(), JournalPlace(), 1
            self._set_bound()
            self._broken = None
            self._usable = True
            await self._close_if_due()

    async def open_sound(self) -> Path | None:
        """Open a file with independent lines, without its damaged lines.

        If there are any, the damaged file is moved aside and its path returned. Raises
        JournalBroken, DiskFull.
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
    def size(self) -> int:
        """The size of the newest file in bytes."""
        return self._place.offset

    @property
    def head(self) -> str:
        """The digest of the newest line; empty if there is none."""
        return self._place.head

    async def look_since(
        self, since: float, read: Callable[[S, Iterator[tuple[int, float, E]]], T]
    ) -> T:
        """Return the result of *read* for a state and the entries after it (`read_since`)."""
        return await self._disk.blocking(
            lambda: read(*read_since(self.path, self._entries, self._new, since))
        )

    async def stage(self, entry: E) -> None:
        """Apply *entry* to *state*, and write it at the head of the next appended line.

        A crash before that loses it: so it must matter only together with the next line. Its time
        will be that of the line, so the fold must not use its time.
        """
        while self._turn.locked() and not self._is_syncing:
            async with self._turn:
                pass
        self._check_usable()
        seq = self._place.seq + 1 + len(self._staged)
        raw = write_line(seq, self._place.head, self._disk.clock(), (entry,))
        line = self._decode(raw)
        self.state.apply(seq, line.at, line.entries[0])
        self._staged.append(entry)

    async def append(
        self,
        *entries: E,
        last_words: bool = False,
        synced: bool = True,
        written: Callable[[], object] | None = None,
    ) -> None:
        """Record *entries* in one line, after the staged ones: all or, after a crash, none.

        They are synced, and in *state*, when this returns; if it is cancelled, neither.
        *last_words* may use the reserved space: results of actions that have already happened. If
        not *synced*, a power cut may lose them, but nothing else can. *written* is called before
        the sync, when the line survives a kill; after that a cancellation leaves the line. Raises
        DiskFull (nothing was written, the journal stays usable), JournalBroken, and
        msgspec.DecodeError for an entry that cannot be read back, which is a bug.
        """
        if not entries and not self._staged:
            return
        # Nearly always free: then the write below is the only point where other tasks may run.
        if self._turn.locked():
            await self._turn.acquire()
        else:
            self._turn.acquire_nowait()
        try:
            await self._append(entries, last_words, synced, written)
            await self._close_if_due()
        finally:
            self._turn.release()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise JournalBroken(self.path, self._broken.why)
        if not self._usable:
            raise RuntimeError(f"{self.path} is not open")

    async def _append(
        self,
        entries: tuple[E, ...],
        last_words: bool,
        synced: bool,
        written: Callable[[], object] | None,
    ) -> None:
        self._check_usable()
        place = self._place
        staged = len(self._staged)
        entries = (*self._staged, *entries)
        raw = write_line(place.seq + 1, place.head, self._disk.clock(), entries)
        line = self._decode(raw)
        at, append = place.offset, partial(self._disk.append, last_words=last_words)
        # A power cut leaves a prefix: pages are synced one after another.
        synced = synced or at // PAGE != (at + len(raw)) // PAGE
        # A line without a wait is written here: a thread costs five times as much.
        is_quick = at > 0 and self._disk.is_ready
        is_ahead = synced and is_quick and written is not None
        try:
            if is_quick and (is_ahead or not synced):
                append(self.path, raw, at=at, synced=False)
            else:
                await self._disk.blocking(partial(append, self.path, raw, at=at, synced=synced))
        except JournalBroken as error:
            self._broken = error
            raise
        place.advance(raw, len(entries), line.at)
        self._staged = []
        for seq, entry in enumerate(line.entries[staged:], line.seq + staged):
            self.state.apply(seq, line.at, entry)
        if written is not None:
            written()
        if is_ahead:
            await self._sync()

    async def _sync(self) -> None:
        self._is_syncing = True
        try:
            await self._disk.blocking(partial(self._disk.sync, self.path))
        except JournalBroken as error:
            self._broken = error
            raise
        finally:
            self._is_syncing = False

    def _set_bound(self) -> None:
        place = self._place
        self._bound = place.carried + max(self._segment, place.carried)

    async def _close_if_due(self) -> None:
        if self._place.offset < self._bound or not self._may_close(self.state):
            return
        what = f"closing {self.path.name}"
        # The entries are written and applied: a cancellation now must not deny that.
        with trio.CancelScope(shield=True):
            try:
                await self._disk.blocking(self._close)
            except (DiskFull, JournalDamaged) as error:
                report_error(what, str(error))
                # Retried when it has grown by the same amount again.
                self._bound = self._place.offset + self._segment
            except JournalBroken as error:
                self._broken = error
                raise
            else:
                clear_error(what)
                self._set_bound()

    def _close(self) -> None:
        """Pack the file, and replace it with a new file that begins with the state.

        A crash between the two leaves a segment that begins where the file does; it is not read.
        """
        with convert_errors(self.path):
            packed = self.path.read_bytes()
        place = JournalPlace()
        for _ in follow(self.path, io.BytesIO(packed), place, _raw_decode):
            pass
        if place.head != self._place.head:
            raise JournalDamaged(self.path, place.lines, "differs from the last written line")
        first = segment_of(self.path, self._begins)
        self._disk.replace(first, gzip.compress(packed, mtime=0))
        seq = place.seq + 1
        # Its time is that of the newest entry: nothing has happened since.
        raw = write_line(seq, place.head, place.at, (), self.state)
        self._disk.replace(self.path, raw)
        place.begin_file()
        place.advance(raw, 0, place.at)
        place.carried = len(raw)
        self._place, self._begins = place, seq

    def _read(self) -> tuple[S, JournalPlace, int]:
        state, place, begins = self._new(), JournalPlace(), 0
        self._disk.remove(temporary(self.path))
        with convert_errors(self.path), self.path.open("rb", buffering=1 << 20) as file:
            for line in follow(self.path, file, place, self._decode):
                begins = begins or line.seq
                state = _apply_line(self.path, state, line)
        if place.torn:
            if not place.offset and segments(self.path):
                # The first line of a closed log was written in one piece.
                raise JournalDamaged(self.path, 1, "is damaged")
            name = f"{self.path.name}.torn-{self._disk.clock():.0f}"
            self._disk.set_aside(self.path.with_name(name), place.torn)
            self._disk.truncate_file(self.path, place.offset)
            place.torn = b""
        self._disk.sync_content(self.path)
        return state, place, begins or 1

    def _keep_sound(self) -> Path:
        with convert_errors(self.path):
            damaged = self.path.read_bytes()
        name = f"{self.path.name}.damaged-{self._disk.clock():.0f}"
        aside = self._disk.set_aside(self.path.with_name(name), damaged)
        lines = []
        for raw in filter(is_sound, damaged.splitlines(keepends=True)):
            with suppress(msgspec.DecodeError):
                lines.append(self._decode(raw))
        place, sound = JournalPlace(), []
        carried: object = None
        if lines and lines[0].state:
            first = lines[0]
            carried, place.seq, place.head = first.state, first.seq - 1, first.prev
            place.at = first.at
        elif closed := segments(self.path):
            # The file began with the state after its newest segment.
            state = self._new()
            with suppress(JournalDamaged):
                for line in _segment_lines([*closed.values()][-1], place, self._decode):
                    state = _apply_line(self.path, state, line)
            carried = state
        if carried is not None:
            sound.append(write_line(place.seq + 1, place.head, place.at, (), carried))
            place.advance(sound[0], 0, place.at)
        for line in lines:
            if line.entries:
                sound.append(write_line(place.seq + 1, place.head, line.at, line.entries))
                place.advance(sound[-1], len(line.entries), line.at)
        self._disk.replace(self.path, b"".join(sound))
        return aside


_raw_decode = decoder(msgspec.Raw).decode


class Verified(msgspec.Struct, frozen=True):
    """The result of verifying a whole chain."""

    entries: int
    lines: int
    first: float | None  # Unix time
    last: float | None  # Unix time
    head: str  # digest of the last line
    torn: int  # bytes at the end that were never acknowledged
    gone: int = 0  # number of the first entries that were removed
    # digests of lines that end with the wanted entries; an earlier copy shows removals at the end
    heads: frozenset[tuple[int, str]] = frozenset()


def verify(path: Path, wanted: Container[int] = ()) -> Verified:
    """Verify from the files that no part of the journal *path* was edited, moved or removed.

    Reads everything and changes nothing. It cannot detect missing lines at the end, missing
    segments at the beginning, or a completely rewritten chain; compare the heads after the entries
    *wanted* for that (`anchors`). Raises JournalDamaged and OSError.
    """
    place, heads = JournalPlace(), set[tuple[int, str]]()
    first: JournalLine[msgspec.Raw] | None = None
    lines = 0
    for line in lines_of(path, _raw_decode, place):
        first = first or line
        lines += 1
        if place.seq in wanted:
            heads.add((place.seq, place.head))
    gone = 0 if first is None else first.seq - 1
    return Verified(
        entries=place.seq - gone,
        lines=lines,
        first=None if first is None else first.at,
        last=None if first is None else place.at,
        head=place.head,
        torn=len(place.torn),
        gone=gone,
        heads=frozenset(heads),
    )
