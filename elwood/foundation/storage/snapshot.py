"""A journal's state at some line: saves the replay of what stands before it.

A snapshot is only a shortcut: if anything about it is in doubt, it is ignored and the whole journal
is read.
"""

import hashlib
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, get_args, get_type_hints

import attrs
import msgspec

from elwood import __version__
from elwood.foundation.storage.chain import Place, digest

# ,"checksum":"<64 hex digits>"}
_SEAL = 79


class Snapshot(msgspec.Struct, frozen=True):
    """The *state* after entry *seq*; the line of that entry ends at the byte *offset*.

    *hash* is that line's digest; *length*, *lines* and *at* are as in `Place`.  *shape* names the
    type of the state.
    """

    seq: int
    lines: int
    offset: int
    length: int
    hash: str
    at: float
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
        if isinstance(part, type) and part not in found and is_record(part):
            hints = get_type_hints(part, include_extras=True)
            found[part] = f"{part.__module__}.{part.__qualname__}{hints}"
            todo.extend(hints.values())
    known = "\n".join([__version__, *sorted(found.values())])
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def is_record(kind: type) -> bool:
    """Tell whether *kind* is a class whose fields msgspec reads and writes."""
    return issubclass(kind, msgspec.Struct) or attrs.has(kind) or is_dataclass(kind)


def take(state: object, shape: str, place: Place) -> bytes:
    """Make the snapshot file of *state*, which is what the journal adds up to at *place*."""
    snapshot = Snapshot(
        seq=place.seq,
        lines=place.lines,
        offset=place.offset,
        length=place.length,
        hash=place.head,
        at=place.at,
        shape=shape,
        state=msgspec.Raw(msgspec.json.encode(state)),
    )
    body = msgspec.json.encode(snapshot)[:-1]
    return b'%b,"checksum":"%b"}' % (body, hashlib.sha256(body).hexdigest().encode())


def load(path: Path) -> Snapshot | None:
    """Read a snapshot; None if there is none, or none that is whole."""
    try:
        sealed = path.read_bytes()
    except FileNotFoundError:
        return None
    body = sealed[:-_SEAL]
    if sealed[-_SEAL:] != b',"checksum":"%b"}' % hashlib.sha256(body).hexdigest().encode():
        return None
    try:
        return msgspec.json.decode(sealed, type=Snapshot)
    except msgspec.DecodeError:
        return None


def place_of(snapshot: Snapshot) -> Place:
    """Say where in its journal *snapshot* was taken."""
    return Place(
        seq=snapshot.seq,
        lines=snapshot.lines,
        offset=snapshot.offset,
        length=snapshot.length,
        head=snapshot.hash,
        at=snapshot.at,
    )


def belongs(snapshot: Snapshot, file: BinaryIO) -> bool:
    """Tell whether the line at which *snapshot* was taken stands in the journal *file*."""
    start = snapshot.offset - snapshot.length
    if start < 0:
        return False
    file.seek(start)
    line = file.read(snapshot.length)
    return line.endswith(b"\n") and digest(line) == snapshot.hash
