"""Store, recall and search the daily notes in the workspace.

People and tools may edit them.  A file that a conversation with strangers' words wrote is marked,
keeps its mark, and is not recalled.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
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
    blank_entries,
    excerpt,
    last_days,
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
from elwood.foundation.storage.anchors import CARRIED, CarriedHead, extract_head
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import (
    DatabaseUnusable,
    Document,
    SearchQuery,
    rank_keys,
    stamp_of,
)
from elwood.foundation.text.words import count_words, parse_query

log = logging.getLogger("elwood.daily_notes")

T = TypeVar("T")

# Bytes of a note that are read: each character may have four.
_MAX_FILE = 4 * MAX_DAILY
# Days back to the week of a recalled reflection: this week, or the last one.
_WEEKS = (0, 7)
# The index, in the state folder.
INDEX = "threads.db"
# Pages of one kind that are searched: 27 years of days.
MAX_PAGES = 10_000
# Pages that are read for one search, as many as it may show.
MAX_READ = 20
# Threads, each as long as a day's note at most.
MAX_THREADS = 200
# Pages that are indexed in one transaction: a day is as long as a hundred notes.
STEP = 16
# Seconds for which a recall is cached.
RECALLED = 1.0
NEVER = (float("-inf"), "")
DAY = 86_400.0


@attrs.define(eq=False)
class DailyNotes:
    """The notes in ``threads/`` of the folder *root*; create one for Elwood.

    Days begin at midnight in *zone*.  *redact* removes secrets from notes and recalls.  A new note
    starts with the head of the records, from *anchor*; *bounds* limit each entry.  Methods raise
    PathRefused and Unconfined if the folder cannot be used.
    """

    _root: Root
    _zone: tzinfo
    _blocking: Blocking
    _redact: Callable[[str], str]
    _anchor: Callable[[], Awaitable[str]]
    _bounds: DailyNotesSettings = BOUNDS
    # The current day, and the first line of its note.
    _begun: tuple[str, str] = attrs.field(default=("", ""), init=False)
    # By session; the first `write_turns` writes them together.
    _gathered: dict[str, FinishedTurn] = attrs.field(factory=dict, init=False)
    _writing: Lock = attrs.field(factory=Lock, init=False)
    # When the last recall was read, and its text.
    _recalled: tuple[float, str] = attrs.field(default=NEVER, init=False)

    def today(self, now: float) -> str:
        """Return the date at Unix time *now*, ISO 8601."""
        return datetime.fromtimestamp(now, self._zone).date().isoformat()

    def gather(self, session: str, turn: FinishedTurn) -> None:
        """Queue *turn* for writing with others of its day; call `write_turns` later."""
        self._gathered[session] = turn

    async def write_turns(self, session: str) -> bool:
        """Write the queued turns of one day to disk; return False if *session* has none.

        A turn that is in its note already is not written again.
        """
        async with self._writing:
            if session not in self._gathered:
                return False
            day = self.today(self._gathered[session].at)
            turns = [(s, turn) for s, turn in self._gathered.items() if self.today(turn.at) == day]
            if self._begun[0] != day:
                head = await self._anchor()
                self._begun = (day, f"{CARRIED.format(head)}\n" if head else "")

            def add_turns(text: str) -> str:
                for id_, turn in turns:
                    text = add(
                        text, id_, turn, self._zone, self._begun[1], self._bounds, self._redact
                    )
                return text

            self._recalled = NEVER
            try:
                await self._blocking(lambda: _rewrite(self._root, _daily(day), add_turns))
            except (PathRefused, Unconfined):
                # Later writes of other turns must not fail on it.
                del self._gathered[session]
                raise
            for id_, turn in turns:
                if self._gathered.get(id_) is turn:
                    del self._gathered[id_]
            return True

    async def write_all_turns(self) -> None:
        """Write all queued turns; drop those that cannot be written."""
        for session in list(self._gathered):
            with suppress(PathRefused):
                await self.write_turns(session)

    async def leave_out(self, session: str, turns: Mapping[str, float]) -> None:
        """Remove *turns* of *session* from their notes; the values are Unix times of their ends."""
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
        """Apply *change* to the thread *name*; return the reason for a refusal, and if it changed.

        Raises PathRefused and Unconfined.
        """

        def change_file() -> tuple[str, bool]:
            path = f"{TOPICS}/{name}.md"
            try:
                with self._root.file(path) as file:
                    is_untrusted = file.untrusted
            except PathMissing:
                if not begins:
                    return f"there is no thread {name}; create it with create_thread", False
                if len(PageFiles(self._root).list_pages(TOPICS)) >= MAX_THREADS:
                    return f"there are already {MAX_THREADS} threads; add to one of them", False
            else:
                if untrusted and not is_untrusted:
                    # As with notes: strangers' words must not mix with the owner's.
                    why = "this conversation contains text from strangers, and the thread does not"
                    return f"{why}; create another thread", False
            return "", _rewrite(self._root, path, change, untrusted=untrusted)[1]

        async with self._writing:
            return await self._blocking(change_file)

    async def threads(self) -> list[Page]:
        def read() -> list[Page]:
            files = PageFiles(self._root)
            found = [files.read(path) for path, _ in files.list_pages(TOPICS)]
            return sorted((one[0] for one in found if one), key=lambda one: one.last, reverse=True)

        return await self._blocking(read)

    def local(self, now: float) -> datetime:
        """Convert Unix time *now* to the owner's zone."""
        return datetime.fromtimestamp(now, self._zone)

    async def recall(self, now: float) -> str:
        """Return the redacted recall for the day of Unix time *now*; empty if there is none.

        It may be a second old, so conversations that begin together share one read.
        """
        async with self._writing:
            if not 0 <= now - self._recalled[0] < RECALLED:
                self._recalled = now, await self._blocking(lambda: self._recall(now))
            return self._recalled[1]

    async def names(self) -> frozenset[str]:
        """List the names of all notes, without ``.md``: ``threads/daily/2026-11-22``."""
        try:
            items, _ = await self._blocking(lambda: self._root.walk("threads"))
        except PathMissing:
            return frozenset()
        return frozenset(item.name.removesuffix(".md") for item in items if item.kind == "file")

    def _recall(self, now: float) -> str:
        today = datetime.fromtimestamp(now, self._zone).date()
        read: Mapping[str, str] = {day: self._read(_daily(day)) for day in last_days(today)}
        weeks = (week_of(today - timedelta(days=days)) for days in _WEEKS)
        weekly = next(filter(None, (self._read(f"threads/weekly/{week}.md") for week in weeks)), "")
        return self._redact(recall(read, weekly, today.isoformat()))

    def _read(self, path: str) -> str:
        """Read a note; empty if it is missing or untrusted."""
        try:
            with self._root.file(path) as file:
                return "" if file.untrusted else file.read(_MAX_FILE).decode("utf-8", "replace")
        except PathRefused:
            return ""


def _daily(day: str) -> str:
    return f"threads/daily/{day}.md"


def read_carried_heads(config: Config) -> Iterator[CarriedHead]:
    """Yield the heads of the anchors in daily notes.  Blocks.

    Days are in the owner's zone: they may begin a day earlier, or end a day later, than in UTC.
    """
    for path in sorted(config.get(Paths).workspace.glob(_daily("*"))):
        head = extract_head(path.read_text(encoding="utf-8", errors="replace"))
        with suppress(ValueError):
            begin = datetime.fromisoformat(path.stem).replace(tzinfo=UTC).timestamp()
            if head:
                yield CarriedHead(path, head, begin - DAY, begin + 2 * DAY)


def _rewrite(
    root: Root, path: str, change: Callable[[str], str], *, untrusted: bool = False
) -> tuple[str, bool]:
    """Apply *change* to a page; return its new text, and True if it was changed.

    A new page is marked if *untrusted*.  A page longer than `_MAX_FILE` is not changed.
    Raises PathRefused and Unconfined.
    """

    def rewrite() -> tuple[str, bool]:
        try:
            with root.file(path) as file:
                data, stat, is_marked = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        except PathMissing:
            data, stat, is_marked = b"", None, untrusted
        # Keep bytes that are not UTF-8: people may have written them.
        text = data.decode("utf-8", "surrogateescape")
        new = change(text)
        if new == text or len(data) > _MAX_FILE:
            return text, False
        root.write(path, new.encode("utf-8", "surrogateescape"), untrusted=is_marked, expect=stat)
        return new, True

    try:
        return rewrite()
    except PathRefused:  # it may have been edited during the write
        return rewrite()


class PageFiles:
    """The pages in ``threads/`` of the folder *root*, with their paths as keys."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def stamps(self) -> Iterator[tuple[str, str]]:
        for folder in FOLDERS:
            yield from self.list_pages(folder)

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
        """Read a page and its stamp; None if it is missing or unreadable."""
        try:
            with self._root.file(key) as file:
                data, stat, untrusted = file.read(_MAX_FILE), file.stat, file.untrusted
        except (PathRefused, Unconfined):
            return None
        found = page(key, data.decode("utf-8", "replace"), untrusted=untrusted)
        return None if found is None else (found, stamp_of(stat))

    def list_pages(self, folder: str) -> list[tuple[str, str]]:
        """List the pages in *folder*, with their stamps."""
        try:
            found = self._root.stats(folder, MAX_PAGES)
        except PathMissing:
            return []
        except (PathRefused, Unconfined) as error:
            log.warning("daily notes not searched", extra={"why": str(error)})
            return []
        paths = ((f"{folder}/{name}", stat) for name, stat in found if name.endswith(".md"))
        is_thread = folder == TOPICS
        return [
            (path, stamp_of(stat))
            for path, stat in paths
            if is_thread or page_days(path) is not None
        ]


class DailyNoteSearch:
    """Search the daily notes and reflections of *workspace*; create one for Elwood.

    Each search first updates the index, *state*/threads.db, so it sees edits and removals.
    *settle* writes pending turns before `forget`, so they are also blanked.
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
        """Return excerpts of the *limit* best pages, from their current files."""
        try:
            await self._indexed.update(self._write)
            return await self._blocking(partial(self._search, query, limit))
        except DatabaseUnusable as error:
            self._indexed.distrust(error)
            return []

    async def forget(self, key: str, text: str, tool: str) -> list[str]:
        """Blank entries that match the note *key*; list the pages that still contain its *text*.

        Those have it in people's lines, or cannot be written.  Raises ForgettingFailed.
        """
        cleanse = partial(self._cleanse, parse_query(text), f"{tool} `{key}`")
        try:
            await self._settle()
            return await self._write(cleanse)
        except (Unconfined, DatabaseUnusable) as error:
            raise ForgettingFailed(str(error)) from error

    async def _write(self, fn: Callable[[], T]) -> T:
        async with self._writing:
            return await self._blocking(fn)

    def _search(self, query: str, limit: int) -> list[SearchResult]:
        chosen = parse_query(query)
        found: list[SearchResult] = []
        wanted = SearchQuery(query=query, now=0.0)
        for key in rank_keys(self._indexed.index.search(wanted))[:MAX_READ]:
            if len(found) == limit:
                break
            read = self._files.read(key)
            if read is not None and (result := excerpt(read[0], chosen)) is not None:
                found.append(result)
        return found

    def _cleanse(self, chosen: Sequence[str], saved: str) -> list[str]:
        changed, left = [], []
        for key in sorted(key for key, _ in self._files.stamps()):
            try:
                new, is_changed = _rewrite(
                    self._root, key, lambda text: blank_entries(text, chosen, saved)
                )
            except PathRefused:
                left.append(key)  # one refused page must not block the others
                continue
            if is_changed:
                changed.append(key)
            if may_have(new, chosen) and any(
                count_words(one, chosen) == len(chosen) for one, _ in passages(new)
            ):
                left.append(key)
        self._indexed.drop(changed)
        # Also drop pages from the index that were removed before.
        for _ in self._indexed.catch_up():
            pass
        return left
