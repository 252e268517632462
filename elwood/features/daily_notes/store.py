"""The daily notes in the workspace: turns are written into them, and read back the next day.

People may read and edit them, and tools too: what a conversation with strangers' words has written
is marked, keeps its mark, and does not come back.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial

import trio

from elwood.features.daily_notes.notes import (
    MAX_DAILY,
    Done,
    add,
    days_until,
    recall,
)
from elwood.features.daily_notes.reflections import week_of
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root

# Bytes of one note that are read: all characters may be long ones.
_MAX_FILE = 4 * MAX_DAILY
# Days back in which the newest weekly reflection is sought: this week's, or that of the last.
_WEEKS = (0, 7)
# Seconds for which what comes back is not read again: many conversations may begin at once, and
# turns are as late in their notes.
_FRESH = 2.0


class Threads:
    """The notes in ``threads/`` of the folder *root*; make one for the house.

    Days begin at midnight in *zone*.  *redact* takes the secrets out of what comes back.  Raises
    PathRefused and Unconfined if the folder cannot be used.
    """

    def __init__(
        self, root: Root, zone: tzinfo, blocking: Blocking, redact: Callable[[str], str]
    ) -> None:
        self._root = root
        self._zone = zone
        self._blocking = blocking
        self._redact = redact
        # By session; written together by whoever comes first.
        self._gathered: dict[str, Done] = {}
        self._writing = trio.Lock()
        self._reading = trio.Lock()
        self._recalled = ("", "")
        self._until = -math.inf

    def today(self, now: float) -> str:
        """Return the date at Unix time *now*, ISO 8601."""
        return datetime.fromtimestamp(now, self._zone).date().isoformat()

    def gather(self, session: str, turn: Done) -> None:
        """Have *turn* written with the next one of its day; who says so must `settle` it later."""
        self._gathered[session] = turn

    async def settle(self, session: str) -> None:
        """Write what was gathered, on the disk, if the turn of *session* has not been written.

        What stands in its note is not written again.
        """
        async with self._writing:
            turn = self._gathered.get(session)
            if turn is None:
                return
            try:
                await self._write(self.today(turn.at))
            except (PathRefused, Unconfined):
                # It must not keep others from being written later.
                del self._gathered[session]
                raise

    async def recall(self, now: float) -> str:
        """Write what comes back on the day of Unix time *now*, stripped; empty if nothing does.

        What changed in the last two seconds may be missing.
        """
        today = self.today(now)
        async with self._reading:
            if self._recalled[0] != today or trio.current_time() >= self._until:
                self._recalled = today, await self._blocking(lambda: self._recall(now))
                self._until = trio.current_time() + _FRESH
            return self._recalled[1]

    async def names(self) -> frozenset[str]:
        """Name all notes, without ``.md``: ``threads/daily/2026-11-22``."""
        return await self._blocking(self._names)

    def _names(self) -> frozenset[str]:
        try:
            items, _ = self._root.walk("threads")
        except PathMissing:
            return frozenset()
        return frozenset(item.name.removesuffix(".md") for item in items if item.kind == "file")

    async def _write(self, day: str) -> None:
        """Write what has been gathered of *day*."""
        turns = [(s, turn) for s, turn in self._gathered.items() if self.today(turn.at) == day]
        write = partial(self._note, _daily(day), turns)
        try:
            await self._blocking(write)
        except PathRefused:  # perhaps somebody edited it at this very moment
            await self._blocking(write)
        for session, turn in turns:
            if self._gathered.get(session) is turn:
                del self._gathered[session]
        self._until = -math.inf

    def _note(self, path: str, turns: Sequence[tuple[str, Done]]) -> None:
        try:
            with self._root.file(path) as file:
                data, stat, untrusted = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        except PathMissing:
            data, stat, untrusted = b"", None, False
        if len(data) > _MAX_FILE:
            return  # somebody has made it longer than we ever do
        # Bytes that are not UTF-8 are somebody's too, and stay as they are.
        text = data.decode("utf-8", "surrogateescape")
        written = add(text, turns, self._zone)
        if written != text:
            content = written.encode("utf-8", "surrogateescape")
            self._root.write(path, content, untrusted=untrusted, expect=stat)

    def _recall(self, now: float) -> str:
        today = datetime.fromtimestamp(now, self._zone).date()
        read: Mapping[str, str] = {day: self._read(_daily(day)) for day in days_until(today)}
        weeks = (week_of(today - timedelta(days=days)) for days in _WEEKS)
        weekly = next(filter(None, (self._read(f"threads/weekly/{week}.md") for week in weeks)), "")
        return self._redact(recall(read, weekly, today.isoformat()))

    def _read(self, path: str) -> str:
        """Read a note; empty if there is none, or none that may come back by itself."""
        try:
            with self._root.file(path) as file:
                return "" if file.untrusted else file.read(_MAX_FILE).decode("utf-8", "replace")
        except PathRefused:
            return ""


def _daily(day: str) -> str:
    return f"threads/daily/{day}.md"
