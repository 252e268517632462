"""What was written last, so that it can be taken back; and what must not be learned again.

Two small files beside the notes.  Everything here blocks.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from elwood.features.memory.learning import digests
from elwood.features.memory.note import Note, parse
from elwood.foundation.storage.disk import Disk, judged

# Batches that can be taken back, and bytes of what stood there before them.
MAX_BATCHES = 10
MAX_BEFORE = 4 << 20
# Notes whose return is watched for, each by two hashes; the oldest are let go.
MAX_FORGOTTEN = 20_000


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
    """The newest batches, in the file *path*; what cannot be read there is as good as none."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def read(self) -> list[UndoBatch]:
        """List them, the newest last.  Raises DiskFull, JournalBroken."""
        try:
            return msgspec.json.decode(_read(self._path), type=list[UndoBatch])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []

    def add(self, batch: UndoBatch) -> None:
        """Note *batch* before it is written; one of the same id is continued.

        Raises DiskFull, JournalBroken.
        """
        batches = self.read()
        if batch.id and batches and batches[-1].id == batch.id:
            last = batches.pop()
            first = {write.key: write.before for write in reversed(last.writes)}
            writes = tuple(
                msgspec.structs.replace(w, before=first.get(w.key, w.before)) for w in batch.writes
            )
            again = {write.key for write in writes}
            kept = tuple(write for write in last.writes if write.key not in again)
            batch = msgspec.structs.replace(batch, writes=kept + writes)
        self._write([*batches, batch])

    def pop(self) -> None:
        """Let go of the newest one.  Raises DiskFull, JournalBroken."""
        self._write(self.read()[:-1])

    def forget(self, keys: Collection[str], said: Collection[str]) -> None:
        """Let go of what these notes were, or was seen of them, and of whatever said the same.

        *said* are hashes (`said_hash`).  Raises DiskFull, JournalBroken.
        """

        def is_kept(write: NoteWrite) -> bool:
            if write.key in keys:
                return False
            if write.before is None:
                return True
            before = parse(write.key, write.before.decode("utf-8", "replace"))
            return before.subject not in keys and said_hash(before) not in said

        batches = self.read()
        left = [
            msgspec.structs.replace(batch, writes=tuple(filter(is_kept, batch.writes)))
            for batch in batches
        ]
        if left != batches:
            self._write([batch for batch in left if batch.writes])
        self._disk.remove(self._path.with_name(f".{self._path.name}.tmp"))

    def _write(self, batches: list[UndoBatch]) -> None:
        del batches[:-MAX_BATCHES]
        while len(batches) > 1 and sum(map(_size, batches)) > MAX_BEFORE:
            del batches[0]
        self._disk.replace(self._path, msgspec.json.encode(batches))


class Tombstones:
    """Hashes of what was forgotten, in the file *path*: salted, and nothing else of it."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    def buried(self, hashes: Iterable[str]) -> frozenset[str]:
        """Tell which of *hashes* (`learning.digests`) are here."""
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
    """Name the content of a file."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(path: Path) -> bytes:
    """Read a file that may be missing; what cannot be read now must not be taken for nothing."""
    with judged(path), suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _mark(salt: str, hash_: str) -> str:
    # Salted, as the hashes alone could be guessed.
    key = salt.encode()[:64]
    return hashlib.blake2b(hash_.encode(), digest_size=16, key=key).hexdigest()


def _size(batch: UndoBatch) -> int:
    return sum(len(write.before or b"") for write in batch.writes)
