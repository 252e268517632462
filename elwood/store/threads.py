"""The daily notes in the workspace: written turn by turn, read back at the start of a day.

People may read and edit them, and tools too: what a conversation with strangers' words has written
is marked, keeps its mark, and does not come back.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo

import trio

from elwood.core.reflections import week_of
from elwood.core.threads import MAX_DAILY, Done, add, days_until, recall
from elwood.runtime import Blocking
from elwood.store.confined import PathMissing, PathRefused
from elwood.store.files import Root

# Bytes of one note that are read: all characters may be long ones.
_MAX_FILE = 4 * MAX_DAILY
# Days back in which the newest weekly reflection is sought: this week's, or that of the last.
_WEEKS = (0, 7)


class Threads:
    """The notes in ``threads/`` of the folder *root*; make one for the house.

    Days begin at midnight in *zone*.  Raises PathRefused and Unconfined if the folder cannot be
    used.
    """

    def __init__(self, root: Root, zone: tzinfo, blocking: Blocking) -> None:
        self._root = root
        self._zone = zone
        self._blocking = blocking
        self._writing = trio.Lock()  # sessions end turns at the same time

    def today(self, now: float) -> str:
        """Return the date at Unix time *now*, ISO 8601."""
        return datetime.fromtimestamp(now, self._zone).date().isoformat()

    async def note(self, session: str, turn: Done) -> None:
        """Write *turn* into the note of its day, on the disk; nothing if it stands there."""
        async with self._writing:
            try:
                await self._blocking(lambda: self._note(session, turn))
            except PathRefused:  # perhaps somebody edited it at this very moment
                await self._blocking(lambda: self._note(session, turn))

    async def recall(self, now: float) -> str:
        """Write what comes back on the day of Unix time *now*; empty if there is nothing."""
        return await self._blocking(lambda: self._recall(now))

    async def names(self) -> frozenset[str]:
        """Name all notes, without ``.md``: ``threads/daily/2026-11-22``."""
        return await self._blocking(self._names)

    def _names(self) -> frozenset[str]:
        try:
            items, _ = self._root.walk("threads")
        except PathMissing:
            return frozenset()
        return frozenset(item.name.removesuffix(".md") for item in items if item.kind == "file")

    def _note(self, session: str, turn: Done) -> None:
        path = _daily(self.today(turn.at))
        try:
            with self._root.file(path) as file:
                data, stat, untrusted = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        except PathMissing:
            data, stat, untrusted = b"", None, False
        if len(data) > _MAX_FILE:
            return  # somebody has made it longer than we ever do
        # Bytes that are not UTF-8 are somebody's too, and stay as they are.
        written = add(data.decode("utf-8", "surrogateescape"), session, turn, self._zone)
        if written is not None:
            content = written.encode("utf-8", "surrogateescape")
            self._root.write(path, content, untrusted=untrusted, expect=stat)

    def _recall(self, now: float) -> str:
        today = datetime.fromtimestamp(now, self._zone).date()
        read: Mapping[str, str] = {day: self._read(_daily(day)) for day in days_until(today)}
        weeks = (week_of(today - timedelta(days=days)) for days in _WEEKS)
        weekly = next(filter(None, (self._read(f"threads/weekly/{week}.md") for week in weeks)), "")
        return recall(read, weekly, today.isoformat())

    def _read(self, path: str) -> str:
        """Read a note; empty if there is none, or none that may come back by itself."""
        try:
            with self._root.file(path) as file:
                return "" if file.untrusted else file.read(_MAX_FILE).decode("utf-8", "replace")
        except PathRefused:
            return ""


def _daily(day: str) -> str:
    return f"threads/daily/{day}.md"
