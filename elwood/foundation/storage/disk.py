"""Files that survive a power cut: appended, replaced, cut; a full disk; a folder held alone.

Everything here blocks: an actor calls it through ``Disk.blocking``.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from elwood.foundation.runtime import Blocking, Halt, clear_error, report_error


class Space(msgspec.Struct, frozen=True):
    """Bytes of a file system that are in use, and that we could still write."""

    used: int
    free: int

    @property
    def percent(self) -> float:
        """How much is in use, as df(1) reckons: what only root could write is no room."""
        return 100 * self.used / max(1, self.used + self.free)


def warning(spaces: Mapping[str, Space], low: float, full: float) -> str:
    """Say on which disks, by what lies there, is little room; empty while there is enough.

    *low* and *full* are per cent in use: from the one on the owner is told, from the other on no
    new work is taken.

    >>> warning({"the state": Space(92, 8)}, 90, 95), warning({"the state": Space(50, 50)}, 90, 95)
    ('more than 90 % of the disk with the state is in use; at 95 % I take no new work', '')
    """
    where = _fuller(spaces, low)
    return f"{where}; at {full:g} % I take no new work" if where else ""


def refusal(spaces: Mapping[str, Space], full: float) -> str:
    """Say why no new work is taken; empty if it is.

    >>> refusal({"the state": Space(50, 50), "the workspace": Space(97, 3)}, 95).partition(":")[0]
    'more than 95 % of the disk with the workspace is in use'
    >>> refusal({"the state": Space(92, 8)}, 95)
    ''
    """
    where = _fuller(spaces, full)
    return f"{where}: I take no new work until there is room again" if where else ""


def _fuller(spaces: Mapping[str, Space], percent: float) -> str:
    names = [name for name, space in spaces.items() if space.percent >= percent]
    return (
        f"more than {percent:g} % of the disk with {' and '.join(names)} is in use" if names else ""
    )


# No room, whoever set the limit: the disk, a quota, or RLIMIT_FSIZE.
FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# File systems that cannot set space aside say one of these.
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
# After these nobody knows what the disk holds; anything else left it as it was.
LOST = frozenset({errno.EIO, errno.EROFS, errno.ENOENT, errno.ESTALE, errno.EUCLEAN})


class DiskFull(Exception):
    """There is no room for *path*, and nothing was written to it; the operator must make room.

    The file is whole and stays usable.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"no room on the disk to write {path}; free some space")
        self.path = path


async def write_or_report(what: str, write: Awaitable[object]) -> bool:
    """Wait for *write*; return False if the disk is full, and report that as a failure of *what*.

    The report is cleared by the next write that succeeds.
    """
    try:
        await write
    except DiskFull as error:
        report_error(what, str(error))
        return False
    clear_error(what)
    return True


class JournalBroken(Halt):
    """The disk failed under *path*: what it holds is unknown until it is read anew.

    After a failed fsync the kernel may take lost pages for written ones, so going on, or
    trying again, would be a lie (CP-33).
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}; stopping, because what is on the disk is unknown")
        self.path = path
        self.why = why


class Calls:
    """The system calls about a disk; tests put recording or failing ones in their place."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """Open *path*, which is made for us alone; a file is never reached by a link.

        Folders may be: systemd makes the state folder one (``DynamicUser=``).
        """
        if not flags & os.O_DIRECTORY:
            flags |= os.O_NOFOLLOW
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def space(self, folder: Path) -> Space:
        """Ask the file system of *folder* how full it is."""
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return Space(used, found.f_bavail * found.f_frsize)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Make sure that *size* bytes have their place on the disk."""
        os.posix_fallocate(fd, 0, size)

    def sync(self, fd: int) -> None:
        """Wait until the file, or the folder, is on the disk."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        os.mkdir(path, mode)


@contextmanager
def judged(path: Path) -> Iterator[None]:
    """Turn the errors of the block into DiskFull and JournalBroken, about *path*.

    Others (no descriptors left, no rights) pass: nothing was changed, and a restart of the actor
    may help.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL_ERRORS:
            raise DiskFull(path) from error
        if error.errno in LOST:
            raise JournalBroken(path, str(error.strerror)) from error
        raise


@contextmanager
def fatal(path: Path, what: str) -> Iterator[None]:
    """Turn every error of the block into JournalBroken: *what* failed."""
    try:
        yield
    except OSError as error:
        raise JournalBroken(path, f"{what} failed: {error.strerror}") from error


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

    def append(self, path: Path, data: bytes, *, at: int, last_words: bool, synced: bool) -> None:
        """Append *data* to *path*, which has *at* bytes, by one write, and sync it.

        A new file (*at* is 0) is made, with its folder, and the folder synced.  *last_words* may
        use the reserve.  What is not *synced* survives a kill, but perhaps no power cut.
        """
        if not last_words:
            self._need_reserve(path)
        if at == 0:
            self.make_folder(path.parent)
        try:
            self._append(path, data, at, synced)
        except DiskFull:
            if not last_words:
                raise
            self._spend_reserve()
            self._append(path, data, at, synced)
        if at == 0:
            self._sync_folder(path)

    def sync(self, path: Path) -> None:
        """Wait until what was appended to *path* is on the disk."""
        with self._opened(path, os.O_RDONLY) as fd:
            self._sync(fd, path)

    @property
    def is_ready(self) -> bool:
        """Whether an append that is not synced takes no longer than its system calls."""
        return self._reserved or self._reserve is None

    def make_empty(self, paths: Sequence[Path]) -> None:
        """Make those of the empty files *paths*, all in one folder, that are not there."""
        missing = [path for path in paths if not path.exists()]
        if not missing:
            return
        self._need_reserve(missing[0])
        self.make_folder(missing[0].parent)
        for path in missing:
            with self._opened(path, os.O_WRONLY | os.O_CREAT):
                pass
        self._sync_folder(missing[0])

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
        while kept.exists():
            number += 1
            kept = path.with_name(f"{path.name}-{number}")
        try:
            self._write_new(kept, data)
        except DiskFull:
            self.remove(kept)
            self._spend_reserve()
            self._write_new(kept, data)
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
        self.sync(path)
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

    def _spend_reserve(self) -> None:
        if self._reserve is None:
            return
        with self._at_reserve:
            self._reserved = False
            with self._opened(self._reserve, os.O_WRONLY | os.O_CREAT) as fd:
                self._truncate(fd, self._reserve, 0)


def sync_folder(folder: Path) -> None:
    """Wait until the names in *folder* are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temporary(path: Path) -> Path:
    """Name the file that `Disk.replace` writes before it takes the place of *path*."""
    return path.with_name(f".{path.name}.tmp")


class AlreadyRunning(Exception):
    """Another process uses the state folder; the operator must stop one of them.

    *pid* is None if it did not have the time to say who it is.
    """

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{who} already uses the state folder {folder}; stop it, or give this one "
            f"another folder"
        )
        self.pid = pid


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold the state folder *folder*, which must exist, as long as the block runs.

    The kernel releases it when the process ends, however it ends; the file ``lock`` stays and
    holds the id of the last process that had it.  Raises AlreadyRunning; OSError where the file
    system knows no locks.
    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(folder, _pid(fd)) from error
        except OSError as error:
            if error.errno == errno.ENOLCK:
                error.add_note(f"{folder} is on a file system without locks; use a local disk")
            raise
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(fd)


def _pid(fd: int) -> int | None:
    text = os.read(fd, 20).strip()
    return int(text) if text.isdigit() else None
