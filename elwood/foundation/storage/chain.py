"""The line format of a journal: JSON, checked by a CRC, chained by SHA-256.

::

    {"seq": 7, "prev": "<hash of the line before>", "at": 1.5, "entries": [...], "crc": "0a1b2c3d"}

*seq* numbers the first entry of the line, from 1; *prev* is empty in the first line; *crc* covers
what stands before it.  The chain shows every edit, removal and exchange, except that the last lines
were taken away: compare the head with one noted earlier for that.
"""

import hashlib
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import attrs
import msgspec

E = TypeVar("E")

# ,"crc":"xxxxxxxx"}\n
_SEAL = 19
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
    r"""Make the line that records *entries*, with its newline.

    >>> write_line(1, "", 0.5, ("hello",))
    b'{"seq":1,"prev":"","at":0.5,"entries":["hello"],"crc":"c159ac1e"}\n'
    """
    body = _encoder.encode(_Unsealed(seq, prev, at, entries))[:-1]
    if b"\n" in body:
        # Only raw JSON of others can hold one, as white space: strings have it escaped.
        body = body.replace(b"\n", b" ")
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def is_sound(line: bytes) -> bool:
    r"""Tell whether *line* is as it was written, and to its end.

    >>> line = write_line(1, "", 0.5, ("hello",))
    >>> is_sound(line), is_sound(line[:-1]), is_sound(line.replace(b"hello", b"jello"))
    (True, False, False)
    """
    crc = zlib.crc32(line[:-_SEAL]) if len(line) > _SEAL else 0
    return line[-_SEAL:] == b',"crc":"%08x"}\n' % crc


def digest(line: bytes) -> str:
    r"""Name *line*, newline included, for the *prev* of the next one.

    >>> digest(b"{}\n")[:8]
    'ca3d163b'
    """
    return hashlib.sha256(line).hexdigest()


@cache
def decoder(entries: Any) -> msgspec.json.Decoder[JournalLine[Any]]:
    """Make the decoder for lines of the type *entries*, once per type."""
    return msgspec.json.Decoder(JournalLine[entries])


@attrs.define
class JournalPlace:
    """How far a journal was followed: the last entry's *seq*, and where its line stands.

    *lines* counts lines, *offset* is the byte behind the last one, *length* that line's size in
    bytes, *head* its digest, *at* its Unix time.
    """

    seq: int = 0
    lines: int = 0
    offset: int = 0
    length: int = 0
    head: str = ""
    at: float = 0.0

    def after(self, raw: bytes, count: int, at: float) -> "JournalPlace":
        """The place behind the line *raw*, which has *count* entries and was written *at*."""
        size = len(raw)
        return JournalPlace(
            self.seq + count, self.lines + 1, self.offset + size, size, digest(raw), at
        )


class Unsound(Exception):
    """Line *line* is not what was written there, and cannot be a write that was cut off."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


def follow(
    file: BinaryIO, place: JournalPlace, decode: Callable[[bytes], JournalLine[E]]
) -> Generator[JournalLine[E], None, bytes]:
    """Yield the lines of *file* from *place* on, which moves along; return the torn tail, if any.

    A tail is torn if a write that never ended can have left it: no more than one line, without
    its end, or with holes.  Anything else raises Unsound.
    """
    for raw in file:
        if not is_sound(raw):
            if file.read(1):
                raise Unsound(place.lines + 1, "is damaged, and more lines follow it")
            if raw.endswith(b"\n") and _is_json(raw):
                raise Unsound(place.lines + 1, "was changed after it was written")
            if _holds_a_line(raw):
                raise Unsound(place.lines + 1, "was whole once, and more stands behind it")
            return raw
        try:
            line = decode(raw)
        except msgspec.DecodeError as error:
            why = f"holds what this version of Elwood does not know ({error})"
            raise Unsound(place.lines + 1, why) from error
        if line.prev != place.head or line.seq != place.seq + 1:
            why = (
                f"does not follow the one before it: lines are missing or were moved "
                f"(entry {line.seq} stands where {place.seq + 1} belongs)"
            )
            raise Unsound(place.lines + 1, why)
        place.seq += len(line.entries)
        place.lines += 1
        place.length = len(raw)
        place.offset += place.length
        place.head = digest(raw)
        place.at = line.at
        yield line
    return b""


def entries_of(path: Path, entries: Any) -> Iterator[tuple[int, float, Any]]:
    """Yield the entries of the journal *path*, of the union *entries*, with numbers and times.

    What was not written to its end is left out.  Raises Unsound and OSError.
    """
    with path.open("rb", buffering=1 << 20) as file:
        for line in follow(file, JournalPlace(), decoder(entries).decode):
            for seq, entry in enumerate(line.entries, line.seq):
                yield seq, line.at, entry


def _holds_a_line(raw: bytes) -> bool:
    """Tell whether *raw* starts with a whole line, but for a line break that was damaged."""
    crc = raw.find(b',"crc":"')
    while crc != -1:
        end = crc + _SEAL - 1
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
