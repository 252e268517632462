"""Opening beneath one folder, for any path, even if links are swapped during that.

The kernel resolves each path beneath a descriptor of the root (openat2 with RESOLVE_BENEATH and
RESOLVE_NO_MAGICLINKS), so there is no moment between a check and its use. All functions block.
"""

import ctypes
import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elwood.foundation.storage.paths import holds_secrets, refusal

# The same number on every architecture except Alpha.
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08
# During a rename the kernel cannot always verify that a ".." stayed inside; it returns EAGAIN.
_TRIES = 100


class PathRefused(Exception):
    """*path* may not be used, or has the wrong type; *why* is for the requester."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r}: {why}")
        self.path = path
        self.why = why


class PathMissing(PathRefused):
    """There is nothing at *path*."""


class Unconfined(Exception):
    """This system cannot confine paths to a folder; the operator needs Linux 5.6 or newer."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


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
    # Opening an existing file never needs privileges that raise EPERM: old containers return it for
    # unknown system calls.
    if code in (errno.ENOSYS, errno.EPERM):
        raise Unconfined(
            "this kernel, or the container's seccomp filter, has no openat2: file tools need "
            "Linux 5.6 or newer"
        )
    raise OSError(code, os.strerror(code), path)


class Confined:
    """The folder *path*; files opened here cannot be outside it.

    It is opened at the first use and kept open: if another folder, or a link, replaces it, all
    paths are refused from then on. Without *dots*, folders in it with a leading dot are closed;
    unless *writable*, it is read-only.
    """

    def __init__(self, path: Path, *, writable: bool = True, dots: bool = True) -> None:
        self.path = path
        self.writable = writable
        self._dots = dots
        self._fd: int | None = None
        self._opening = threading.Lock()

    def root(self) -> int:
        """Return the descriptor of the folder, which must not be closed.  Raises PathRefused."""
        try:
            with self._opening:
                if self._fd is None:
                    self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    weakref.finalize(self, os.close, self._fd)
            held, named = os.fstat(self._fd), os.stat(self.path)
        except OSError as error:
            raise PathMissing(str(self.path), f"cannot be opened ({error.strerror})") from error
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            why = "was replaced by another folder; if you did that, restart Elwood"
            raise PathRefused(str(self.path), why)
        return self._fd

    @contextmanager
    def open(self, path: str, flags: int) -> Iterator[int]:
        """Open *path*, unless it, or its target, has a name for secrets.

        Raises PathRefused and Unconfined.
        """
        relative, root = self.relative(path), self.root()
        try:
            fd = open_beneath(root, relative, flags)
        except OSError as error:
            raise convert_error(path, error) from error
        try:
            # The name of a link may differ from the name of its target.
            where = self.inside(fd)
            if holds_secrets(path) or holds_secrets(where):
                raise PathRefused(
                    path, "has a name that is reserved for secrets, so it is not shown"
                )
            self.need_open(path, f"{where}/" if stat.S_ISDIR(os.fstat(fd).st_mode) else where)
            yield fd
        finally:
            os.close(fd)

    def relative(self, path: str) -> str:
        """Return *path* relative to the root, if it is absolute and begins with the root.

        Raises PathRefused if *path* has an invalid spelling.
        """
        if why := refusal(path):
            raise PathRefused(path, why)
        root = str(self.path)
        if path == root or path.startswith(f"{root}/"):
            return path[len(root) :].strip("/") or "."
        return path

    def need_open(self, path: str, where: str) -> None:
        """Raise PathRefused if the real location *where* of *path* is in a closed folder."""
        if not self._dots and any(name.startswith(".") for name in where.split("/")[:-1]):
            why = "is in a folder whose name begins with a dot; these folders are closed here"
            raise PathRefused(path, why)

    def inside(self, fd: int) -> str:
        """Return the real location of the open *fd* beneath the root.  Raises Unconfined."""
        try:
            where, start = (os.readlink(f"/proc/self/fd/{number}") for number in (fd, self.root()))
        except OSError as error:
            raise Unconfined("file tools need a mounted /proc") from error
        return where.removeprefix(start).removesuffix(" (deleted)")


def convert_error(path: str, error: OSError) -> PathRefused:
    """Convert the error of a system call to a PathRefused for the requester of *path*."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return PathMissing(path, "does not exist")
        case errno.EXDEV:
            return PathRefused(path, "leads outside the folder")
        case errno.ELOOP:
            return PathRefused(path, "is a link without a target, or leads outside the folder")
        case errno.ENXIO:
            return PathRefused(path, "is not a regular file")
        case _:
            return PathRefused(path, f"cannot be opened ({error.strerror})")
