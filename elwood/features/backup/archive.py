"""The file format of a backup: a packed tar archive, whose last member lists all others.

Any tar program can read it; marks are kept as GNU tar does (``--xattrs``).
"""

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from elwood.features.backup import rules as backups
from elwood.features.backup.rules import MAX_MEMBERS, LeftOut, Member
from elwood.features.backup.sources import PIECE, BackupFailed, Found

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The attribute that `store.marks` sets, as tar programs write it down.
MARK = "SCHILY.xattr.user.elwood.untrusted"
# How a file packed by gzip begins (RFC 1952), and the bytes of its head and end.
_PACKED, _LEAST = b"\x1f\x8b\x08", 18
# It ends with the size of what is in it, modulo 2^32; tar fills up to 10,240 bytes, which shares
# this factor with that.
_BLOCK = 2048


class Packed(io.RawIOBase):
    """A file that is written packed, as gzip does (RFC 1952).

    `gzip.GzipFile` of Python 3.12 and newer writes once more when it is thrown away after an error.
    """

    def __init__(self, file: IO[bytes], level: int) -> None:
        self._file = file
        self._packing = zlib.compressobj(level, wbits=16 + zlib.MAX_WBITS)
        self._size = 0

    def write(self, data: "ReadableBuffer", /) -> int:
        """Pack *data*; return its size."""
        self._file.write(self._packing.compress(data))
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        """Say how much was packed, in bytes."""
        return self._size

    def finish(self) -> None:
        """Write what is left, and the end."""
        self._file.write(self._packing.flush())


class Archive:
    """An archive that is being written, and the list of its members."""

    def __init__(self, tar: tarfile.TarFile, limit: int) -> None:
        self.members: list[Member] = []
        self.left_out: list[LeftOut] = []
        self._tar = tar
        self._limit = limit
        self._size = 0

    def tell(self, folder: str) -> Callable[[str, str], None]:
        """Give what notes that something below *folder* is left out."""
        return lambda path, why: self.left_out.append(LeftOut(shown(f"{folder}/{path}"), why))

    def put(self, folder: str, found: Found) -> None:
        """Put in *found* as something of *folder*, and close it."""
        name = f"{folder}/{found.path}".rstrip("/")
        info = tarfile.TarInfo(name)
        info.mode, info.mtime = found.stat.st_mode & 0o777, int(found.stat.st_mtime)
        if found.untrusted:
            info.pax_headers = {MARK: "1"}
        if found.content is not None:
            with found.content as content:
                self.file(info, content, found.size)
        elif found.target is None:
            info.type = tarfile.DIRTYPE
            self._add(info, "folder", "", None)
        elif backups.leaves(name, found.target):
            where = shown(found.target)
            self.left_out.append(LeftOut(shown(name), f"a link that leads elsewhere, to {where}"))
        else:
            info.type, info.linkname = tarfile.SYMTYPE, found.target
            self._add(info, "link", hashlib.sha256(os.fsencode(found.target)).hexdigest(), None)

    def file(self, info: tarfile.TarInfo, content: IO[bytes], size: int) -> None:
        """Put in the first *size* bytes of *content*."""
        info.size = size
        self._size += size
        if self._size > self._limit:
            raise BackupFailed(
                f"there is more to back up than backup.size allows, {self._limit >> 20} MB: "
                "raise it, or move what is large out of the workspace"
            )
        digest = hashlib.sha256()
        left = size
        while left > 0 and (piece := content.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
        content.seek(0)
        self._add(info, "file", digest.hexdigest(), content)

    def _add(
        self, info: tarfile.TarInfo, kind: backups.Kind, sha256: str, content: IO[bytes] | None
    ) -> None:
        if len(self.members) == MAX_MEMBERS:
            raise BackupFailed(f"there are more than {MAX_MEMBERS:,} files and folders to back up")
        self._tar.addfile(info, content)
        self.members.append(member(info, kind, sha256))


def member(info: tarfile.TarInfo, kind: backups.Kind, sha256: str) -> Member:
    """Describe a member for the manifest."""
    return Member(shown(info.name), kind, info.mode, info.size, sha256, MARK in info.pax_headers)


def shown(name: str) -> str:
    """Write *name* so that it is text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def looks_whole(path: Path) -> bool:
    """Tell whether the file *path* begins and ends as a backup does, without unpacking it.

    Only of those that were cut off at random does one in two thousand pass.
    """
    with path.open("rb") as file:
        begins = file.read(len(_PACKED)) == _PACKED
        if file.seek(0, os.SEEK_END) < _LEAST:
            return False
        file.seek(-4, os.SEEK_END)
        return begins and int.from_bytes(file.read(4), "little") % _BLOCK == 0
