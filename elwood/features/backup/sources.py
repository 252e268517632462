"""What goes into a backup, in an order from which the house can recover, while all of it changes.

Asking goes downwards (docs/architecture.md): whoever records a result had it from somebody below,
who recorded it first.  So what stands higher is read first: the conversations, then what approvals
and models recorded, then the other journals, the notes, the index of the notes, the workspace.
Then everything that a log says was done is in what is read after it.  What is in excess there
belongs to work that was under way, and of that a restored house tells instead of going on
(`restored.json`).
Everything here blocks.
"""

import errno
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import attrs
import msgspec

from elwood.features.backup.rules import MAX_DEPTH
from elwood.foundation.storage.chain import (
    Place,
    Unsound,
    decoder,
    follow,
)
from elwood.foundation.storage.sqlite import BUSY
from elwood.foundation.storage.taint_marks import is_marked

# Bytes of one file that are held in memory; of larger ones a copy is written beside the backup.
SPOOL = 8 << 20
# Bytes that are copied at once.
PIECE = 1 << 20
# Times that a file is read because it changed meanwhile.
TRIES = 2
# In the state folder: for this machine and this moment only, or made anew at each start.
# `sessions/open` says who is to be woken, which is everybody after a restore.
DISPOSABLE = frozenset({"lock", "reserve", "running", "sandbox", "run", "restoring", "backups"})
# Below the state folder: a restore that has begun (`store.restoring`).
STAGE = "restoring"
PLAN = f"{STAGE}/plan.json"
OPEN = "sessions/open"
INDEX = "memory.db"
# The index of pages: not in a backup, as it is small and made anew.
PAGES = "threads.db"
ASIDE = "before-restore-"
# Journals of those who are asked by the conversations.
ASKED = ("approvals.jsonl", "usage.jsonl")

# What may be wrong with a file of the workspace alone; some, because it was exchanged meanwhile.
UNREADABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP, errno.ENOTDIR, errno.ENXIO}
)

Tell = Callable[[str, str], None]


class BackupFailed(Exception):
    """Something was not backed up or restored; the text says why, and what the operator can do."""


@attrs.frozen
class Found:
    """One thing to be put in: *path* below its folder, as it is on the disk.

    *content* is the copy of a file, to be closed by whoever takes it; *target* is where a link
    leads.
    """

    path: str
    stat: os.stat_result
    content: IO[bytes] | None = None
    size: int = 0
    target: str | None = None
    untrusted: bool = False


@attrs.frozen(kw_only=True)
class Walk:
    """Everything beneath a folder: links are not followed, and nothing is passed over silently.

    *passed* are folders (device and inode) that belong to something else, *is_kept* says of a path
    whether it is wanted at all, *rank* in which order names of one folder come.  Copies are made in
    *work*; *tell* is told what is left out, and why.  If *whole*, a file that cannot be read is a
    failure.
    """

    passed: frozenset[tuple[int, int]]
    work: Path
    tell: Tell
    is_kept: Callable[[str], bool] = lambda path: True
    rank: Callable[[str], int] = lambda path: 0
    is_journal: Callable[[str], bool] = lambda path: False
    is_ours: Callable[[os.stat_result], bool] = lambda found: True
    whole: bool = False

    def beneath(self, root: Path) -> Iterator[Found]:
        """Yield the folder *root* and what is in it; nothing if it is not there.

        Raises BackupFailed and OSError.
        """
        try:
            # Itself it may be a link: systemd makes the state folder one (``DynamicUser=``).
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            yield Found("", os.fstat(fd), untrusted=is_marked(fd))
            yield from self._in(fd, "", 1)
        finally:
            os.close(fd)

    def _in(self, fd: int, prefix: str, depth: int) -> Iterator[Found]:
        names = sorted(os.listdir(fd), key=lambda name: (self.rank(f"{prefix}{name}"), name))
        for name in names:
            path = f"{prefix}{name}"
            if not self.is_kept(path):
                continue
            try:
                yield from self._one(fd, name, path, depth)
            except FileNotFoundError:
                self.tell(path, "it vanished while it was read")
            except OSError as error:
                # Others, such as a full disk, are not about this file.
                if self.whole or error.errno not in UNREADABLE:
                    raise
                self.tell(path, f"it cannot be read: {error.strerror}")

    def _one(self, fd: int, name: str, path: str, depth: int) -> Iterator[Found]:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if (found.st_dev, found.st_ino) in self.passed:
            return
        if stat.S_ISLNK(found.st_mode):
            yield Found(path, found, target=os.readlink(name, dir_fd=fd))
        elif stat.S_ISDIR(found.st_mode):
            if depth == MAX_DEPTH:
                self.tell(path, f"it is more than {MAX_DEPTH} folders deep")
                return
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=fd)
            try:
                yield Found(path, os.fstat(below), untrusted=is_marked(below))
                yield from self._in(below, f"{path}/", depth + 1)
            finally:
                os.close(below)
        elif stat.S_ISREG(found.st_mode):
            if self.is_ours(found):
                yield self._file(fd, name, path)
            else:
                self.tell(path, "it has a second name (hard link), maybe outside the folder")
        elif not self.whole:
            self.tell(path, "it is no plain file, folder or link")

    def _file(self, fd: int, name: str, path: str) -> Found:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=fd), "rb", buffering=0) as file:
            found, untrusted = os.fstat(file.fileno()), is_marked(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(errno.ENOENT, "it was replaced", path)
            copy, size, is_steady = copied(file, self.work, to_end=not self.is_journal(path))
        if self.is_journal(path):
            size = self._sound(copy, size, path)
        elif not is_steady:
            self.tell(path, "it changed while it was read: what is in the backup may be mixed")
        copy.seek(0)
        return Found(path, found, copy, size, untrusted=untrusted)

    def _sound(self, copy: IO[bytes], size: int, path: str) -> int:
        """Find where the last whole line of a journal ends; one that is damaged stays as it is."""
        copy.seek(0)
        place = Place()
        try:
            # SpooledTemporaryFile reads as files do, and is not typed as one of them.
            for _ in follow(copy, place, decoder(msgspec.Raw).decode):  # type: ignore[arg-type]
                pass
        except Unsound as error:
            self.tell(path, f"it is in it, but DAMAGED: line {error.line} {error.why}")
            return size
        return place.offset


def copied(file: IO[bytes], work: Path, *, to_end: bool) -> tuple[IO[bytes], int, bool]:
    """Copy an open file; return the copy, its size, and whether the file stayed as it was.

    It is read again if it changed, unless only what it has now is wanted, and not *to_end*.
    """
    copy: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL, dir=str(work))  # noqa: SIM115  (given away)
    for _ in range(TRIES):
        file.seek(0)
        copy.seek(0)
        copy.truncate()
        before = os.fstat(file.fileno())
        left = before.st_size
        while left > 0 and (piece := file.read(min(left, PIECE))):
            copy.write(piece)
            left -= len(piece)
        after = os.fstat(file.fileno())
        is_steady = left == 0 and _stamp(before) == _stamp(after)
        if is_steady or not to_end:
            break
    return copy, copy.tell(), is_steady


def links_within(root: Path) -> Callable[[os.stat_result], bool]:
    """Make what tells of a file beneath *root* whether all its names are there.

    One that has another name elsewhere would become readable for the tools, which refuse it now.
    """
    seen: dict[tuple[int, int], int] = {}
    top = str(root).count("/")
    for path, folders, names, fd in os.fwalk(str(root)):
        if path.count("/") - top >= MAX_DEPTH:
            folders.clear()
        for name in names:
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if found.st_nlink > 1:
                key = (found.st_dev, found.st_ino)
                seen[key] = seen.get(key, 0) + 1
    return lambda found: found.st_nlink <= max(1, seen.get((found.st_dev, found.st_ino), 0))


def of_state(path: str) -> bool:
    """Tell whether *path* below the state folder is worth keeping (`DISPOSABLE`)."""
    top = path.partition("/")[0]
    folder, _, name = path.rpartition("/")
    if top in DISPOSABLE or top.startswith((ASIDE, INDEX, PAGES)) or path == OPEN:
        return False
    is_shortcut = name.endswith(".snapshot") and folder in ("", "sessions")
    return not is_shortcut and not (name.startswith(".") and name.endswith(".tmp"))


def is_journal(path: str) -> bool:
    """Tell whether *path* below the state folder is a log with checksums."""
    folder, _, name = path.rpartition("/")
    return name.endswith(".jsonl") and folder in ("", "sessions")


def from_above(path: str) -> int:
    """Give what is read first the lowest number; see above."""
    if path == "sessions":
        return 0
    if path in ASKED:
        return 1
    return 2 if is_journal(path) else 3


def objects_last(path: str) -> int:
    """Let what the files of a git repository name be read after them."""
    return int(path.endswith("/objects"))


def index_copy(index: Path, target: Path) -> str | None:
    """Copy the database *index* as of one moment, beside its writer; say why if that is not to be.

    None is returned if it was copied.
    """
    try:
        uri = f"{index.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(uri, uri=True)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.execute(f"PRAGMA busy_timeout = {BUSY}")
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            [(found,)] = copy.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        return str(error)
    return None if found == "ok" else str(found)


def _stamp(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
