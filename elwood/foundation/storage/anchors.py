"""Anchors: a journal of the heads of all journals, which shows lines removed at an end.

A chain shows each change within it, but not that its last lines, or all of it, are missing. So the
heads of all journals are anchored here: every few minutes in which one has grown, before a backup,
and at the end. A turn need not wait for that; lines written since the last time are not covered.
Backups and daily notes contain the head of the anchors, so a forger must rewrite those also.

An anchor is never withdrawn: one that is no longer true is recorded as lost, once, and stays until
a person accepts it. Only the newest closed segment is stored: its state is at the beginning of the
next file.
"""

import logging
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from elwood.foundation.runtime import Mailbox, Request, clear_error, report_error, report_warning
from elwood.foundation.storage.disk import Disk, DiskFull, sync_folder
from elwood.foundation.storage.journal import (
    Journal,
    JournalDamaged,
    JournalPlace,
    Verified,
    decoder,
    digest,
    follow,
    is_sound,
    lines_of,
    segments,
    write_line,
)

log = logging.getLogger("elwood.records")

NAME = "anchors.jsonl"
# Seconds between two checks of the journals: lines removed within this time may go unnoticed.
EVERY = 300.0
# Bytes after which the file is closed.
LONG = 1 << 20
# Format of the head in a text.
CARRIED = "<!-- records: {} -->"
_CARRIED = re.compile(CARRIED.format("([0-9a-f]{64})"))
ANCHORING, LOST = "anchoring the records", "records"


class Head(msgspec.Struct, frozen=True):
    """The journal *journal* (below the state folder) held the entry *seq*, and *size* bytes.

    *head* is the digest of the line that ended there.
    """

    journal: str
    seq: int
    size: int
    head: str


class Anchored(msgspec.Struct, frozen=True, tag="anchored"):
    """The *heads* of journals that have grown since their last anchor."""

    heads: tuple[Head, ...]


class AnchorLost(msgspec.Struct, frozen=True, tag="lost"):
    """The newest anchor of *journal* is no longer true."""

    journal: str
    why: str


class AnchorReleased(msgspec.Struct, frozen=True, tag="released"):
    """The anchored entries of *journals* may be missing, up to the entry *upto*; 0: all.

    Without *journals*: heads in older daily notes and backups may be missing from the anchors.
    """

    journals: tuple[str, ...]
    why: str
    upto: int = 0


class AnchorsRestored(msgspec.Struct, frozen=True, tag="restored"):
    """The state is again as it was at *backup_at*; the anchors before that ended with *head*."""

    backup_at: float
    head: str


AnchorEntry = Anchored | AnchorLost | AnchorReleased | AnchorsRestored


class JournalAnchor(msgspec.Struct):
    """The newest *head* of a journal, at Unix time *at*; entries after *first* are stored.

    *lost* is the time when it was no longer true; 0 if it is true. Earlier heads are not needed:
    the chain leads from this one to all of them.
    """

    head: Head
    at: float
    first: int
    lost: float = 0.0

    def problem(self, found: Verified | None) -> str:
        """Return a description of the entries missing from *found*; "" if complete."""
        seq, head = self.head.seq, self.head.head
        held = f"it had {seq} entries on {day(self.at)}"
        noticed = f", but no longer on {day(self.lost)}" if self.lost else ""
        if found is None:
            return f"MISSING: {held}{noticed}"
        end = found.gone + found.entries
        if end < seq:
            missing = f"entries {end + 1} to {seq} are missing at its end"
            return f"DAMAGED: {missing}: {held}{noticed}"
        if self.first <= found.gone:
            missing = f"entries 1 to {found.gone} are missing at its beginning"
            return f"DAMAGED: {missing}: {held}{noticed}"
        if seq > found.gone and (seq, head) not in found.heads:
            what = f"entry {seq} differs from the one of {day(self.at)}"
            return f"DAMAGED: {what}: it was rewritten{noticed}"
        return ""


class Anchors(msgspec.Struct):
    """The state of the anchors.

    Heads carried elsewhere from a time within *voids* (Unix, inclusive) may be unknown here.
    """

    journals: dict[str, JournalAnchor] = {}
    voids: list[tuple[float, float]] = []

    def apply(self, seq: int, at: float, entry: AnchorEntry) -> None:
        match entry:
            case Anchored(heads):
                for head in heads:
                    known = self.journals.get(head.journal)
                    first = known.first if known else head.seq
                    self.journals[head.journal] = JournalAnchor(head, at, first)
            case AnchorLost(name):
                if name in self.journals:
                    self.journals[name].lost = at
            case AnchorReleased((), _):
                self.voids.append((0.0, at))
            case AnchorReleased(journals, _, upto):
                for name in self.journals.keys() & set(journals):
                    anchor = self.journals[name]
                    if anchor.head.seq > upto > 0:
                        anchor.first = max(anchor.first, upto + 1)
                    else:
                        del self.journals[name]
            case AnchorsRestored(backup_at):
                self.voids.append((backup_at, at))

    def is_void(self, first: float, last: float) -> bool:
        """Return True if a head from between *first* and *last* may be unknown here."""
        return any(first <= end and begin <= last for begin, end in self.voids)


# --- anchoring ------------------------------------------------------------------------------------


class Anchor(Request[str], frozen=True):
    """Anchor now; the answer is the head of the anchors, empty after a failure.

    Sent before a backup, and when a daily note begins.
    """


class ReleaseAnchors(Request[bool], frozen=True):
    """Entries of *journal* up to *upto* will be removed because of their age.

    Sent before that; True once it is on the disk.
    """

    journal: str
    upto: int


AnchoringMail = Anchor | ReleaseAnchors


class Anchoring:
    """The only writer of the anchors of the folder *state*, while Elwood runs."""

    def __init__(self, state: Path, disk: Disk) -> None:
        self._state = state
        self._disk = disk
        self._journal = Journal[AnchorEntry, Anchors](
            state / NAME, AnchorEntry, Anchors, disk, segment=LONG
        )
        self._is_open = False

    async def run(self, mailbox: Mailbox[AnchoringMail]) -> None:
        """Anchor periodically, on request, and at the end."""
        while True:
            asked: AnchoringMail | None = None
            with trio.move_on_after(EVERY):
                try:
                    asked = await mailbox.receive()
                except trio.EndOfChannel:
                    break
            match asked:
                case ReleaseAnchors(journal, upto):
                    why = "it is no longer kept"
                    released = AnchorReleased((journal,), why, upto)
                    asked.reply.set(bool(await self._anchor(released)))
                case Anchor():
                    asked.reply.set(await self._anchor())
                case None:
                    await self._anchor()
        await self._anchor()

    async def _anchor(self, *more: AnchorEntry) -> str:
        journal, disk = self._journal, self._disk
        try:
            if not self._is_open:
                await journal.open()
                self._is_open = True
            heads, lost = await disk.blocking(
                partial(_find_heads, self._state, journal.state, disk)
            )
            for one in lost:
                log.error("records are missing", extra={"journal": one.journal, "why": one.why})
            await journal.append(*([Anchored(heads)] if heads else []), *lost, *more)
            await disk.blocking(self._remove_old_segments)
        except (JournalDamaged, DiskFull) as error:
            self._is_open = False
            report_error(ANCHORING, str(error))
            return ""
        clear_error(ANCHORING)
        if gone := [name for name, one in journal.state.journals.items() if one.lost]:
            names = ", ".join(sorted(gone))
            report_warning(LOST, f"records are missing: {names}; run: elwood receipts verify")
        else:
            clear_error(LOST)
        return journal.head

    def _remove_old_segments(self) -> None:
        """Remove all closed segments except the newest."""
        for path in list(segments(self._journal.path).values())[:-1]:
            self._disk.remove(path)


def _find_heads(
    state: Path, known: Anchors, disk: Disk
) -> tuple[tuple[Head, ...], list[AnchorLost]]:
    """Return the heads of grown journals, synced to the disk, and the lost anchors."""
    heads, lost = [], []
    gone = {name for name, anchor in known.journals.items() if not anchor.lost}
    for path in (*state.glob("*.jsonl"), *state.glob("sessions/*.jsonl")):
        name = path.relative_to(state).as_posix()
        if name == NAME or not path.is_file():
            continue
        gone.discard(name)
        anchor = known.journals.get(name)
        if anchor and (anchor.lost or path.stat().st_size == anchor.head.size):
            continue
        data = path.read_bytes()
        found = _head(name, data)
        if anchor and not _is_unchanged(anchor.head, data):
            lost.append(AnchorLost(name, "its content has changed"))
        elif found is not None and (anchor is None or found != anchor.head):
            disk.sync_content(path)
            heads.append(found)
    return tuple(heads), [*lost, *(AnchorLost(name, "it is missing") for name in sorted(gone))]


def _head(name: str, data: bytes) -> Head | None:
    """Return the last whole line of a journal; None if there is none before a torn one."""
    end = len(data)
    for _ in range(2):
        raw = _line_before(data, end)
        if is_sound(raw):
            line = decoder(msgspec.Raw).decode(raw)
            return Head(name, line.seq + len(line.entries) - 1, end, digest(raw))
        end -= len(raw)
    return None


def _is_unchanged(anchor: Head, data: bytes) -> bool:
    """Return True if the anchored line is unchanged; `verify` checks those in earlier segments."""
    if digest(_line_before(data, anchor.size)) == anchor.head:
        return True
    first = data[: data.find(b"\n") + 1]
    return is_sound(first) and decoder(msgspec.Raw).decode(first).seq > anchor.seq


def _line_before(data: bytes, end: int) -> bytes:
    return data[:end][data.rfind(b"\n", 0, max(0, end - 1)) + 1 :]


def newest(state: Path) -> str:
    """Return the head of the anchors of the folder *state*; empty if there is none."""
    with suppress(FileNotFoundError):
        found = _head(NAME, (state / NAME).read_bytes())
        return found.head if found else ""
    return ""


def append_anchors(state: Path, at: float, *entries: AnchorEntry) -> None:
    """Append *entries* to the anchors of the folder *state*, which no process uses.

    Raises JournalDamaged and OSError.
    """
    path, place = state / NAME, JournalPlace()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "r+b") as file:
        for _ in follow(path, file, place, decoder(AnchorEntry).decode):
            pass
        file.truncate(file.seek(place.offset))
        file.write(write_line(place.seq + 1, place.head, at, entries))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(state)


# --- comparing ------------------------------------------------------------------------------------


def history(state: Path) -> tuple[Anchors, set[str]]:
    """Return the state of the anchors of the folder *state*, and the digests of their lines.

    Raises JournalDamaged and OSError.
    """
    found, digests, gone, place = Anchors(), set[str](), [], JournalPlace()
    for line in lines_of(state / NAME, decoder(AnchorEntry).decode, place):
        if line.state:
            found = msgspec.json.decode(line.state, type=Anchors)
            if not digests:
                gone.append((0.0, line.at))  # earlier heads
        for entry in line.entries:
            found.apply(line.seq, line.at, entry)
        digests.add(place.head)
    found.voids += gone
    return found, digests


class CarriedHead(NamedTuple):
    """A *head* of the anchors in the file *path*, which was written from *begin* to *end*.

    Times are Unix seconds.
    """

    path: Path
    head: str
    begin: float
    end: float


def extract_head(text: str) -> str:
    """Return the head that *text* contains; "" if none."""
    found = _CARRIED.search(text)
    return found[1] if found else ""


def day(at: float) -> str:
    """Format a Unix time.

    >>> day(0.0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
