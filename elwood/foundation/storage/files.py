"""The files of one folder: read, list, walk, write and remove them.

`confined` opens them, and ensures that they are inside the folder. The parent folder of a file is
kept open; all other operations use single names in it and never follow links. After a crash a file
is the old or the new one. All functions block.

A file is first written under a temporary name that is derived from its name, so a leftover of a
crash is replaced by the next write of the file. Such names are never shown.

Files and folders that were written after content from strangers was read have a mark: an extended
attribute, so it stays with the file through renames and restarts. Its absence proves nothing if
others can write with the same permissions: they can remove it.
"""

import errno
import hashlib
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from elwood.foundation.storage.confined import (
    Confined,
    PathMissing,
    PathRefused,
    convert_error,
    open_beneath,
)
from elwood.foundation.storage.disk import FULL_ERRORS, Calls
from elwood.foundation.storage.paths import holds_secrets, is_git, protection
from elwood.foundation.text.readable import kind_of

_NAME = re.compile(r"\.elwood-[0-9a-f]{16}\.tmp")
# Times that a file with the temporary name is removed; more than one only if it reappears.
_TRIES = 10


def is_temporary(name: str) -> bool:
    """Return True if *name* is the temporary name of a file that is being written."""
    return _NAME.fullmatch(name) is not None


def _open_temporary(calls: Calls, folder: int, name: str, mode: int) -> tuple[str, int]:
    """Create a file in the open *folder* that will become *name*; return its name and fd.

    Raises OSError.
    """
    temporary = f".elwood-{hashlib.sha256(name.encode()).hexdigest()[:16]}.tmp"
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            return temporary, calls.open(_path(folder, temporary), flags, mode)
        with suppress(FileNotFoundError):
            calls.unlink(_path(folder, temporary))
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), temporary)


def _path(folder: int, name: str) -> Path:
    """Return a path to a file of the open *folder*, even if the folder was moved."""
    return Path(f"/proc/self/fd/{folder}", name)


_MARK = "user.elwood.untrusted"
# Granularity of the clock for change times, at most. (ns)
_CLOCK_STEP = 20_000_000
# The attribute is missing, unsupported, or the file is gone.
_ABSENT = frozenset({errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT})


def is_marked(file: int | str) -> bool:
    """Return True if *file*, open or named, is marked, or if that cannot be determined.

    A link is not followed.
    """
    try:
        if isinstance(file, int):
            os.getxattr(file, _MARK)
        else:
            os.getxattr(file, _MARK, follow_symlinks=False)
    except OSError as error:
        return error.errno not in _ABSENT
    return True


def can_be_marked(fd: int) -> bool:
    """Return True if the file system of *fd* supports marks."""
    try:
        os.getxattr(fd, _MARK)
    except OSError as error:
        return error.errno != errno.EOPNOTSUPP
    return True


def mark_untrusted(fd: int) -> None:
    """Mark the open file or folder.  Raises OSError."""
    os.setxattr(fd, _MARK, b"1")


def mark_untrusted_path(path: str) -> None:
    """Mark the file or folder at *path*, even if it is read-only.  Raises OSError.

    The kernel requires write permission for any attribute.
    """
    try:
        os.setxattr(path, _MARK, b"1", follow_symlinks=False)
    except PermissionError:
        mode = stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)
        os.chmod(path, mode | 0o200)
        os.setxattr(path, _MARK, b"1", follow_symlinks=False)
        os.chmod(path, mode)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MOVED = "was not written, because its folder was moved at the same time; try again"
_REPLACED = "was not written, because another program replaced it at the same time; try again"
_NO_MARKS = (
    "is not written: this conversation has read content from strangers, and the file system here "
    "cannot keep that mark on a file (it has no user extended attributes)"
)


class WriteTarget(msgspec.Struct, frozen=True):
    """The name *name* in the open folder *folder*; *path* is the requested path.

    *parent* is the path from the root by which the folder was opened.
    """

    path: str
    folder: int
    parent: str
    name: str

    def found(self, expect: os.stat_result | None = None) -> os.stat_result | None:
        """Return the status of the file, which must be a plain one; None if it does not exist.

        With *expect*, it must be that same file, unchanged.  Raises PathRefused.
        """
        try:
            found = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise convert_error(self.path, error) from error
        if expect is not None and (found is None or _stamp(found) != _stamp(expect)):
            raise PathRefused(self.path, "has changed since you read it; read it again")
        if found is None:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise PathRefused(self.path, "is a link; use the path of its target")
        _need_plain(self.path, found)
        if not found.st_mode & 0o222:
            raise PathRefused(self.path, "is read-only")
        return found

    def need_there(self, confined: Confined) -> None:
        """Raise PathRefused unless the folder is still where it was opened, beneath the root."""
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
        """Raise PathRefused unless the file *name* in the folder is the one open as *fd*."""
        try:
            found = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
        except OSError as error:
            raise PathRefused(self.path, _REPLACED) from error
        if not os.path.samestat(found, os.fstat(fd)):
            raise PathRefused(self.path, _REPLACED)


def _need_plain(path: str, found: os.stat_result) -> None:
    """Raise PathRefused for a special file, or a file that may have another name outside."""
    if stat.S_ISDIR(found.st_mode):
        raise PathRefused(path, "is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(path, "is not a regular file")
    if found.st_nlink > 1:
        raise PathRefused(path, "has a second name (hard link), perhaps outside the folder")


@contextmanager
def open_parent(
    confined: Confined, calls: Calls, path: str, *, untrusted: bool, make: bool
) -> Iterator[WriteTarget]:
    """Open the folder of *path*; with *make*, create its missing parts.

    Raises PathRefused and Unconfined.
    """
    relative = confined.relative(path)
    if not confined.writable:
        raise PathRefused(path, "is in a read-only folder")
    if relative.startswith("/"):
        raise PathRefused(path, "leads outside the folder")
    if path.endswith("/") or relative.rsplit("/", 1)[-1] in (".", ".."):
        raise PathRefused(path, "is the path of a folder, not of a file")
    *folders, name = [part for part in relative.split("/") if part not in ("", ".")]
    fd, there = _deepest(confined, path, folders)
    try:
        missing = folders[there:]
        if missing and (not make or ".." in missing):
            raise PathMissing(path, "is in a folder that does not exist")
        # The name of a link may differ from the name of its target.
        real = "/".join([confined.inside(fd), *missing, name])
        confined.need_open(path, real)
        for where in (relative, real):
            _need_permission(path, where, untrusted=untrusted)
        if untrusted and not can_be_marked(fd):
            raise PathRefused(path, _NO_MARKS)
        for folder in missing:
            below = _make_folder(calls, path, fd, folder, untrusted=untrusted)
            os.close(fd)
            fd = below
        yield WriteTarget(path, fd, "/".join(folders) or ".", name)
    finally:
        os.close(fd)


def _deepest(confined: Confined, path: str, folders: list[str]) -> tuple[int, int]:
    """Open the deepest existing one of the nested *folders*; return also its depth."""
    root = confined.root()
    for there in range(len(folders), -1, -1):
        try:
            return open_beneath(root, "/".join(folders[:there]) or ".", _FOLDER), there
        except FileNotFoundError:
            continue
        except NotADirectoryError as error:
            raise PathRefused(path, "is in something that is not a folder") from error
        except OSError as error:
            raise convert_error(path, error) from error
    raise PathMissing(path, "does not exist")


def _make_folder(calls: Calls, path: str, folder: int, name: str, *, untrusted: bool) -> int:
    """Create the folder *name* in *folder*, unless it exists by now, and open it."""
    try:
        with suppress(FileExistsError):
            calls.mkdir(_path(folder, name), 0o777)
        fd = open_beneath(folder, name, _FOLDER | os.O_NOFOLLOW)
        try:
            if untrusted:
                mark_untrusted(fd)
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
        raise PathRefused(path, "has a name that is reserved for secrets, so it is not written")
    if is_git(where):
        raise PathRefused(
            path, "belongs to git, which may run its content; use git commands instead"
        )
    if is_temporary(where.rsplit("/", 1)[-1]):
        raise PathRefused(path, "has a name that is reserved for temporary files")
    reason = protection(where) if untrusted else None
    if reason is not None:
        why = f"{reason}; this conversation has read content from strangers and may not change it"
        raise PathRefused(path, why)


def not_written(path: str, error: OSError) -> PathRefused:
    if error.errno in FULL_ERRORS:
        return PathRefused(path, "was not written, because the disk is full")
    if error.errno == errno.EOPNOTSUPP:
        return PathRefused(path, _NO_MARKS)
    return PathRefused(path, f"was not written ({error.strerror})")


def identify(found: os.stat_result) -> int:
    """Return a number that changes whenever the content of the file may have changed."""
    return hash((found.st_dev, found.st_ino, found.st_ctime_ns))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# No other task of this process may write a file between its check and the rename.
_replacing = threading.Lock()


# Maximum entries read from a folder.
MAX_ENTRIES = 10_000
# Maximum entries and folder depth of one walk: a larger workspace is searched part by part.
MAX_WALK = 50_000
MAX_DEPTH = 64


class Item(msgspec.Struct, frozen=True):
    """One entry of a folder; in a walk, *name* is the path from the root."""

    name: str  # as on the disk
    kind: Literal["file", "folder", "link", "special", "vanished"]
    size: int | None = None  # bytes, for files only
    target: str | None = None  # target of a link; hidden if it goes up or is absolute
    untrusted: bool = False  # as in `File`; also applies to the name


class File(msgspec.Struct, frozen=True):
    """A plain file that is open for reading, with its *stat*.

    *untrusted*: it was written after content from strangers had been read.
    """

    fd: int
    stat: os.stat_result
    untrusted: bool

    def read(self, limit: int) -> bytes:
        """Return the next bytes, at most *limit*."""
        parts, left = [], limit
        while left > 0 and (part := os.read(self.fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class Root:
    """The folder *path*; no read or write can leave it.

    It is read-only unless *writable*; without *dots*, folders with a leading dot are closed.
    Content of the folders *untrusted* ("." is the root itself) counts as written by strangers,
    marked or not. All methods raise PathRefused and Unconfined.
    """

    def __init__(
        self,
        path: Path,
        calls: Calls | None = None,
        *,
        writable: bool = True,
        dots: bool = True,
        untrusted: Collection[str] = (),
    ) -> None:
        self.path = path
        self.writable = writable
        self._untrusted = frozenset(untrusted)
        self._running: dict[object, tuple[int, Collection[str]]] = {}
        self._own: set[int] = set()
        self._confined = Confined(path, writable=writable, dots=dots)
        self._calls = calls or Calls()

    def is_untrusted_place(self, path: str) -> bool:
        """Return True if *path*, relative to the root, is beneath one of the untrusted folders."""
        top, _, below = path.partition("/")
        return "." in self._untrusted or (below != "" and top in self._untrusted)

    def is_untrusted_folder(self, path: str) -> bool:
        """Return True if *path* is one of the untrusted folders, whose names are the owner's."""
        return path in self._untrusted

    @contextmanager
    def expect_changes(self, guarded: Collection[str]) -> Iterator[None]:
        """During the block, while a command runs, files that it may have changed are untrusted.

        Those are all files with a later change time, except files that Elwood writes and the
        content of the *guarded* files and folders, which the command cannot write.
        """
        token = object()
        self._running[token] = time.time_ns() - _CLOCK_STEP, guarded
        try:
            yield
        finally:
            del self._running[token]
            if not self._running:
                self._own.clear()

    def is_own(self, identity: int) -> bool:
        """Return True if Elwood wrote that file while a command was running."""
        return identity in self._own

    def _may_be_changed(self, where: str, found: os.stat_result) -> bool:
        top = where.partition("/")[0]
        return any(
            found.st_ctime_ns >= since and top not in guarded
            for since, guarded in self._running.values()
        ) and not self.is_own(identify(found))

    def read(self, path: str, limit: int) -> bytes:
        """Read the file *path*, at most *limit* bytes."""
        with self.file(path) as file:
            return file.read(limit)

    @contextmanager
    def file(self, path: str) -> Iterator[File]:
        """Open the file *path* for reading: a plain file with one name, without secrets."""
        with self._confined.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            found = os.fstat(fd)
            _need_plain(path, found)
            where = self._confined.inside(fd).lstrip("/")
            untrusted = self.is_untrusted_place(where) or self._may_be_changed(where, found)
            yield File(fd, found, untrusted or is_marked(fd))

    def locate(self, path: str) -> str:
        """Return the real location of *path*, relative to the root; the end of it may be missing.

        An existing folder ends with "/"; the root itself is "".
        """
        missing = ""
        while True:
            try:
                with self._confined.open(path, os.O_PATH) as fd:
                    end = "/" if stat.S_ISDIR(os.fstat(fd).st_mode) else ""
                    return f"{self._confined.inside(fd)}{missing or end}".lstrip("/")
            except PathMissing:
                path, _, name = path.rpartition("/")
                if name in ("", ".", ".."):
                    raise
                path, missing = path or ".", f"/{name}{missing}"

    def items(self, path: str, limit: int = MAX_ENTRIES) -> tuple[list[Item], bool]:
        """List the folder *path* by name; the flag is True if it has more than *limit* entries."""
        items: list[Item] = []
        more = False
        with self._folder(path) as (fd, entries):
            where = self._confined.inside(fd).lstrip("/")
            for entry in entries:
                if more := len(items) == limit:
                    break
                strange = self.is_untrusted_place(f"{where}/{entry.name}".lstrip("/"))
                items.append(_item(fd, entry, strange=strange))
        return sorted(items, key=lambda item: item.name), more

    def stats(self, path: str, limit: int = MAX_ENTRIES) -> list[tuple[str, os.stat_result]]:
        """Return names and statuses of at most *limit* plain files of the folder *path*."""
        found: list[tuple[str, os.stat_result]] = []
        with self._folder(path) as (_, entries):
            for entry in islice(entries, limit):
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
        return found

    @contextmanager
    def _folder(self, path: str) -> Iterator[tuple[int, Iterator["os.DirEntry[str]"]]]:
        with self._confined.open(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise PathRefused(path, "is not a folder")
            with os.scandir(fd) as entries:
                yield fd, entries

    def walk(self, path: str, limit: int = MAX_WALK) -> tuple[list[Item], bool]:
        """List everything beneath the folder *path*, by path; or *path* itself, if it is a file.

        Links are listed and not followed. Names of secrets and ``.git`` are skipped, and so are
        folders below *path* that cannot be opened. The flag is True if entries were left out
        because of *limit* or `MAX_DEPTH`: nearer entries have priority.
        """
        start = self._confined.relative(path).rstrip("/")
        try:
            first, more = self.items(path, limit)
        except PathMissing:
            raise
        except PathRefused:
            with self.file(path) as file:
                return [Item(start, "file", file.stat.st_size, None, file.untrusted)], False
        prefix = "" if start in ("", ".") else f"{start}/"
        found: list[Item] = []
        left = limit - len(first)
        folders = deque([(0, prefix, first)])
        while folders:
            depth, prefix, items = folders.popleft()
            for item in items:
                if holds_secrets(item.name) or is_git(item.name) or is_temporary(item.name):
                    continue
                here = msgspec.structs.replace(item, name=f"{prefix}{item.name}")
                found.append(here)
                if item.kind != "folder":
                    continue
                if depth == MAX_DEPTH or left <= 0:
                    more = True
                    continue
                try:
                    below, cut = self.items(here.name, left)
                except PathRefused:
                    continue
                left -= len(below)
                more = more or cut
                folders.append((depth + 1, f"{here.name}/", below))
        return sorted(found, key=lambda item: item.name), more

    def write(
        self, path: str, data: bytes, *, untrusted: bool, expect: os.stat_result | None = None
    ) -> Literal["created", "replaced"]:
        """Write *data* to the file *path*: after a crash it is the old one, or the new one.

        Missing folders are created. The last name is never followed: links are refused, and so are
        special, read-only and hard-linked files. *untrusted*: *data* may contain content from
        strangers, so the file is marked, and refused where it would instruct or start something.
        With *expect*, the file must still be the opened one. Keeps the permissions of a
        replaced file, not its owner or ACL.
        """
        with (
            _replacing,
            open_parent(self._confined, self._calls, path, untrusted=untrusted, make=True) as place,
        ):
            old = place.found(expect)
            try:
                mode = 0o666 if old is None else 0o600
                with self._temporary(place, mode, untrusted=untrusted) as (temp, fd):
                    while data:
                        data = data[self._calls.write(fd, data) :]
                    if old is not None:
                        os.fchmod(fd, old.st_mode & 0o777)
                    self._calls.sync(fd)
                    old = place.found(expect)
                    place.need_there(self._confined)
                    place.need_same(temp.name, fd)
                    self._calls.rename(temp, _path(place.folder, place.name))
                    if self._running:
                        self._own.add(identify(os.fstat(fd)))
                self._sync_name(place)
            except OSError as error:
                raise not_written(path, error) from error
        return "created" if old is None else "replaced"

    def remove(self, path: str, *, untrusted: bool) -> None:
        """Remove the plain file *path*, by the rules of `write`; folders are refused."""
        with open_parent(
            self._confined, self._calls, path, untrusted=untrusted, make=False
        ) as place:
            if place.found() is None:
                raise PathMissing(path, "does not exist")
            place.need_there(self._confined)
            try:
                self._calls.unlink(_path(place.folder, place.name))
                self._calls.sync(place.folder)
            except OSError as error:
                raise not_written(path, error) from error

    @contextmanager
    def _temporary(
        self, place: WriteTarget, mode: int, *, untrusted: bool
    ) -> Iterator[tuple[Path, int]]:
        """Create the file that will be renamed; if the block fails, remove it."""
        name, fd = _open_temporary(self._calls, place.folder, place.name, mode)
        try:
            if untrusted:
                mark_untrusted(fd)
            yield _path(place.folder, name), fd
        except BaseException:  # re-raised; only the temporary file must be removed
            with suppress(OSError):
                self._calls.unlink(_path(place.folder, name))
            raise
        finally:
            self._calls.close(fd)

    def _sync_name(self, place: WriteTarget) -> None:
        """Make the new name survive a power cut."""
        try:
            self._calls.sync(place.folder)
        except OSError as error:
            why = f"was written, but a power cut may lose it ({error.strerror})"
            raise PathRefused(place.path, why) from error


def _item(folder: int, entry: "os.DirEntry[str]", *, strange: bool) -> Item:
    try:
        if entry.is_symlink():
            target = os.readlink(entry.name, dir_fd=folder)
            plain = not target.startswith("/") and ".." not in target.split("/")
            return Item(entry.name, "link", target=target if plain else None)
        marked = strange or is_marked(f"/proc/self/fd/{folder}/{entry.name}")
        if entry.is_dir(follow_symlinks=False):
            return Item(entry.name, "folder", untrusted=marked)
        if entry.is_file(follow_symlinks=False):
            size = entry.stat(follow_symlinks=False).st_size
            return Item(entry.name, "file", size, untrusted=marked)
    except FileNotFoundError:
        return Item(entry.name, "vanished")
    return Item(entry.name, "special")


# --- text files ----------------------------------------------------------------------------------

# Maximum bytes of a file that is searched for its lines.
MAX_FILE = 64 << 20
# Bytes of a line that are read together: a line without an end must not fill the memory.
_PART = 1 << 20
# Bytes at the start of a file that determine its type.
_START = 4096


def raw_lines(path: str, file: File) -> Iterator[bytes]:
    """Yield the lines of a text file, with their ends; very long ones in parts.

    Raises PathRefused if it is not text, or too large.
    """
    size = file.stat.st_size
    if size > MAX_FILE:
        why = f"has {size:,} bytes; files of more than {MAX_FILE:,} bytes are not read"
        raise PathRefused(path, why)
    passed = 0
    with open(file.fd, "rb", closefd=False) as source:
        refuse_binary(path, source.peek(_START), size)
        # It may grow during the read.
        while passed <= MAX_FILE and (raw := source.readline(_PART)):
            passed += len(raw)
            yield raw


def decode_line(raw: bytes) -> str:
    """Decode a line, without its end."""
    return raw.rstrip(b"\r\n").decode("utf-8", "replace")


def refuse_binary(path: str, start: bytes, size: int) -> None:
    """Raise PathRefused if a file that begins with *start* is not text."""
    kind = kind_of(start)
    if not kind and b"\0" in start:
        kind = "binary data or text in UTF-16"
    if kind:
        raise PathRefused(path, f"is {kind} ({size:,} bytes), not a text file")
