"""The file format of a backup: a packed tar archive, whose last member lists all others.

Any tar program can read it; marks are kept as GNU tar does (``--xattrs``).  Unpacking trusts
nothing in it: files are made by us, one by one, below folders that we made; no member is reached by
a link, and no name but a plain one is taken (tarfile's own filters are not needed, as it never
writes anything).  Everything here blocks.
"""

import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from elwood.features.backup import rules
from elwood.features.backup.rules import (
    BUNDLE,
    MANIFEST,
    MAX_MEMBERS,
    STATE,
    WORKSPACE,
    BackupFailed,
    LeftOut,
    Manifest,
    Member,
)
from elwood.foundation.storage.files import can_be_marked, mark_untrusted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from elwood.features.backup.store import Found

# Bytes that are copied at once.
PIECE = 1 << 20
# Bytes of a manifest: of `MAX_MEMBERS` members with names of ordinary length.
MAX_MANIFEST = 256 << 20
# The attribute that `taint_marks` sets, as tar programs write it down.
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

    def put(self, folder: str, found: "Found") -> None:
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
        elif rules.leaves(name, found.target):
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
        self, info: tarfile.TarInfo, kind: rules.Kind, sha256: str, content: IO[bytes] | None
    ) -> None:
        if len(self.members) == MAX_MEMBERS:
            raise BackupFailed(f"there are more than {MAX_MEMBERS:,} files and folders to back up")
        self._tar.addfile(info, content)
        self.members.append(member(info, kind, sha256))


def member(info: tarfile.TarInfo, kind: rules.Kind, sha256: str) -> Member:
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


# --- unpacking ---------------------------------------------------------------------------------


class _Damaged(Exception):
    """The archive is not one that we made, or not any more."""


def unpack(archive: Path, targets: Mapping[str, Path], *, limit: int) -> Manifest:
    """Unpack *archive*, its top folders and its bundle to *targets*, which are not there yet.

    Everything is compared with the manifest.  Raises BackupFailed, with files left below *targets*,
    and OSError.
    """
    try:
        with tarfile.open(archive, "r:gz", errorlevel=2) as tar:
            return _Unpacking(tar, targets, limit).run()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BackupFailed(f"{archive} is damaged: {error}") from error
    except _Damaged as error:
        raise BackupFailed(f"{archive} is damaged: {error}") from error
    except OSError as error:
        if error.errno is None:  # gzip.BadGzipFile, and tarfile at a short read
            raise BackupFailed(f"{archive} is damaged: {error}") from error
        raise


class _Unpacking:
    def __init__(self, tar: tarfile.TarFile, targets: Mapping[str, Path], limit: int) -> None:
        self._tar = tar
        self._targets = targets
        self._left = limit
        self._limit = limit
        self._folders: set[str] = set()
        self._made: list[Member] = []
        # Set last, the deepest first: a folder may be closed even to us, and is changed until then.
        self._closing: list[tuple[Path, tarfile.TarInfo]] = []

    def run(self) -> Manifest:
        for info in self._tar:
            if info.name == MANIFEST and info.isreg():
                manifest = self._manifest(info)
                break
            self._member(info)
        else:
            raise _Damaged(f"it has no {MANIFEST}")
        if self._tar.next() is not None:
            raise _Damaged(f"something stands behind its {MANIFEST}")
        self._to_the_end()
        if tuple(self._made) != manifest.members:
            raise _Damaged(f"what is in it is not what its {MANIFEST} says")
        if STATE not in self._folders:
            raise _Damaged("it holds no state folder")
        for path, info in reversed(self._closing):
            os.chmod(path, info.mode & 0o777)
            os.utime(path, (info.mtime, info.mtime))
        return manifest

    def _to_the_end(self) -> None:
        """Read what fills up the archive: only then is its checksum compared."""
        file = self._tar.fileobj
        assert file is not None  # as it is open
        if len(file.read(tarfile.RECORDSIZE + 1)) > tarfile.RECORDSIZE:
            raise _Damaged("something stands behind its end")

    def _manifest(self, info: tarfile.TarInfo) -> Manifest:
        if info.size > MAX_MANIFEST:
            raise _Damaged(f"its {MANIFEST} is too large")
        content = self._tar.extractfile(info)
        text = b"" if content is None else content.read()
        try:
            version = msgspec.json.decode(text, type=_Version).version
            if version != rules.VERSION:
                raise BackupFailed(
                    f"it is a backup of version {version}, and this Elwood knows "
                    f"{rules.VERSION}: restore it with the Elwood that made it"
                )
            return msgspec.json.decode(text, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Damaged(f"its {MANIFEST} cannot be read: {error}") from error

    def _member(self, info: tarfile.TarInfo) -> None:
        name = info.name
        if not rules.is_plain(name):
            raise _Damaged(f"a name in it is none: {shown(name)[:200]!r}")
        if len(self._made) == MAX_MEMBERS:
            raise _Damaged(f"it has more than {MAX_MEMBERS:,} members")
        top, _, below = name.partition("/")
        parent = name.rpartition("/")[0]
        if (parent and parent not in self._folders) or (not parent and name == MANIFEST):
            raise _Damaged(f"{shown(name)[:200]!r} is in a folder that is not in it")
        path = self._targets[top] / below if below else self._targets[top]
        if info.isreg():
            self._made.append(member(info, "file", self._file(info, path)))
        elif info.isdir() and name != BUNDLE:
            os.mkdir(path, 0o700)
            self._folders.add(name)
            self._closing.append((path, info))
            self._mark(info, path)
            self._made.append(member(info, "folder", ""))
        elif info.issym() and below:
            if rules.leaves(name, info.linkname):
                raise _Damaged(f"the link {shown(name)[:200]!r} leads out of its folder")
            os.symlink(info.linkname, path)
            digest = hashlib.sha256(os.fsencode(info.linkname)).hexdigest()
            self._made.append(member(info, "link", digest))
        else:
            raise _Damaged(f"{shown(name)[:200]!r} is neither a file nor a folder nor a link")

    def _file(self, info: tarfile.TarInfo, path: Path) -> str:
        self._left -= info.size
        if self._left < 0:
            raise BackupFailed(
                f"it holds more than backup.size allows, {self._limit >> 20} MB: raise it"
            )
        if info.name in (STATE, WORKSPACE) or info.issparse():
            raise _Damaged(f"{info.name!r} is no plain file")
        content = self._tar.extractfile(info)
        assert content is not None  # as it is a plain file
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            while piece := content.read(PIECE):
                digest.update(piece)
                file.write(piece)
            file.flush()
            self._mark(info, path)
            os.fchmod(file.fileno(), info.mode & 0o777)
            os.utime(file.fileno(), (info.mtime, info.mtime))
        return digest.hexdigest()

    @staticmethod
    def _mark(info: tarfile.TarInfo, path: Path) -> None:
        if MARK not in info.pax_headers:
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not can_be_marked(fd):
                raise BackupFailed(
                    f"{path} must carry the mark of strangers' words, and the file system there "
                    "keeps no extended attributes: put it on ext4, XFS, Btrfs or ZFS"
                )
            mark_untrusted(fd)
        finally:
            os.close(fd)


class _Version(msgspec.Struct):
    version: int
