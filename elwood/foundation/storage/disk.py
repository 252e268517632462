"""Files that survive a power cut: appended, replaced, cut (reliability.md §2).

Everything here blocks: an actor calls it through ``Disk.blocking``.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.syscalls import (
    UNSUPPORTED,
    Calls,
    DiskFull,
    JournalBroken,
    fatal,
    judged,
)

# Bytes of a page: what a disk writes as one.
PAGE = 4096
# Held back so that "the disk is full" and the results of calls under way can still be written.
RESERVE = 1 << 20


class Disk:
    """Appends, replaces and cuts files so that what it returned from survives a power cut.

    Raises DiskFull when there was no room (nothing happened) and JournalBroken when the disk
    failed.  While *reserve* is not whole, ordinary writes are refused: the space it gave up
    belongs to the last words of others.
    """

    def __init__(
        self,
        *,
        blocking: Blocking,
        clock: Callable[[], float],
        reserve: Path | None = None,
        calls: Calls | None = None,
    ) -> None:
        self.blocking = blocking
        self.clock = clock
        self._calls = calls or Calls()
        self._reserve = reserve
        self._reserved = reserve is None
        self._durable: set[Path] = set()
        # Worker threads of several journals may meet at the reserve.
        self._at_reserve = threading.Lock()

    def append(
        self, path: Path, data: bytes, *, at: int, last_words: bool = False, synced: bool = True
    ) -> None:
        """Append *data* to *path*, which has *at* bytes, by one write, and sync it.

        A new file (*at* is 0) is made, with its folder, and the folder synced.  *last_words* may
        use the reserve.  What is not *synced* survives a kill, but perhaps no power cut; since it
        is synced at the end of each page, what a power cut leaves is a beginning of it.
        """
        synced = synced or at // PAGE != (at + len(data)) // PAGE
        if not last_words:
            self._need_reserve(path)
        if at == 0:
            self.make_folder(path.parent)
        try:
            self._append(path, data, at, synced)
        except DiskFull:
            if not last_words or self._reserve is None:
                raise
            self._spend_reserve(self._reserve)
            self._append(path, data, at, synced)
        if at == 0:
            self._sync_folder(path)

    def replace(self, path: Path, data: bytes) -> None:
        """Put a file with *data* in the place of *path*: after a crash it is the old or the new."""
        self._need_reserve(path)
        temp = temporary(path)
        try:
            with self._opened(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                self._write_all(fd, temp, data)
                self._sync(fd, temp)
        except DiskFull:
            self.remove(temp)
            raise
        with judged(path):
            self._calls.rename(temp, path)
        self._sync_folder(path)

    def set_aside(self, path: Path, data: bytes) -> Path:
        """Keep *data* in a new file named *path*, or like it if that is taken; return its path.

        May use the reserve: a torn tail must be kept before a full disk can be written again.
        """
        number, kept = 1, path
        while True:
            try:
                self._write_new(kept, data)
            except FileExistsError:
                number += 1
                kept = path.with_name(f"{path.name}-{number}")
            except DiskFull:
                self.remove(kept)
                if self._reserve is None:
                    raise
                self._spend_reserve(self._reserve)
                self._write_new(kept, data)
                break
            else:
                break
        self._sync_folder(kept)
        return kept

    def cut(self, path: Path, size: int) -> None:
        """Cut *path* to *size* bytes, on the disk."""
        with self._opened(path, os.O_WRONLY) as fd:
            self._truncate(fd, path, size)
            self._sync(fd, path)

    def settle(self, path: Path) -> None:
        """Make what can be read in *path* now survive a power cut.

        A process that was killed may have left bytes that are in the kernel's memory only.
        """
        with self._opened(path, os.O_RDONLY) as fd:
            self._sync(fd, path)
        self._sync_folder(path)

    def remove(self, path: Path, *, durably: bool = False) -> None:
        """Remove *path*, if it is there; unless *durably*, a power cut may bring it back."""
        with judged(path), suppress(FileNotFoundError):
            self._calls.unlink(path)
        if durably and path.parent.is_dir():
            self._sync_folder(path)

    def make_folder(self, path: Path) -> None:
        """Make the folder *path* and those above it, so that they survive a power cut."""
        is_there = path.is_dir()
        if is_there and path in self._durable:
            return
        if not is_there:
            self.make_folder(path.parent)
            with judged(path), suppress(FileExistsError):
                self._calls.mkdir(path)
        # Also when it was there: who made it may have been killed before the next line.  Where
        # we have no rights we made nothing.
        with suppress(PermissionError):
            self._sync_folder(path)
        self._durable.add(path)

    def _append(self, path: Path, data: bytes, at: int, synced: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT if at == 0 else 0)
        with self._opened(path, flags) as fd:
            size = os.fstat(fd).st_size
            if size != at:
                why = f"it has {size} bytes where {at} were left: somebody else writes to it"
                raise JournalBroken(path, why)
            try:
                with judged(path):
                    whole = self._calls.write(fd, data) == len(data)
            except DiskFull:
                whole = False
            if not whole:
                if os.fstat(fd).st_size != at:
                    self._truncate(fd, path, at)
                raise DiskFull(path)
            if synced or at == 0:
                self._sync(fd, path)

    def _write_new(self, path: Path, data: bytes) -> None:
        with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
            self._write_all(fd, path, data)
            self._sync(fd, path)

    @contextmanager
    def _opened(self, path: Path, flags: int) -> Iterator[int]:
        with judged(path):
            fd = self._calls.open(path, flags)
        try:
            yield fd
        finally:
            self._calls.close(fd)

    def _write_all(self, fd: int, path: Path, data: bytes) -> None:
        with judged(path):
            while data:
                data = data[self._calls.write(fd, data) :]

    def _truncate(self, fd: int, path: Path, size: int) -> None:
        with fatal(path, f"cutting it to {size} bytes"):
            self._calls.truncate(fd, size)

    def _sync(self, fd: int, path: Path) -> None:
        with fatal(path, "fsync"):
            self._calls.sync(fd)

    def _sync_folder(self, path: Path) -> None:
        with self._opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as fd:
            self._sync(fd, path.parent)

    def _need_reserve(self, path: Path) -> None:
        if self._reserved or self._reserve is None:
            return
        with self._at_reserve:
            self._reserved = self._make_reserve(self._reserve)
        if not self._reserved:
            raise DiskFull(path)

    def _make_reserve(self, reserve: Path) -> bool:
        self.make_folder(reserve.parent)
        with self._opened(reserve, os.O_WRONLY | os.O_CREAT) as fd:
            try:
                with judged(reserve):
                    self._calls.allocate(fd, RESERVE)
            except DiskFull:
                self._truncate(fd, reserve, 0)
                return False
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
        return True

    def _spend_reserve(self, reserve: Path) -> None:
        with self._at_reserve:
            self._reserved = False
            with self._opened(reserve, os.O_WRONLY | os.O_CREAT) as fd:
                self._truncate(fd, reserve, 0)


def temporary(path: Path) -> Path:
    """Name the file that `Disk.replace` writes before it takes the place of *path*."""
    return path.with_name(f".{path.name}.tmp")
