"""Files that can be searched, and their index in SQLite with FTS5.

The files are the truth.  The index can be thrown away at any time: what it lacks it takes from
them, and one that is damaged is made anew before it is asked again.
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

# Files that are compared with the index at once, and indexed in one transaction: some 50 ms, for
# which whoever writes has to wait.  With fewer FTS5 merges more (measured: 128 cost a third more).
STEP = 256
# Seconds after which files are looked through for changes again; with many files that is as many
# times the time it takes, so that it is a twentieth of the work at most.
LOOK_EVERY, LOOK_SHARE = 5.0, 20.0


class DocumentFiles(Protocol):
    """The files that are searched, by key; all block."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all files, by key and stamp, in no order."""

    def document(self, key: str, /) -> Document | None:
        """Read one; None if there is none."""


class IndexedFiles:
    """The *files*, and their index in the file *path*, which takes in *step* of them at once.

    Whoever reads checks `is_ready` before; all other methods are for the only writer.  But for
    `look` they block.
    """

    def __init__(self, files: DocumentFiles, path: Path, *, step: int = STEP) -> None:
        self.index = SearchIndex(path)
        self._files = files
        self._step = step
        # It has caught up with the files since it was opened, and has taken in all that was put.
        self._is_current = False
        self._doubts = 0
        # Nothing was there when it had caught up, and nothing was put since.
        self.is_empty = False
        self._looking = Lock()
        self._look_again = -math.inf

    @property
    def is_ready(self) -> bool:
        """Whether the index has all that was ever put, and lacks only changes by others."""
        return self._is_current and (self.is_empty or self.index.exists)

    def distrust(self, error: DatabaseUnusable) -> None:
        """Have it looked through for damage, and brought up to the files, before it is used."""
        log.warning("search index not usable", extra={"why": str(error)})
        self._is_current = False
        self._doubts += 1

    def close(self) -> None:
        self._is_current = False
        self.index.close()

    async def look(self, write: Callable[[Callable[[], int | None]], Awaitable[int | None]]) -> int:
        """Bring the index up to the files, which anybody may change, unless that was done just now.

        *write* does one step as the only writer; others may write between two.  Says how many files
        were taken in.  Raises DatabaseUnusable.
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
        """Bring the index up to the files, in steps: yields how many files each took in.

        One that is damaged is made anew.  Whoever goes through the steps may do other things
        between them.  Raises DatabaseUnusable.
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
        # What could not be taken in between two steps is missing still.
        self._is_current = doubts == self._doubts

    def _catch_up(self) -> Iterator[int]:
        # To open it takes 4 ms and 0.7 MB: without files that waits for the first one.
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
        """Look up by the index, which is brought up to the files before if it is no good.

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
        """Take in the file *key*, which was written; what cannot be done now is done later."""
        document = self._files.document(key)
        self.is_empty = False
        try:
            self._open()
            if document is not None:
                self.index.put([document])
        except DatabaseUnusable as error:
            self.distrust(error)

    def drop(self, keys: Sequence[str]) -> None:
        """Let no byte of these files, which were removed, stay in the index.

        Raises DatabaseUnusable.
        """
        if not keys or not self.index.exists:
            return
        try:
            self._open()
            self.index.drop(keys)
        except DatabaseUnusable as error:
            # Then the index goes as a whole: it can be made anew, and must not keep them.
            self.distrust(error)
            self.index.discard()

    def _open(self) -> None:
        """Open the index, and make it if there is none.  Raises DatabaseUnusable."""
        if not self.index.is_open:
            self._is_current = False
            self.index.open()
