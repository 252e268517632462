"""The files of one folder: reading, listing, walking, writing and removing them beneath it.

What is opened, and why it cannot lie outside, is `store.confined`'s work.  Everything here blocks.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Literal

import attrs

from elwood.foundation.storage.atomic_write import Writer
from elwood.foundation.storage.confined import (
    Confined,
    PathMissing,
    PathRefused,
    refused,
)
from elwood.foundation.storage.paths import holds_secrets, is_git
from elwood.foundation.storage.syscalls import Calls
from elwood.foundation.storage.taint_marks import is_marked
from elwood.foundation.storage.temporary_files import is_temporary

# Entries of a folder that are looked at.
MAX_ENTRIES = 10_000
# Entries beneath a folder that one walk looks at, and how many folders deep it goes: a workspace
# with more is searched part by part.
MAX_WALK = 50_000
MAX_DEPTH = 64


@attrs.frozen
class Item:
    """One entry of a folder: *name* as the disk has it; *size* in bytes, of files only.

    In a walk, *name* is the path from the root.  *target* is where a link leads, unless it goes up
    or starts at ``/``: that is nobody's business.  *untrusted* is as in `File`, and concerns the
    name also.
    """

    name: str
    kind: Literal["file", "folder", "link", "special", "vanished"]
    size: int | None = None
    target: str | None = None
    untrusted: bool = False


@attrs.frozen
class File:
    """A plain file that is open for reading; *stat* describes it as it is open.

    *untrusted*: it was written after content from strangers had been read.
    """

    fd: int
    stat: os.stat_result
    untrusted: bool

    def read(self, limit: int) -> bytes:
        """Read on, at most *limit* bytes."""
        parts, left = [], limit
        while left > 0 and (part := os.read(self.fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class Root:
    """The folder *path*, out of which no read and no write gets.

    It is opened at the first use and held: if somebody puts another folder, or a link, in its
    place, everything is refused from then on.
    """

    def __init__(self, path: Path, calls: Calls | None = None) -> None:
        self.path = path
        self._confined = Confined(path)
        self._writer = Writer(self._confined, calls or Calls())

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
        with self._confined.opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                raise PathRefused(path, "is a folder, not a file")
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused(path, "is not a plain file")
            if found.st_nlink > 1:
                raise PathRefused(path, "has a second name (hard link), maybe outside the folder")
            yield File(fd, found, is_marked(fd))

    def seen(self, name: str) -> os.stat_result | None:
        """Look at *name*, right in the folder, without opening it; None if it is not there.

        It may be anything, a link also: only `file` tells whether it may be read.  Raises
        PathRefused.
        """
        root = self._confined.root()
        try:
            return os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refused(name, error) from error

    def items(self, path: str, limit: int = MAX_ENTRIES) -> tuple[list[Item], bool]:
        """List the folder *path* by name; the flag tells that there were more than *limit*.

        Raises PathRefused and Unconfined.
        """
        items: list[Item] = []
        more = False
        with self._confined.opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise PathRefused(path, "is not a folder")
            with os.scandir(fd) as entries:
                for entry in entries:
                    if more := len(items) == limit:
                        break
                    items.append(_item(fd, entry))
        return sorted(items, key=lambda item: item.name), more

    def stats(self, path: str, limit: int = MAX_ENTRIES) -> list[tuple[str, os.stat_result]]:
        """Look at *limit* plain files of the folder *path* at most, by name, in no order.

        Raises PathRefused and Unconfined.
        """
        found: list[tuple[str, os.stat_result]] = []
        with self._confined.opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                raise PathRefused(path, "is not a folder")
            with os.scandir(fd) as entries:
                for entry in islice(entries, limit):
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            found.append((entry.name, entry.stat(follow_symlinks=False)))
        return found

    def walk(self, path: str, limit: int = MAX_WALK) -> tuple[list[Item], bool]:
        """List everything beneath the folder *path*, by path; or *path* itself, if it is a file.

        Links are listed and not followed.  Names of secrets and ``.git`` are passed over, and so
        are folders below *path* that cannot be opened.  The flag tells that something was left
        out, because there were more than *limit* entries or `MAX_DEPTH` folders: what is near
        comes first.  Raises PathRefused and Unconfined.
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
                here = attrs.evolve(item, name=f"{prefix}{item.name}")
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
        """Let the file *path* hold *data*: after a crash it is the old one, or the new one.

        Missing folders are made.  The last name is never followed: a link there is refused, and so
        is whatever is not a plain file with one name that may be written.  *untrusted* says that
        content from strangers may be in *data*: the file is marked, and refused where it would
        instruct or start something.  With *expect*, the file must still be the one that was
        opened.  Keeps the permissions of a file that it replaces, not its owner or ACL.

        Raises PathRefused and Unconfined.
        """
        return self._writer.write(path, data, untrusted=untrusted, expect=expect)

    def remove(self, path: str, *, untrusted: bool) -> None:
        """Remove the plain file *path*, by the rules of `write`; folders are refused.

        Raises PathRefused and Unconfined.
        """
        self._writer.remove(path, untrusted=untrusted)


def _item(folder: int, entry: "os.DirEntry[str]") -> Item:
    try:
        if entry.is_symlink():
            target = os.readlink(entry.name, dir_fd=folder)
            plain = not target.startswith("/") and ".." not in target.split("/")
            return Item(entry.name, "link", target=target if plain else None)
        marked = is_marked(f"/proc/self/fd/{folder}/{entry.name}")
        if entry.is_dir(follow_symlinks=False):
            return Item(entry.name, "folder", untrusted=marked)
        if entry.is_file(follow_symlinks=False):
            size = entry.stat(follow_symlinks=False).st_size
            return Item(entry.name, "file", size, untrusted=marked)
    except FileNotFoundError:
        return Item(entry.name, "vanished")
    return Item(entry.name, "special")
