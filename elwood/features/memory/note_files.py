"""The files of notes: one Markdown file each, which people may edit, and which are the truth.

Everything here blocks.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import attrs

from elwood.features.memory.note import MAX_FILE, Note, expires, parse
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.search_index import Document
from elwood.foundation.text.slugs import KEY

# What editors and crashes leave beside a file: `.tea.md.tmp`, `tea.md~`, `#tea.md#`, `.tea.md.swp`.
_MARKS = ".#"
_SUFFIX = ".md"


@attrs.frozen
class Filed:
    """A note as its file has it.

    *stamp* is another one whenever the file has changed, except by an edit that leaves its size
    and falls into the same tick of the file system's clock (a few milliseconds) as the one before.
    *whole* says that the note is all there was, so that it may be written anew; *data* are the
    bytes.
    """

    note: Note
    stamp: str
    whole: bool
    data: bytes = attrs.field(repr=False)

    @property
    def is_cut(self) -> bool:
        """Whether *data* are not all of the file."""
        return len(self.data) > MAX_FILE


class Filing(Protocol):
    """Files that are searched, as notes."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all files, by key and stamp, in no order."""

    def read(self, key: str, /) -> Filed | None:
        """Read one; None if there is none."""


def document_of(filed: Filed | None) -> Document | None:
    """Make of a note what the index takes in."""
    if filed is None:
        return None
    note = filed.note
    return Document(
        key=note.key,
        stamp=filed.stamp,
        text=note.text,
        tags=note.tags,
        listed=note.status == "kept",
        untrusted=note.untrusted,
        importance=note.importance,
        updated=note.updated,
        expires=expires(note),
    )


class NoteFiles:
    """The notes in *folder*; it is made with the first one."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk

    def read(self, key: str) -> Filed | None:
        """Read a note; None if there is none, or nothing that could be one."""
        if not _is_key(key):
            return None
        try:
            fd = os.open(
                self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            with open(fd, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return None
                data = file.read(MAX_FILE + 1)
        except OSError:
            return None
        try:
            text, whole = data[:MAX_FILE].decode("utf-8-sig"), len(data) <= MAX_FILE
        except UnicodeDecodeError:
            text, whole = data[:MAX_FILE].decode("utf-8-sig", "replace"), False
        return Filed(parse(key, text), stamp(found), whole, data)

    def document(self, key: str) -> Document | None:
        """Read what the index takes in of a note; None if there is none."""
        return document_of(self.read(key))

    def write(self, key: str, data: bytes) -> str:
        """Let the note be *data*: after a crash it is the old or the new one; return its stamp.

        Raises DiskFull, JournalBroken.
        """
        path = self._path(key)
        self._disk.make_folder(self.folder)
        self._disk.replace(path, data)
        return stamp(os.stat(path))

    def remove(self, key: str) -> bool:
        """Remove the note, for good, and what editors left of it; False if there was none.

        A folder of this name is none.
        """
        if not _is_key(key):
            return False
        path = self._path(key)
        there = self.is_file(key)
        for left in self._left_of(path.name):
            self._disk.remove(left)
        if not path.is_dir() or there:
            self._disk.remove(path, durably=True)
        return there

    def is_file(self, key: str) -> bool:
        """Tell whether there is something of this name that can be removed: no folder."""
        path = self._path(key)
        return path.is_symlink() or (path.exists() and not path.is_dir())

    def there(self, key: str) -> bool:
        """Tell whether there is something of this name."""
        return os.path.lexists(self._path(key))

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all notes, by key and stamp, in no order."""
        for entry in self._entries():
            with suppress(OSError):
                if _is_note(entry) and entry.is_file(follow_symlinks=False):
                    yield entry.name.removesuffix(_SUFFIX), stamp(entry.stat(follow_symlinks=False))

    def passed_over(self) -> list[str]:
        """Name the Markdown files that are no notes, as their names cannot be keys."""
        return sorted(
            entry.name
            for entry in self._entries()
            if entry.name.endswith(_SUFFIX) and entry.name[0] not in _MARKS and not _is_note(entry)
        )

    def sweep(self) -> None:
        """Remove what a crash has left of files that were being written."""
        for entry in self._entries():
            if re.fullmatch(r"\.[a-z0-9][a-z0-9-]{0,63}\.md\.tmp", entry.name):
                self._disk.remove(self.folder / entry.name)

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        try:
            with os.scandir(self.folder) as entries:
                yield from entries
        except (FileNotFoundError, NotADirectoryError):
            return

    def _left_of(self, name: str) -> Iterator[Path]:
        for entry in self._entries():
            if entry.name != name and entry.name.lstrip(_MARKS).startswith(name):
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        yield self.folder / entry.name

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


def stamp(found: os.stat_result) -> str:
    """Make the stamp of a file from what the disk says of it."""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _is_key(key: str) -> bool:
    return re.fullmatch(KEY, key) is not None and not key.endswith("\n")


def _is_note(entry: "os.DirEntry[str]") -> bool:
    name = entry.name
    return name.endswith(_SUFFIX) and _is_key(name.removesuffix(_SUFFIX))
