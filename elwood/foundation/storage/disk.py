"""Files that survive a power cut: append, replace, cut; a full disk; a lock on a folder.

All functions block: an actor calls them through ``Disk.blocking``.
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
    """Used bytes of a file system, and bytes that Elwood could still write."""

    used: int
    free: int

    @property
    def percent(self) -> float:
        """Use in per cent, as in df(1): space reserved for root does not count."""
        return 100 * self.used / max(1, self.used + self.free)


def describe_room(spaces: Mapping[str, Space], low: float, full: float) -> str:
    """Return a warning about disks with little room, by their content; "" if there is enough.

    *low* and *full* are per cent in use: the owner is warned from *low* on; no new work is accepted
    from *full* on.

    >>> describe_room({"the state": Space(92, 8)}, 90, 95)
    'more than 90 % of the disk with the state is in use; at 95 % I stop taking new work'
    >>> describe_room({"the state": Space(50, 50)}, 90, 95)
    ''
    """
    where = _fuller(spaces, low)
    return f"{where}; at {full:g} % I stop taking new work" if where else ""


def refusal(spaces: Mapping[str, Space], full: float) -> str:
    """Return the reason why no new work is accepted; "" if it is.

    >>> refusal({"the state": Space(50, 50), "the workspace": Space(97, 3)}, 95).partition(":")[0]
    'more than 95 % of the disk with the workspace is in use'
    >>> refusal({"the state": Space(92, 8)}, 95)
    ''
    """
    where = _fuller(spaces, full)
    return f"{where}: I take no new work until there is space again" if where else ""


def _fuller(spaces: Mapping[str, Space], percent: float) -> str:
    names = [name for name, space in spaces.items() if space.percent >= percent]
    return (
        f"more than {percent:g} % of the disk with {' and '.join(names)} is in use" if names else ""
    )


# No room, for any reason: the disk, a quota, or RLIMIT_FSIZE.
FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# Errors of file systems that cannot reserve space.
UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
# After these the content of the disk is unknown; after other errors it is unchanged.
LOST = frozenset({errno.EIO, errno.EROFS, errno.ENOENT, errno.ESTALE, errno.EUCLEAN})


class DiskFull(Exception):
    """There is no room for *path*, and nothing was written to it; the operator must free space.

    The file is intact and stays usable.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"no space on the disk to write {path}; free some space")
        self.path = path


async def write_or_report(what: str, write: Awaitable[object]) -> bool:
    """Await *write*; if the disk is full, report that as a failure of *what* and return False.

    The next successful write clears the report.
    """
    try:
        await write
    except DiskFull as error:
        report_error(what, str(error))
        return False
    clear_error(what)
    return True


class JournalBroken(Halt):
    """The disk failed under *path*: its content is unknown until it is read again.

    After a failed fsync the kernel may treat lost pages as written, so it is unsafe to continue or
    to retry (CP-33).
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}; stopping, because the state of the disk is unknown")
        self.path = path
        self.why = why


class Calls:
    """The system calls for a disk; tests replace them with recording or failing ones."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """Open *path*; new files are private. A link to a file is never followed.

        Folders may be links: systemd makes the state folder one (``DynamicUser=``).
        """
        if not flags & os.O_DIRECTORY:
            flags |= os.O_NOFOLLOW
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def space(self, folder: Path) -> Space:
        """Return the use of the file system of *folder*."""
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return Space(used, found.f_bavail * found.f_frsize)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Allocate *size* bytes on the disk."""
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
def convert_errors(path: Path) -> Iterator[None]:
    """Convert the errors of the block to DiskFull and JournalBroken, about *path*.

    Others (no descriptors left, no permission) pass: nothing was changed, and a restart of the
    actor may help.
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
    """Convert every error of the block to JournalBroken: *what* failed."""
    try:
        yield
    except OSError as error:
        raise JournalBroken(path, f"{what} failed: {error.strerror}") from error


# Bytes of a page, which a disk writes as one.
PAGE = 4096
# Reserved so that "the disk is full" and the results of running calls can still be written.
RESERVE = 1 << 20


class Disk:
    """Appends, replaces and cuts files; completed operations survive a power cut.

    Raises DiskFull if there was no room (nothing happened) and JournalBroken if the disk failed.
    While *reserve* is not complete, ordinary writes are refused: the space is left for the last
    words of others.
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
        # Worker threads of several journals may use the reserve concurrently.
        self._at_reserve = threading.Lock()

    def append(self, path: Path, data: bytes, *, at: int, last_words: bool, synced: bool) -> None:
        """Append *data* to *path*, which has *at* bytes, in one write, and sync it.

        A new file (*at* is 0) is created with its folder, and the folder synced. *last_words* may
        use the reserve. Without *synced*, the data survives a kill, but perhaps not a power cut.
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
        """Wait until all appended data of *path* is on the disk."""
        with self._opened(path, os.O_RDONLY) as fd:
            self._sync(fd, path)

    @property
    def is_ready(self) -> bool:
        """Whether an append without sync takes no longer than its system calls."""
        return self._reserved or self._reserve is None

    def make_empty(self, paths: Sequence[Path]) -> None:
        """Create the missing ones of the empty files *paths*, all in one folder."""
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
        """Replace *path* with a file of *data*: after a crash it is the old or the new one."""
        self._need_reserve(path)
        temp = temporary(path)
        try:
            with self._opened(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                self._write_all(fd, temp, data)
                self._sync(fd, temp)
        except DiskFull:
            self.remove(temp)
            raise
        with convert_errors(path):
            self._calls.rename(temp, path)
        self._sync_folder(path)

    def set_aside(self, path: Path, data: bytes) -> Path:
        """Store *data* in a new file *path*, with a number if that exists; return its path.

        May use the reserve: a torn tail must be stored before a full disk can be written again.
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

    def truncate_file(self, path: Path, size: int) -> None:
        """Cut *path* to *size* bytes, and sync it."""
        with self._opened(path, os.O_WRONLY) as fd:
            self._truncate(fd, path, size)
            self._sync(fd, path)

    def sync_content(self, path: Path) -> None:
        """Make the present content of *path* survive a power cut.

        A killed process may have left bytes that are only in the kernel's memory.
        """
        self.sync(path)
        self._sync_folder(path)

    def remove(self, path: Path, *, durably: bool = False) -> None:
        """Remove *path*, if it exists; unless *durably*, a power cut may restore it."""
        with convert_errors(path), suppress(FileNotFoundError):
            self._calls.unlink(path)
        if durably and path.parent.is_dir():
            self._sync_folder(path)

    def make_folder(self, path: Path) -> None:
        """Create the folder *path* and its parents, so that they survive a power cut."""
        is_there = path.is_dir()
        if is_there and path in self._durable:
            return
        if not is_there:
            self.make_folder(path.parent)
            with convert_errors(path), suppress(FileExistsError):
                self._calls.mkdir(path)
        # Even if it existed: its creator may have been killed before the sync. Folders without
        # write permission are not ours.
        with suppress(PermissionError):
            self._sync_folder(path)
        self._durable.add(path)

    def _append(self, path: Path, data: bytes, at: int, synced: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT if at == 0 else 0)
        with self._opened(path, flags) as fd:
            size = os.fstat(fd).st_size
            if size != at:
                why = f"it has {size} bytes instead of {at}: another program writes to it"
                raise JournalBroken(path, why)
            try:
                with convert_errors(path):
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
        with convert_errors(path):
            fd = self._calls.open(path, flags)
        try:
            yield fd
        finally:
            self._calls.close(fd)

    def _write_all(self, fd: int, path: Path, data: bytes) -> None:
        with convert_errors(path):
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
                with convert_errors(reserve):
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
    """Return the path of the file that `Disk.replace` writes before it renames it to *path*."""
    return path.with_name(f".{path.name}.tmp")


class AlreadyRunning(Exception):
    """Another process uses the state folder; the operator must stop one of them.

    *pid* is None if the process has not written its id yet.
    """

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{who} already uses the state folder {folder}; stop it, or set "
            f"paths.state to another folder"
        )
        self.pid = pid


@contextmanager
def lock_state(folder: Path) -> Iterator[None]:
    """Lock the state folder *folder*, which must exist, during the block.

    The kernel releases the lock at any end of the process; the file ``lock`` remains, with the id
    of the last process that had it. Raises AlreadyRunning; OSError if the file system has no locks.
    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(folder, _pid(fd)) from error
        except OSError as error:
            if error.errno == errno.ENOLCK:
                error.add_note(f"{folder} is on a file system without file locks; use a local disk")
            raise
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(fd)


def find_running(folder: Path) -> int | None:
    """Return the id of the process that uses the state folder *folder*, or None.

    The id is 0 if that process has not written it yet. Raises OSError if no process has run there.
    """
    fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # A shared lock, for an instant, so that two readers do not block each other.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(fd) or 0
    finally:
        os.close(fd)
    return None


def _pid(fd: int) -> int | None:
    text = os.read(fd, 20).strip()
    return int(text) if text.isdigit() else None
