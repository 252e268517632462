"""Find the files that a command read or changed, so that strangers' words keep their mark.

The kernel provides the evidence. A created or changed file has an inode or a change time that no
file had before; no program can set a change time. A read changes the access time, if the file
system records access times (`records_reads`). All functions block.
"""

import os
import stat
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from elwood.foundation.storage.files import Root, identify, is_marked, mark_untrusted_path

# Maximum files and folders of one check; each takes 10 to 70 µs.
MAX_FILES = 300_000
# Characters of a path below an open folder: the kernel takes 4,096 bytes, and a command can make
# deeper folders.
_MAX_BELOW = 1000
# A marked file gets this much older an access time before a command, so that a read shows. (ns)
_EARLIER = 1_000_000_000
# File systems share blocks of at least this size. (bytes)
_BLOCK = 1 << 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TooManyFiles(Exception):
    """The folder has more files than one check covers."""

    def __init__(self, root: Path, limit: int) -> None:
        super().__init__(f"{root} has more than {limit:,} files")
        self.limit = limit


class Traced(NamedTuple):
    """A file or folder of a walk."""

    path: str
    """From the root on."""
    place: str
    """For system calls, until the walk goes on."""
    changed_at: int
    """Time of the last change (ns); 0 for a folder, which has no content but names."""
    read_at: int
    """Time of the last read (ns)."""
    is_folder: bool
    identity: int
    """Another value once the content may have changed."""


class FolderState(msgspec.Struct, frozen=True):
    """A folder before a command."""

    known: frozenset[int]
    """Identities of the files and folders."""
    marked: Mapping[str, int]
    """Access times of the untrusted files and folders, by path."""


def record_files(root: Root, *, limit: int = MAX_FILES, watch: bool = False) -> FolderState:
    """Record all files of *root*; with *watch*, a later `find_reads` returns the read ones.

    Raises TooManyFiles.
    """
    known: set[int] = set()
    marked: dict[str, int] = {}
    for number, found in enumerate(_walk(root.path)):
        if number >= limit:
            raise TooManyFiles(root.path, limit)
        if _is_untrusted(root, found):
            if watch and not found.is_folder:
                found = _age(found)
            marked[found.path] = found.read_at
        known.add(found.identity)
    return FolderState(frozenset(known), marked)


def find_reads(root: Path, before: FolderState) -> list[str]:
    """List the marked files that were read since *before*.

    A file that was replaced or removed counts: it may have been read first.
    """
    return [
        path
        for path, read_at in before.marked.items()
        if _read_time(root / path) not in (read_at, None)
    ]


def _is_untrusted(root: Root, found: Traced) -> bool:
    if root.is_untrusted_folder(found.path):
        return False
    return root.is_untrusted_place(found.path) or is_marked(found.place)


def _read_time(path: Path) -> int | None:
    """Return the access time of a file; None for a folder, which Elwood itself reads."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return -1
    return None if stat.S_ISDIR(found.st_mode) else found.st_atime_ns


def records_reads(root: Path) -> bool:
    """Return True if the file system records every read in the access time.

    Some are mounted so that it does not; some share the blocks of a copied file, unread (btrfs,
    XFS). It is tried with two files without a name.
    """
    try:
        flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
        with (
            open(os.open(root, flags, 0o600), "w+b") as source,
            open(os.open(root, flags, 0o600), "w+b") as copy,
        ):
            source.write(bytes(_BLOCK))
            source.flush()
            os.utime(source.fileno(), ns=(_EARLIER, time.time_ns()))
            os.copy_file_range(source.fileno(), copy.fileno(), _BLOCK, 0, 0)
            return os.fstat(source.fileno()).st_atime_ns != _EARLIER
    except OSError:
        return False


def mark_changes(root: Path, is_changed: Callable[[Traced], bool]) -> list[str]:
    """Mark the changed files and folders as untrusted; return those that could not be marked.

    It covers all files that there are: their number is bounded by the disk only.
    """
    failed: list[str] = []
    for found in _walk(root, open_closed=True):
        if is_changed(found):
            try:
                mark_untrusted_path(found.place)
            except OSError:
                failed.append(found.path)
    return failed


def was_read_since(root: Root, since: int) -> bool:
    """Return True if an untrusted file was read since the Unix time *since* (ns)."""
    return any(
        found.read_at >= since
        for found in _walk(root.path)
        if not found.is_folder and _is_untrusted(root, found)
    )


def _age(found: Traced) -> Traced:
    """Set the access time of a file back, so that the next read changes it."""
    with suppress(OSError):
        before = os.stat(found.place, follow_symlinks=False)
        times = (before.st_atime_ns - _EARLIER, before.st_mtime_ns)
        os.utime(found.place, ns=times, follow_symlinks=False)
        return _trace(found.path, found.place, os.stat(found.place, follow_symlinks=False))
    return found


class _OpenFolder:
    """A folder that is closed with the last reference to it."""

    def __init__(self, path: str | Path) -> None:
        self.fd = os.open(path, _FOLDER)
        weakref.finalize(self, os.close, self.fd)


def _walk(root: Path, *, open_closed: bool = False) -> Iterator[Traced]:
    """Walk through all files and folders beneath *root*, however deep; links are left out.

    With *open_closed*, folders that a command closed are opened again.
    """
    waiting = [(_OpenFolder(root), "", "")]
    while waiting:
        base, below, path = waiting.pop()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            place = f"/proc/self/fd/{base.fd}/{below}"
            if open_closed and not os.access(place, os.R_OK | os.X_OK):
                os.chmod(place, 0o700)
            if len(below) > _MAX_BELOW:
                base, below = _OpenFolder(place.rstrip("/")), ""
                place = f"/proc/self/fd/{base.fd}/"
            with os.scandir(place) as entries:
                for entry in entries:
                    found = _look_at(entry, f"{path}{entry.name}")
                    if found is None:
                        continue
                    yield found
                    if found.is_folder and entry.name != ".git":
                        waiting.append((base, f"{below}{entry.name}/", f"{found.path}/"))


def _look_at(entry: "os.DirEntry[str]", path: str) -> Traced | None:
    try:
        found = entry.stat(follow_symlinks=False)
        if entry.name == ".git" and stat.S_ISDIR(found.st_mode):
            changed_at = _last_object(entry.path)
            identity = hash((found.st_dev, found.st_ino, changed_at))
            return Traced(path, entry.path, changed_at, 0, True, identity)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return _trace(path, entry.path, found)
    return None


def _trace(path: str, place: str, found: os.stat_result) -> Traced:
    if stat.S_ISDIR(found.st_mode):
        return Traced(path, place, 0, 0, True, hash((found.st_dev, found.st_ino, path)))
    return Traced(path, place, found.st_ctime_ns, found.st_atime_ns, False, identify(found))


def _last_object(git: str) -> int:
    """Return when the repository *git* got its newest object (ns); 0 if it has none.

    Its objects hold the content; they are read-only, so the folder bears the mark for all.
    """
    times = [0]
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{git}/objects") as entries:
        times += (entry.stat(follow_symlinks=False).st_ctime_ns for entry in entries)
    return max(times)
