"""Unpacks a backup, trusting nothing in it.  Everything here blocks.

Files are made by us, one by one, below folders that we made: no member is reached by a link, and no
name but a plain one is taken (tarfile's own filters are not needed, as it never writes anything).
"""

import hashlib
import os
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from elwood.features.backup import rules as backups
from elwood.features.backup.archive import MARK, member, shown
from elwood.features.backup.rules import (
    BUNDLE,
    MANIFEST,
    MAX_MEMBERS,
    STATE,
    WORKSPACE,
    Manifest,
    Member,
)
from elwood.features.backup.sources import PIECE, BackupFailed
from elwood.foundation.storage.taint_marks import can_be_kept, mark

# Bytes of a manifest: of `MAX_MEMBERS` members with names of ordinary length.
MAX_MANIFEST = 256 << 20
_GIT = f"{WORKSPACE}/.git"


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
        names = {one.name for one in self._made}
        if STATE not in self._folders:
            raise _Damaged("it holds no state folder")
        if (manifest.head is None) == (BUNDLE in names) or (BUNDLE in names and _GIT in names):
            raise _Damaged("it has half a git history, or two")
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
            if version != backups.VERSION:
                raise BackupFailed(
                    f"it is a backup of version {version}, and this Elwood knows "
                    f"{backups.VERSION}: restore it with the Elwood that made it"
                )
            return msgspec.json.decode(text, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Damaged(f"its {MANIFEST} cannot be read: {error}") from error

    def _member(self, info: tarfile.TarInfo) -> None:
        name = info.name
        if not backups.is_plain(name):
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
            if backups.leaves(name, info.linkname):
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
            if not can_be_kept(fd):
                raise BackupFailed(
                    f"{path} must carry the mark of strangers' words, and the file system there "
                    "keeps no extended attributes: put it on ext4, XFS, Btrfs or ZFS"
                )
            mark(fd)
        finally:
            os.close(fd)


class _Version(msgspec.Struct):
    version: int
