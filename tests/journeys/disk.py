"""A disk that dies, tears, fills up or fails at the place that a test names.

Places are named after the entries of a journal line as it is written: ``before write replied``,
``torn write ended``, ``after write received``, ``after sync said``. A line with several entries
matches by each of them.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import msgspec

from elwood.foundation.storage.disk import RESERVE, Calls

RESERVE_NAME = "reserve"


class Kill(BaseException):
    """The process has been killed."""


class _Tagged(msgspec.Struct):
    type: str


class _Line(msgspec.Struct):
    entries: list[_Tagged]


@attrs.define
class Fault:
    """An act at *place*, for files whose name ends in *file*, the *nth* time."""

    place: str
    act: Callable[[], None]
    nth: int = 1
    file: str = ""


@attrs.define
class BadDisk(Calls):
    """The system calls of one process; it outlives the process, as disks do.

    If *full*, only the *spare* bytes of the released reserve are left; if *dead*, the process does
    nothing more.
    """

    faults: list[Fault] = attrs.field(factory=list)
    full: bool = False
    spare: int = 0
    has_reserve: bool = False
    reserve_is_worth: int = RESERVE
    dead: bool = False
    seen: list[str] = attrs.field(factory=list)
    _names: dict[int, str] = attrs.field(factory=dict, init=False)
    _written: dict[int, str] = attrs.field(factory=dict, init=False)

    def at(self, place: str, act: Callable[[], None], *, nth: int = 1, file: str = "") -> None:
        """Do *act* at *place*."""
        self.faults.append(Fault(place, act, nth, file))

    def die(self) -> None:
        """End the process."""
        self.dead = True
        raise Kill

    def fill(self) -> None:
        """Leave no room."""
        self.full = True

    def fail(self) -> None:
        """Fail as broken hardware does."""
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def clear(self) -> None:
        """Make room, and stop all failures."""
        self.full = False
        self.faults.clear()

    def revive(self) -> None:
        """Let a new process use the disk."""
        self.dead = False
        self._names.clear()
        self._written.clear()

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.dead:
            raise Kill
        fd = super().open(path, flags, mode)
        self._names[fd] = path.name
        self._written.pop(fd, None)
        return fd

    def write(self, fd: int, data: bytes) -> int:
        tags = tags_of(data)
        self._reach("before write", tags, fd)
        if self.full:
            if self.spare < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.spare -= len(data)
        try:
            self._reach("torn write", tags, fd)
        except Kill:
            super().write(fd, data[: len(data) // 2])
            raise
        written = super().write(fd, data)
        self._written[fd] = tags
        self._reach("after write", tags, fd)
        return written

    def sync(self, fd: int) -> None:
        tags = self._written.get(fd, "")
        self._reach("before sync", tags, fd)
        super().sync(fd)
        self._reach("after sync", tags, fd)

    def truncate(self, fd: int, size: int) -> None:
        if self._names.get(fd) == RESERVE_NAME and self.has_reserve:
            self.has_reserve = False
            self.spare += self.reserve_is_worth
        super().truncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.has_reserve, self.spare = True, 0

    def rename(self, old: Path, new: Path) -> None:
        self._reach("before rename", new.name, -1)
        super().rename(old, new)
        self._reach("after rename", new.name, -1)

    def _reach(self, when: str, tags: str, fd: int) -> None:
        if self.dead:
            raise Kill
        names = {f"{when} {tag}" for tag in tags.split("+")}
        self.seen.append(f"{when} {tags}")
        for fault in list(self.faults):
            if fault.place in names and self._names.get(fd, "").endswith(fault.file):
                fault.nth -= 1
                if fault.nth == 0:
                    self.faults.remove(fault)
                    fault.act()


def tags_of(data: bytes) -> str:
    """Return the tags of the entries in a journal line."""
    try:
        return "+".join(entry.type for entry in msgspec.json.decode(data, type=_Line).entries)
    except msgspec.DecodeError:
        return "something else"
