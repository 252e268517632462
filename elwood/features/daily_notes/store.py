"""The daily notes in the workspace: written after turns, read back the next day, and searched.

People may read and edit them, and tools too: what a conversation with strangers' words has written
is marked, keeps its mark, and does not come back.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from elwood.agent.session.log.turns import FinishedTurn
from elwood.agent.tools.tool import ForgettingFailed, SearchResult
from elwood.features.daily_notes.notes import (
    BOUNDS,
    FOLDERS,
    MAX_DAILY,
    TOPICS,
    Page,
    add,
    cleansed,
    days_until,
    excerpt,
    may_have,
    page,
    page_days,
    passages,
    recall,
    week_of,
    without,
)
from elwood.features.daily_notes.settings import DailyNotesSettings
from elwood.foundation.runtime import Blocking, Lock
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import CARRIED, CarriedHead, carried
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    Document,
    SearchQuery,
    ranked,
    stamp_of,
)
from elwood.foundation.text.words import asked, having

log = logging.getLogger("elwood.daily_notes")

T = TypeVar("T")

# Bytes of one note that are read: all characters may be long ones.
_MAX_FILE = 4 * MAX_DAILY
# Days back in which the newest weekly reflection is sought: this week's, or that of the last.
_WEEKS = (0, 7)
# The index, in the state folder.
INDEX = "threads.db"
# Pages of one kind that are looked at: 27 years of days.
MAX_PAGES = 10_000
# Pages that are read for one search, as many as it may show: of each, what fits is picked out.
MAX_READ = 20
# Threads, each as long as a day's note at most.
MAX_THREADS = 200
# Pages that are indexed in one transaction: a day has as much to it as a hundred notes.
STEP = 16
# Seconds that what comes back is not read again.
RECALLED = 1.0
NEVER = (float("-inf"), "")
DAY = 86_400.0


class DailyNotes:
    """The notes in ``threads/`` of the folder *root*; make one for Elwood.

    Days begin at midnight in *zone*.  *redact* takes the secrets out of what is written and of what
    comes back.  A note that begins carries the head of the records, which *anchor* tells; *bounds*
    say how much of a turn is told.  Raises PathRefused and
    Unconfined if the folder cannot be used.
    """

    def __init__(
        self,
        root: Root,
        zone: tzinfo,
        blocking: Blocking,
        redact: Callable[[str], str],
        anchor: Callable[[], Awaitable[str]],
        bounds: DailyNotesSettings = BOUNDS,
    ) -> None:
        self._bounds = bounds
        self._root = root
        self._zone = zone
        self._blocking = blocking
        self._redact = redact
        self._anchor = anchor
        # The day whose note has begun, and what it carries.
        self._begun = ("", "")
        # By session; written together by whoever comes first.
        self._gathered: dict[str, FinishedTurn] = {}
        self._writing = Lock()
        # What came back last, and when it was read.
        self._recalled = NEVER

    def today(self, now: float) -> str:
        """Return the date at Unix time *now*, ISO 8601."""
        return datetime.fromtimestamp(now, self._zone).date().isoformat()

    def gather(self, session: str, turn: FinishedTurn) -> None:
        """Have *turn* written with the next one of its day; who says so must `settle` it later."""
        self._gathered[session] = turn

    async def settle(self, session: str) -> bool:
        """Write what was gathered, on the disk, unless that of *session* has been written.

        What stands in its note is not written again.
        """
        async with self._writing:
            if session not in self._gathered:
                return False
            day = self.today(self._gathered[session].at)
            turns = [(s, turn) for s, turn in self._gathered.items() if self.today(turn.at) == day]
            if self._begun[0] != day:
                head = await self._anchor()
                self._begun = (day, f"{CARRIED.format(head)}\n" if head else "")

            def added(text: str) -> str:
                for id_, turn in turns:
                    text = add(
                        text, id_, turn, self._zone, self._begun[1], self._bounds, self._redact
                    )
                return text

            self._recalled = NEVER
            try:
                await self._blocking(lambda: _rewrite(self._root, _daily(day), added))
            except (PathRefused, Unconfined):
                # It must not keep others from being written later.
                del self._gathered[session]
                raise
            for id_, turn in turns:
                if self._gathered.get(id_) is turn:
                    del self._gathered[id_]
            return True

    async def settle_all(self) -> None:
        """Write all that was gathered; what cannot be written is never written."""
        for session in list(self._gathered):
            with suppress(PathRefused):
                await self.settle(session)

    async def leave_out(self, session: str, turns: Mapping[str, float]) -> None:
        """Take *turns* of *session*, with the Unix times of their ends, out of their notes."""
        ids = {f"{session}/{turn}" for turn in turns}
        async with self._writing:
            self._recalled = NEVER
            if (gathered := self._gathered.get(session)) and gathered.turn in turns:
                del self._gathered[session]
            for day in {self.today(at) for at in turns.values()}:
                leave_out = partial(_rewrite, self._root, _daily(day), lambda n: without(n, ids))
                await self._blocking(leave_out)

    async def change_thread(
        self, name: str, change: Callable[[str], str], *, untrusted: bool, begins: bool = False
    ) -> tuple[str, bool]:
        """Make of the thread *name* what *change* does; say why not, or whether it was changed.

        Raises PathRefused and Unconfined.
        """

        def changed() -> tuple[str, bool]:
            path = f"{TOPICS}/{name}.md"
            try:
                with self._root.file(path) as file:
                    strange = file.untrusted
            except PathMissing:
                if not begins:
                    return f"there is no thread {name}; create_thread begins one", False
                if len(PageFiles(self._root).of(TOPICS)) >= MAX_THREADS:
                    return f"there are {MAX_THREADS} threads already; add to one of them", False
            else:
                if untrusted and not strange:
                    # As with notes: strangers' words must not get among what the owner told us.
                    why = "strangers had no part in this thread, and this conversation has read "
                    return f"{why}their words; begin another one", False
            return "", _rewrite(self._root, path, change, strange=untrusted)[1]

        async with self._writing:
            return await self._blocking(changed)

    async def threads(self) -> list[Page]:
        def read() -> list[Page]:
            files = PageFiles(self._root)
            found = [files.read(path) for path, _ in files.of(TOPICS)]
            return sorted((one[0] for one in found if one), key=lambda one: one.last, reverse=True)

        return await self._blocking(read)

    def local(self, now: float) -> datetime:
        """Give Unix time *now* in the owner's zone."""
        return datetime.fromtimestamp(now, self._zone)

    async def recall(self, now: float) -> str:
        """Write what comes back on the day of Unix time *now*, stripped; empty if nothing does.

        It may be a second old: when many conversations begin at once it is the same for all.
        """
        async with self._writing:
            if not 0 <= now - self._recalled[0] < RECALLED:
                self._recalled = now, await self._blocking(lambda: self._recall(now))
            return self._recalled[1]

    async def names(self) -> frozenset[str]:
        """Name all notes, without ``.md``: ``threads/daily/2026-11-22``."""
        try:
            items, _ = await self._blocking(lambda: self._root.walk("threads"))
        except PathMissing:
            return frozenset()
        return frozenset(item.name.removesuffix(".md") for item in items if item.kind == "file")

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


def read_carried_heads(config: Config) -> Iterator[CarriedHead]:
    """Yield the heads of the anchors that daily notes carry; their days are the owner's.  Blocks.

    A day may begin up to a day earlier, and end up to a day later, than in UTC.
    """
    for path in sorted(config.of(Paths).workspace.glob(_daily("*"))):
        head = carried(path.read_text(encoding="utf-8", errors="replace"))
        with suppress(ValueError):
            begin = datetime.fromisoformat(path.stem).replace(tzinfo=UTC).timestamp()
            if head:
                yield CarriedHead(path, head, begin - DAY, begin + 2 * DAY)


def _rewrite(
    root: Root, path: str, change: Callable[[str], str], *, strange: bool = False
) -> tuple[str, bool]:
    """Make of a page what *change* does; return what it says then, and whether it was changed.

    One that is made while strangers' words are known (*strange*) is marked.  One that somebody has
    made longer than we ever do stays.  Raises PathRefused and Unconfined.
    """

    def rewritten() -> tuple[str, bool]:
        try:
            with root.file(path) as file:
                data, stat, untrusted = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        except PathMissing:
            data, stat, untrusted = b"", None, strange
        # Bytes that are not UTF-8 are somebody's too, and stay as they are.
        text = data.decode("utf-8", "surrogateescape")
        new = change(text)
        if new == text or len(data) > _MAX_FILE:
            return text, False
        root.write(path, new.encode("utf-8", "surrogateescape"), untrusted=untrusted, expect=stat)
        return new, True

    try:
        return rewritten()
    except PathRefused:  # perhaps somebody edited it at this very moment
        return rewritten()


class PageFiles:
    """The pages in ``threads/`` of the folder *root*; their keys are their paths."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def stamps(self) -> Iterator[tuple[str, str]]:
        for folder in FOLDERS:
            yield from self.of(folder)

    def document(self, key: str) -> Document | None:
        if (found := self.read(key)) is None:
            return None
        read, stamp = found
        return Document(
            key=key,
            stamp=stamp,
            text=read.text,
            tags=read.names,
            untrusted=read.untrusted,
            updated=read.last,
        )

    def read(self, key: str) -> tuple[Page, str] | None:
        """Read a page and its stamp; None if there is none, or nothing that we may read."""
        try:
            with self._root.file(key) as file:
                data, stat, untrusted = file.read(_MAX_FILE), file.stat, file.untrusted
        except (PathRefused, Unconfined):
            return None
        found = page(key, data.decode("utf-8", "replace"), untrusted=untrusted)
        return None if found is None else (found, stamp_of(stat))

    def of(self, folder: str) -> list[tuple[str, str]]:
        """List the pages in *folder*, with their stamps."""
        try:
            found = self._root.stats(folder, MAX_PAGES)
        except PathMissing:
            return []
        except (PathRefused, Unconfined) as error:
            log.warning("pages are not searched", extra={"why": str(error)})
            return []
        paths = ((f"{folder}/{name}", stat) for name, stat in found if name.endswith(".md"))
        is_thread = folder == TOPICS
        return [
            (path, stamp_of(stat))
            for path, stat in paths
            if is_thread or page_days(path) is not None
        ]


class DailyNoteSearch:
    """Searches the daily notes and reflections of *workspace*; make one for Elwood.

    Their index, *state*/threads.db, is brought up to them when somebody searches: whoever edits or
    removes a page changes what is found.  *settle* writes what is still to stand in a page, so that
    it is forgotten there as well.
    """

    name = "daily notes"

    def __init__(
        self,
        state: Path,
        workspace: Path,
        blocking: Blocking,
        settle: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._settle = settle
        self._root = Root(workspace)
        self._files = PageFiles(self._root)
        self._indexed = IndexedFiles(self._files, state / INDEX, step=STEP)
        self._blocking = blocking
        self._writing = Lock()

    async def search(self, query: str, limit: int) -> list[SearchResult]:
        """Find what the *limit* best pages say, as their files are now."""
        try:
            await self._indexed.look(self._write)
            return await self._blocking(partial(self._search, query, limit))
        except DatabaseUnusable as error:
            self._indexed.distrust(error)
            return []

    async def forget(self, key: str, text: str, tool: str) -> list[str]:
        """Blank what entries say of the note *key*; name the pages that still say its *text*.

        Those are people's words, or pages that we may not write.  Raises ForgettingFailed.
        """
        cleanse = partial(self._cleanse, asked(text), f"{tool} `{key}`")
        try:
            await self._settle()
            return await self._write(cleanse)
        except (Unconfined, DatabaseUnusable) as error:
            raise ForgettingFailed(str(error)) from error

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    def _search(self, query: str, limit: int) -> list[SearchResult]:
        chosen = asked(query)
        found: list[SearchResult] = []
        wanted = SearchQuery(query=query, now=0.0)
        for key in ranked(self._indexed.index.search(wanted))[:MAX_READ]:
            if len(found) == limit:
                break
            read = self._files.read(key)
            if read is not None and (said := excerpt(read[0], chosen)) is not None:
                found.append(said)
        return found

    def _cleanse(self, chosen: Sequence[str], saved: str) -> list[str]:
        changed, left = [], []
        for key in sorted(key for key, _ in self._files.stamps()):
            try:
                said, is_changed = _rewrite(
                    self._root, key, lambda text: cleansed(text, chosen, saved)
                )
            except PathRefused:
                left.append(key)  # whoever sees to it must not be kept from the others
                continue
            if is_changed:
                changed.append(key)
            if may_have(said, chosen) and any(
                having(one, chosen) == len(chosen) for one, _ in passages(said)
            ):
                left.append(key)
        self._indexed.drop(changed)
        # And of what was removed before no byte stays there either.
        for _ in self._indexed.catch_up():
            pass
        return left
