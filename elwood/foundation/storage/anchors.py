"""How far every journal had come, noted in a journal of its own: what is taken off an end shows.

A chain shows each change within it, and not that its last lines, or all of it, are gone.  So the
heads of all journals are anchored here: every few minutes in which one has grown, before a backup,
and at the end.  It costs a turn nothing, and what was written since the last time is not covered.
Backups and daily notes carry the head of the anchors: who rewrites them all must rewrite those.

An anchor is never taken back: one that does not hold any more is noted as lost, once, and stays
until a person accepts it.  Of what was closed only the newest part is kept: what it adds up to
stands at the beginning of the next.
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
# Seconds between two looks at the journals: what a thief of lines may take unseen.
EVERY = 300.0
# Bytes after which the file is closed.
LONG = 1 << 20
# How a text carries the head.
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
    """The *heads* of journals that have grown since they were anchored last."""

    heads: tuple[Head, ...]


class AnchorLost(msgspec.Struct, frozen=True, tag="lost"):
    """The newest anchor of *journal* was found not to hold any more."""

    journal: str
    why: str


class AnchorReleased(msgspec.Struct, frozen=True, tag="released"):
    """What was anchored of *journals* may be gone, up to the entry *upto*; 0: all of it.

    Without *journals*: what daily notes and backups of before carry may be gone from the anchors.
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
    """The newest *head* of a journal, of Unix time *at*; what follows the entry *first* is kept.

    *lost* is when it was found not to hold any more; 0 if it holds.  Earlier heads need not be
    known: the chain leads from this one to all of them.
    """

    head: Head
    at: float
    first: int
    lost: float = 0.0

    def problem(self, found: Verified | None) -> str:
        """Say what is missing of what was *found*; empty if nothing is."""
        seq, head = self.head.seq, self.head.head
        held = f"it held {seq} entries on {day(self.at)}"
        noticed = f", and not on {day(self.lost)}" if self.lost else ""
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
            what = f"entry {seq} is not the one that stood there on {day(self.at)}"
            return f"DAMAGED: {what}: it was written anew{noticed}"
        return ""


class Anchors(msgspec.Struct):
    """All that the anchors say of journals.

    What others carry from a time within *voids* (Unix, both ends) need not be known here.
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
        """Tell whether something from between *first* and *last* need not be known here."""
        return any(first <= end and begin <= last for begin, end in self.voids)


# --- anchoring ------------------------------------------------------------------------------------


class Anchor(Request[str], frozen=True):
    """Anchor now; the answer is the head of the anchors, empty if that cannot be done.

    Asked before a backup, and when a daily note begins.
    """


class ReleaseAnchors(Request[bool], frozen=True):
    """Entries of *journal* up to *upto* are to be removed, as nobody needs them any more.

    Asked before that; True once it is on the disk.
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
        """Anchor now and then, when asked, and at the end."""
        while True:
            asked: AnchoringMail | None = None
            with trio.move_on_after(EVERY):
                try:
                    asked = await mailbox.receive()
                except trio.EndOfChannel:
                    break
            match asked:
                case ReleaseAnchors(journal, upto):
                    why = "it is not kept any more"
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
            heads, lost = await disk.blocking(partial(_look, self._state, journal.state, disk))
            for one in lost:
                log.error("records are missing", extra={"journal": one.journal, "why": one.why})
            await journal.append(*([Anchored(heads)] if heads else []), *lost, *more)
            await disk.blocking(self._forget)
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

    def _forget(self) -> None:
        """Keep no more of what was closed than the newest part."""
        for path in list(segments(self._journal.path).values())[:-1]:
            self._disk.remove(path)


def _look(state: Path, known: Anchors, disk: Disk) -> tuple[tuple[Head, ...], list[AnchorLost]]:
    """Find the heads of journals that have grown, on the disk; and what is not there any more."""
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
        if anchor and not _holds(anchor.head, data):
            lost.append(AnchorLost(name, "it does not hold what it held"))
        elif found is not None and (anchor is None or found != anchor.head):
            disk.settle(path)
            heads.append(found)
    return tuple(heads), [*lost, *(AnchorLost(name, "it is gone") for name in sorted(gone))]


def _head(name: str, data: bytes) -> Head | None:
    """Find the last whole line of a journal; None if there is none before what may be torn."""
    end = len(data)
    for _ in range(2):
        raw = _line_before(data, end)
        if is_sound(raw):
            line = decoder(msgspec.Raw).decode(raw)
            return Head(name, line.seq + len(line.entries) - 1, end, digest(raw))
        end -= len(raw)
    return None


def _holds(anchor: Head, data: bytes) -> bool:
    """Tell whether the line stands where it stood; one in an earlier segment is for `verify`."""
    if digest(_line_before(data, anchor.size)) == anchor.head:
        return True
    first = data[: data.find(b"\n") + 1]
    return is_sound(first) and decoder(msgspec.Raw).decode(first).seq > anchor.seq


def _line_before(data: bytes, end: int) -> bytes:
    return data[:end][data.rfind(b"\n", 0, max(0, end - 1)) + 1 :]


def newest(state: Path) -> str:
    """Read the head of the anchors of the folder *state*; empty if there is none."""
    with suppress(FileNotFoundError):
        found = _head(NAME, (state / NAME).read_bytes())
        return found.head if found else ""
    return ""


def note(state: Path, at: float, *entries: AnchorEntry) -> None:
    """Append *entries* to the anchors of the folder *state*, where nobody runs.

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
    """Read the anchors of the folder *state*: what they say, and the digests of their lines.

    Raises JournalDamaged and OSError.
    """
    found, digests, gone, place = Anchors(), set[str](), [], JournalPlace()
    for line in lines_of(state / NAME, decoder(AnchorEntry).decode, place):
        if line.state:
            found = msgspec.json.decode(line.state, type=Anchors)
            if not digests:
                gone.append((0.0, line.at))  # what was before it
        for entry in line.entries:
            found.apply(line.seq, line.at, entry)
        digests.add(place.head)
    found.voids += gone
    return found, digests


class CarriedHead(NamedTuple):
    """A *head* of the anchors that the file *path* carries, written from *begin* to *end*.

    Times are Unix seconds.
    """

    path: Path
    head: str
    begin: float
    end: float


def carried(text: str) -> str:
    """Return the head that *text* carries; empty if none."""
    found = _CARRIED.search(text)
    return found[1] if found else ""


def day(at: float) -> str:
    """Write a Unix time.

    >>> day(0.0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
