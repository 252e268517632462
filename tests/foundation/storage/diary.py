"""A small journal for tests: two kinds of entries, and their list as the state."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from elwood.foundation.runtime import Blocking, inline
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import SEGMENT, Journal


class Wrote(msgspec.Struct, frozen=True, tag="wrote"):
    text: str


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    number: int
    native: msgspec.Raw = msgspec.Raw(b"{}")


Entry = Wrote | Counted


class Diary(msgspec.Struct):
    entries: list[Entry] = msgspec.field(default_factory=list)
    seqs: list[int] = msgspec.field(default_factory=list)

    def apply(self, seq: int, at: float, entry: Entry) -> None:
        self.entries.append(entry)
        self.seqs.append(seq)

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries if isinstance(entry, Wrote)]


DiaryJournal = Journal[Entry, Diary]


def clock() -> float:
    return 1_700_000_000.25


def make_disk(
    calls: Calls | None = None,
    reserve: Path | None = None,
    blocking: Blocking = inline,
    clock: Callable[[], float] = clock,
) -> Disk:
    return Disk(blocking=blocking, clock=clock, reserve=reserve, calls=calls)


def make_diary(path: Path, disk: Disk | None = None, segment: int = SEGMENT) -> DiaryJournal:
    return Journal(path, Entry, Diary, disk or make_disk(), segment=segment)


async def open_diary(path: Path, disk: Disk | None = None, segment: int = SEGMENT) -> DiaryJournal:
    journal = make_diary(path, disk, segment)
    await journal.open()
    return journal


def read_file(path: Path) -> bytes:
    return path.read_bytes()


def write_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read_torn_tails(folder: Path) -> list[bytes]:
    """Return the stored torn tails, in order."""
    return [path.read_bytes() for path in sorted(folder.glob("*.torn-*"))]
