"""The system calls that change a disk, and what their failures mean (reliability.md §2)."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elwood.foundation.runtime import Halt
from elwood.foundation.storage.disk_space import Space

# No room, whoever set the limit: the disk, a quota, or RLIMIT_FSIZE.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
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

    def open(self, path: Path, flags: int) -> int:
        """Open *path*, for us alone (0600); a file is never reached by a link.

        Folders may be: systemd makes the state folder one (``DynamicUser=``).
        """
        if not flags & os.O_DIRECTORY:
            flags |= os.O_NOFOLLOW
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: bytes) -> int:
        """Write, and say how many bytes were."""
        return os.write(fd, data)

    def space(self, folder: Path) -> Space:
        """Ask the file system of *folder* how full it is."""
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return Space(used, found.f_bavail * found.f_frsize)

    def truncate(self, fd: int, size: int) -> None:
        """Cut to *size* bytes."""
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Make sure that *size* bytes have their place on the disk."""
        os.posix_fallocate(fd, 0, size)

    def sync(self, fd: int) -> None:
        """Wait until the file, or the folder, is on the disk."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """Give the descriptor back."""
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Let *new* be what *old* was."""
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        """Make a folder for us alone (0700)."""
        os.mkdir(path, 0o700)


@contextmanager
def judged(path: Path) -> Iterator[None]:
    """Turn the errors of the block into DiskFull and JournalBroken, about *path*.

    Others (no descriptors left, no rights) pass: nothing was changed, and a restart of the actor
    may help.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
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
