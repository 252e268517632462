"""Reading and listing inside one folder, whatever the path says and whoever swaps links meanwhile.

The kernel resolves each path beneath a descriptor of the root (openat2 with RESOLVE_BENEATH and
RESOLVE_NO_MAGICLINKS), so there is no moment between a check and its use (security.md §2).
Everything here blocks.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import attrs

from elwood.core.paths import holds_secrets, refusal

# The same number on every architecture but Alpha.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08
# The kernel cannot always tell that a ".." stayed inside while somebody renames; it says "again".
_TRIES = 100
# Entries of a folder that are looked at.
MAX_ENTRIES = 10_000


class PathRefused(Exception):
    """*path* may not be used, or is not what it should be; *why* is for who asked for it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r}: {why}")
        self.path = path
        self.why = why


class PathMissing(PathRefused):
    """There is nothing at *path*."""


class Unconfined(Exception):
    """This system cannot confine paths to a folder; the operator needs Linux 5.6 or newer."""


@attrs.frozen
class Item:
    """One entry of a folder: *name* as the disk has it; *size* in bytes, of files only.

    *target* is where a link leads, unless it goes up or starts at ``/``: that is nobody's business.
    """

    name: str
    kind: Literal["file", "folder", "link", "special", "vanished"]
    size: int | None = None
    target: str | None = None


@attrs.frozen
class File:
    """A plain file that is open for reading; *stat* describes it as it is open."""

    fd: int
    stat: os.stat_result

    def read(self, limit: int) -> bytes:
        """Read on, at most *limit* bytes."""
        parts, left = [], limit
        while left > 0 and (part := os.read(self.fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def open_beneath(root: int, path: str, flags: int) -> int:
    """Open *path*, which must stay beneath the folder *root* at every step.

    Raises OSError (EXDEV and ELOOP: it led outside) and Unconfined.
    """
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    name = os.fsencode(path)
    for _ in range(_TRIES):
        fd = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return int(fd)
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            break
    # Reading needs no rights that raise EPERM: it is what old containers say to unknown calls.
    if code in (errno.ENOSYS, errno.EPERM):
        raise Unconfined(
            "this kernel, or the container's seccomp filter, has no openat2: file tools need "
            "Linux 5.6 or newer"
        )
    raise OSError(code, os.strerror(code), path)


class Root:
    """The folder *path*, out of which no read gets.

    It is opened at the first use and held: if somebody puts another folder, or a link, in its
    place, everything is refused from then on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def __del__(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def read(self, path: str, limit: int) -> bytes:
        """Read the file *path*, at most *limit* bytes.

        Raises PathRefused and Unconfined.
        """
        with self.file(path) as file:
            return file.read(limit)

    @contextmanager
    def file(self, path: str) -> Iterator[File]:
        """Open the file *path* for reading: a plain file, with one name, that holds no secrets.

        Raises PathRefused and Unconfined.
        """
        with self._opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                raise PathRefused(path, "is a folder, not a file")
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused(path, "is not a plain file")
            if found.st_nlink > 1:
                raise PathRefused(path, "has a second name (hard link), maybe outside the folder")
            yield File(fd, found)

    def seen(self, name: str) -> os.stat_result | None:
        """Look at *name*, right in the folder, without opening it; None if it is not there.

        It may be anything, a link also: only `file` tells whether it may be read.  Raises
        PathRefused.
        """
        root = self._root()
        try:
            return os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(name, error) from error

    def items(self, path: str, limit: int = MAX_ENTRIES) -> tuple[list[Item], bool]:
        """List the folder *path* by name; the flag tells that there were more than *limit*.

        Raises PathRefused and Unconfined.
        """
        items: list[Item] = []
        with self._opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise PathRefused(path, "is not a folder")
            with os.scandir(fd) as entries:
                for entry in entries:
                    if len(items) == limit:
                        return sorted(items, key=lambda item: item.name), True
                    items.append(_item(fd, entry))
        return sorted(items, key=lambda item: item.name), False

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        why = refusal(path)
        if why is not None:
            raise PathRefused(path, why)
        root = self._root()
        try:
            fd = open_beneath(root, self._relative(path), flags)
        except OSError as error:
            raise _refused(path, error) from error
        try:
            # A link may have another name than what it leads to.
            if holds_secrets(path) or holds_secrets(self._inside(root, fd)):
                raise PathRefused(path, "has a name that secrets are kept under; it is not shown")
            yield fd
        finally:
            os.close(fd)

    def _root(self) -> int:
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held, named = os.fstat(self._fd), os.stat(self.path)
        except OSError as error:
            raise PathMissing(str(self.path), f"cannot be opened ({error.strerror})") from error
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            why = "was replaced by another folder; restart Elwood if that was you"
            raise PathRefused(str(self.path), why)
        return self._fd

    def _relative(self, path: str) -> str:
        """Take the root's own path off the start of an absolute one that spells it."""
        root = str(self.path)
        if path == root or path.startswith(f"{root}/"):
            return path[len(root) :].strip("/") or "."
        return path

    @staticmethod
    def _inside(root: int, fd: int) -> str:
        """Say where beneath *root* the open file really is."""
        try:
            where, start = (os.readlink(f"/proc/self/fd/{number}") for number in (fd, root))
        except OSError as error:
            raise Unconfined("file tools need /proc to be mounted") from error
        return where.removeprefix(start).removesuffix(" (deleted)")


def _item(folder: int, entry: "os.DirEntry[str]") -> Item:
    try:
        if entry.is_symlink():
            target = os.readlink(entry.name, dir_fd=folder)
            plain = not target.startswith("/") and ".." not in target.split("/")
            return Item(entry.name, "link", target=target if plain else None)
        if entry.is_dir(follow_symlinks=False):
            return Item(entry.name, "folder")
        if entry.is_file(follow_symlinks=False):
            return Item(entry.name, "file", entry.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        return Item(entry.name, "vanished")
    return Item(entry.name, "special")


def _refused(path: str, error: OSError) -> PathRefused:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return PathMissing(path, "does not exist")
        case errno.EXDEV:
            return PathRefused(path, "leads out of the folder")
        case errno.ELOOP:
            return PathRefused(path, "is a link that leads nowhere or out of the folder")
        case errno.EACCES:
            return PathRefused(path, "may not be read (permission denied)")
        case errno.ENXIO:
            return PathRefused(path, "is not a plain file")
        case errno.EAGAIN:
            return PathRefused(path, "is being renamed all the time; try again")
        case _:
            return PathRefused(path, f"cannot be opened ({error.strerror})")
