"""Searchable files, and their index in SQLite with FTS5.

The files are the source, and the index is disposable: missing entries are added from the files, and
a damaged index is rebuilt before its next use.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from elwood.foundation.runtime import Lock
from elwood.foundation.storage.search_index import DatabaseUnusable, Document, SearchIndex

log = logging.getLogger("elwood.records")

T = TypeVar("T")

# Files that are compared with the index together, and indexed in one transaction: about 50 ms, for
# which writers have to wait. With fewer, FTS5 merges more (measured: 128 cost a third more).
STEP = 256
# Seconds until files are checked for changes again; with many files, this multiple of the time of a
# check, so that checks are at most a twentieth of the work.
LOOK_EVERY, LOOK_SHARE = 5.0, 20.0


class DocumentFiles(Protocol):
    """The searchable files, by key; all methods block."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Yield key and stamp of all files, in no order."""

    def document(self, key: str, /) -> Document | None:
        """Read one document; return None if it does not exist."""


class IndexedFiles:
    """The *files*, and their index in the file *path*, which is updated *step* files at a time.

    Readers check `is_ready` first; all other methods are for the only writer. All except `look`
    block.
    """

    def __init__(self, files: DocumentFiles, path: Path, *, step: int = STEP) -> None:
        self.index = SearchIndex(path)
        self._files = files
        self._step = step
        # It has caught up with the files since it was opened, with everything that was put.
        self._is_current = False
        self._doubts = 0
        # There were no files when it had caught up, and none were put since.
        self.is_empty = False
        self._looking = Lock()
        self._look_again = -math.inf

    @property
    def is_ready(self) -> bool:
        """Whether the index has everything that was put, and lacks only changes by others."""
        return self._is_current and (self.is_empty or self.index.exists)

    def distrust(self, error: DatabaseUnusable) -> None:
        """Have the index checked for damage, and updated from the files, before its next use."""
        log.warning("the search index is not usable", extra={"why": str(error)})
        self._is_current = False
        self._doubts += 1

    def close(self) -> None:
        self._is_current = False
        self.index.close()

    async def update(
        self, write: Callable[[Callable[[], int | None]], Awaitable[int | None]]
    ) -> int:
        """Update the index from the files, which anybody may change, unless that was done recently.

        *write* runs one step as the only writer; other writes may come between two steps. Returns
        the number of indexed files. Raises DatabaseUnusable.
        """
        async with self._looking:
            began = trio.current_time()
            count = 0
            if self.is_ready and began < self._look_again:
                return count
            steps = self.catch_up()
            try:
                while (taken := await write(lambda: next(steps, None))) is not None:
                    count += taken
            finally:
                now = trio.current_time()
                self._look_again = now + max(LOOK_EVERY, LOOK_SHARE * (now - began))
            return count

    def catch_up(self) -> Iterator[int]:
        """Update the index from the files, in steps; yield the number of indexed files of each.

        A damaged index is rebuilt. The caller may do other work between steps. Raises
        DatabaseUnusable.
        """
        doubts = self._doubts
        try:
            yield from self._catch_up()
        except DatabaseUnusable as error:
            self._is_current = False
            if not error.damaged:
                raise
            self.index.discard()
            yield 0
            yield from self._catch_up()
        # Documents whose indexing failed between two steps are still missing.
        self._is_current = doubts == self._doubts

    def _catch_up(self) -> Iterator[int]:
        # Opening takes 4 ms and 0.7 MB, so without files it waits for the first one.
        self.is_empty = not self.index.exists and next(self._files.stamps(), None) is None
        if self.is_empty:
            return
        self._open()
        if not self._is_current:
            self.index.check()
        names = self._files.stamps()
        known = 0
        while step := dict(islice(names, self._step)):
            before = self.index.stamps(list(step))
            changed = [key for key, stamp in step.items() if before.get(key) != stamp]
            found = [one for key in changed if (one := self._files.document(key)) is not None]
            if found:
                self.index.put(found)
            known += len(before.keys() | {one.key for one in found})
            yield len(found)
        if self.index.count() != known:
            there = {key for key, _ in self._files.stamps()}
            if gone := [key for key in self.index.all_keys() if key not in there]:
                self.index.drop(gone)
        self.is_empty = not self.index.count()

    def look_up(self, fn: Callable[[], T]) -> T:
        """Search the index; if it is unusable, update it from the files first.

        Raises DatabaseUnusable.
        """
        if self.is_ready:
            try:
                return fn()
            except DatabaseUnusable as error:
                self.distrust(error)
        for _ in self.catch_up():
            pass
        return fn()

    def put(self, key: str) -> None:
        """Index the written file *key*; after a failure, it is indexed later."""
        document = self._files.document(key)
        self.is_empty = False
        try:
            self._open()
            if document is not None:
                self.index.put([document])
        except DatabaseUnusable as error:
            self.distrust(error)

    def drop(self, keys: Sequence[str]) -> None:
        """Remove these deleted files from the index, to the last byte.

        Raises DatabaseUnusable.
        """
        if not keys or not self.index.exists:
            return
        try:
            self._open()
            self.index.drop(keys)
        except DatabaseUnusable as error:
            # Then the whole index is discarded: it can be rebuilt, and must not contain them.
            self.distrust(error)
            self.index.discard()

    def _open(self) -> None:
        """Open the index; create it if it does not exist.  Raises DatabaseUnusable."""
        if not self.index.is_open:
            self._is_current = False
            self.index.open()
