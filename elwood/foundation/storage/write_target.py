"""Where a file is to be written: its folder, opened beneath the root and held, and its name.

Whether something may be written there at all is judged here, by its name and by what is there now.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from elwood.foundation.storage import taint_marks as marks
from elwood.foundation.storage.confined import (
    Confined,
    PathMissing,
    PathRefused,
    open_beneath,
    refused,
)
from elwood.foundation.storage.paths import (
    holds_secrets,
    is_git,
    protection,
    refusal,
)
from elwood.foundation.storage.syscalls import FULL, Calls
from elwood.foundation.storage.temporary_files import is_temporary

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MOVED = "was not written: its folder was moved meanwhile; try again"
_REPLACED = "was not written: somebody replaced it meanwhile; try again"
_NO_MARKS = (
    "is not written: this conversation has read content from strangers, and the file system here "
    "cannot keep that mark on a file (it has no user extended attributes)"
)


@attrs.frozen
class Place:
    """The name *name* in the open folder *folder*; *path* is how it was asked for.

    *parent* is the path from the root by which the folder was opened.
    """

    path: str
    folder: int
    parent: str
    name: str

    def named(self, name: str) -> Path:
        """Name a file of the folder by the held folder, wherever that is now."""
        return Path(f"/proc/self/fd/{self.folder}", name)

    def found(self, expect: os.stat_result | None = None) -> os.stat_result | None:
        """Look at what has the name, which must be a plain file; None if there is nothing.

        With *expect*, it must be that very file, unchanged.  Raises PathRefused.
        """
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise refused(self.path, error) from error
        if expect is not None and (found is None or _stamp(found) != _stamp(expect)):
            raise PathRefused(self.path, "was changed meanwhile; read it again")
        if found is None:
            return None
        if stat.S_ISDIR(found.st_mode):
            raise PathRefused(self.path, "is a folder, not a file")
        if stat.S_ISLNK(found.st_mode):
            raise PathRefused(self.path, "is a link; name the file that it leads to")
        if not stat.S_ISREG(found.st_mode):
            raise PathRefused(self.path, "is not a plain file")
        if found.st_nlink > 1:
            raise PathRefused(self.path, "has a second name (hard link), maybe outside the folder")
        if not found.st_mode & 0o222:
            raise PathRefused(self.path, "is read-only")
        return found

    def need_there(self, confined: Confined) -> None:
        """Refuse unless the folder is still where it was opened, beneath the root."""
        try:
            fd = open_beneath(confined.root(), self.parent, os.O_PATH | os.O_DIRECTORY)
        except OSError as error:
            raise PathRefused(self.path, _MOVED) from error
        try:
            if not os.path.sameopenfile(fd, self.folder):
                raise PathRefused(self.path, _MOVED)
        finally:
            os.close(fd)

    def need_same(self, name: str, fd: int) -> None:
        """Refuse unless the file *name* in the folder is the one that is open as *fd*."""
        try:
            found = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except OSError as error:
            raise PathRefused(self.path, _REPLACED) from error
        if not os.path.samestat(found, os.fstat(fd)):
            raise PathRefused(self.path, _REPLACED)


@contextmanager
def placed(
    confined: Confined, calls: Calls, path: str, *, untrusted: bool, make: bool
) -> Iterator[Place]:
    """Open the folder of *path*; with *make*, make what is missing of it, one by one.

    Raises PathRefused and Unconfined.
    """
    why = refusal(path)
    if why is not None:
        raise PathRefused(path, why)
    relative = confined.relative(path)
    if relative.startswith("/"):
        raise PathRefused(path, "leads out of the folder")
    if path.endswith("/") or relative.rsplit("/", 1)[-1] in (".", ".."):
        raise PathRefused(path, "names a folder, not a file")
    *folders, name = [part for part in relative.split("/") if part not in ("", ".")]
    fd, there = _deepest(confined, path, folders)
    try:
        missing = folders[there:]
        if missing and (not make or ".." in missing):
            raise PathMissing(path, "is in a folder that does not exist")
        # A link may have another name than what it leads to.
        for where in (relative, "/".join([confined.inside(fd), *missing, name])):
            _need_permission(path, where, untrusted=untrusted)
        if untrusted and not marks.can_be_kept(fd):
            raise PathRefused(path, _NO_MARKS)
        for folder in missing:
            below = _made(calls, path, fd, folder, untrusted=untrusted)
            os.close(fd)
            fd = below
        yield Place(path, fd, "/".join(folders) or ".", name)
    finally:
        os.close(fd)


def _deepest(confined: Confined, path: str, folders: list[str]) -> tuple[int, int]:
    """Open as many of *folders*, one in the other, as there are; say how many."""
    root = confined.root()
    for there in range(len(folders), -1, -1):
        try:
            return open_beneath(root, "/".join(folders[:there]) or ".", _FOLDER), there
        except FileNotFoundError:
            continue
        except NotADirectoryError as error:
            raise PathRefused(path, "is in something that is not a folder") from error
        except OSError as error:
            raise refused(path, error) from error
    raise PathMissing(path, "does not exist")


def _made(calls: Calls, path: str, folder: int, name: str, *, untrusted: bool) -> int:
    """Make the folder *name* in *folder*, unless somebody was faster, and open it."""
    try:
        new = True
        try:
            calls.mkdir(Path(f"/proc/self/fd/{folder}", name))
        except FileExistsError:
            new = False
        fd = open_beneath(folder, name, _FOLDER | os.O_NOFOLLOW)
        try:
            if new:
                os.fchmod(fd, 0o777 & ~umask())
                if untrusted:
                    marks.mark(fd)
                calls.sync(folder)
        except OSError:
            os.close(fd)
            raise
    except NotADirectoryError as error:
        raise PathRefused(path, "is in something that is not a folder") from error
    except OSError as error:
        raise not_written(path, error) from error
    return fd


def _need_permission(path: str, where: str, *, untrusted: bool) -> None:
    if holds_secrets(where):
        raise PathRefused(path, "has a name that secrets are kept under; it is not written")
    if is_git(where):
        raise PathRefused(path, "belongs to git, which may run what is in it; use git itself")
    if is_temporary(where.rsplit("/", 1)[-1]):
        raise PathRefused(path, "has a name that is kept for files while they are written")
    reason = protection(where) if untrusted else None
    if reason is not None:
        why = f"{reason}; this conversation has read content from strangers and may not change it"
        raise PathRefused(path, why)


def umask() -> int:
    """Read the mask that `os.umask` cannot tell without changing it for all threads."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o077


def not_written(path: str, error: OSError) -> PathRefused:
    """Say why *path* was not written."""
    if error.errno in FULL:
        return PathRefused(path, "was not written: there is no room on the disk")
    if error.errno == errno.EOPNOTSUPP:
        return PathRefused(path, _NO_MARKS)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PathRefused(path, f"may not be written ({error.strerror})")
    return PathRefused(path, f"was not written ({error.strerror})")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
