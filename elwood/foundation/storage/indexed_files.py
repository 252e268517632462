"""Files that can be searched, and their index in SQLite with FTS5.

The files are the truth.  The index can be thrown away at any time: what it lacks it takes from
them, and one that is damaged is made anew before it is asked again.  Everything here blocks.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol, TypeVar

from elwood.foundation.storage.search_index import DatabaseUnusable, Document, SearchIndex

log = logging.getLogger("elwood.search")

T = TypeVar("T")

# Files that are compared with the index at once, and indexed in one transaction: some 50 ms, for
# which whoever writes has to wait.  With fewer FTS5 merges more (measured: 128 cost a third more).
STEP = 256


class DocumentFiles(Protocol):
    """The files that are searched, by key; all block."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all files, by key and stamp, in no order."""

    def document(self, key: str, /) -> Document | None:
        """Read one; None if there is none."""

    def there(self, key: str, /) -> bool:
        """Tell whether there is something of this key."""


class IndexedFiles:
    """The *files*, and their index in the file *path*, which takes in *step* of them at once.

    Whoever reads checks `is_ready` before; all other methods are for the only writer.
    """

    def __init__(self, files: DocumentFiles, path: Path, *, step: int = STEP) -> None:
        self.index = SearchIndex(path)
        self._files = files
        self._step = step
        # Files that the index should have taken in and could not, since it caught up.
        self._missed = 0
        # None was there when the files were last looked through, and none was put there since.
        self.is_empty = False

    @property
    def is_ready(self) -> bool:
        """Whether the index has all that was ever put, and lacks only changes by others."""
        try:
            return self.index.exists and not self._missed and self.index.is_complete
        except DatabaseUnusable:
            return False

    def open(self) -> None:
        """Open the index for writing, if there is one."""
        if self.index.exists:
            self._attempt(self.index.open)

    def close(self) -> None:
        """Let go of the index."""
        self.index.close()

    def check(self) -> None:
        """Throw a damaged index away, so that it is made anew by `catch_up`."""
        if self.index.exists:
            self._attempt(self.index.check)

    def catch_up(self) -> Iterator[int]:
        """Bring the index up to the files, in steps: yields how many files each took in.

        Whoever goes through the steps may do other things between them.  Raises DatabaseUnusable.
        """
        try:
            yield from self._catch_up()
        except DatabaseUnusable as error:
            if not error.damaged:
                raise
            self.index.discard()
            yield 0
            yield from self._catch_up()

    def _catch_up(self) -> Iterator[int]:
        missed, known, there = self._missed, 0, 0
        names = self._files.stamps()
        first = dict(islice(names, 1))
        if not first and not self.index.exists:
            self.is_empty = True
            return  # nobody needs an index of nothing
        names = chain(first.items(), names)
        self.need_open()
        while step := dict(islice(names, self._step)):
            self.need_open()
            before = self.index.stamps(list(step))
            known += len(before)
            changed = [key for key, stamp in step.items() if before.get(key) != stamp]
            found = [one for key in changed if (one := self._files.document(key)) is not None]
            if found:
                self.index.put(found)
            there += len(step)
            yield len(found)
        self.is_empty = there == 0
        self.need_open()
        yield from self._drop_gone(known)
        if not self.index.is_complete:
            self.index.complete()
        self._missed -= missed

    def repair(self) -> None:
        """Throw the index away if it is damaged, and bring it up to the files.

        Raises DatabaseUnusable.
        """
        self.check()
        for _ in self.catch_up():
            pass

    def look_up(self, fn: Callable[[SearchIndex], T]) -> T:
        """Look up by the index, which is made anew before if it is no good.

        Raises DatabaseUnusable.
        """
        try:
            if self.is_ready:
                return fn(self.index)
        except DatabaseUnusable as error:
            log.warning("search index repaired", extra={"why": str(error)})
        self.repair()
        if not self.index.exists:
            self.need_open()
            self.index.complete()
        return fn(self.index)

    def put(self, key: str) -> None:
        """Take in the file *key*, which was written; what cannot be done now is done later."""
        document = self._files.document(key)
        is_first = self.is_empty and not self.index.exists
        self.is_empty = False

        def index() -> None:
            self.need_open()
            if document is not None:
                self.index.put([document])
            if is_first:
                self.index.complete()

        if not self._attempt(index):
            self._missed += 1

    def drop(self, keys: Sequence[str]) -> None:
        """Let no byte of these files, which were removed, stay in the index.

        Raises DatabaseUnusable.
        """
        if not keys or not self.index.exists:
            return
        try:
            self.need_open()
            self.index.drop(keys)
        except DatabaseUnusable as error:
            # Then the index goes as a whole: it can be made anew, and must not keep them.
            log.warning("search index thrown away", extra={"why": str(error)})
            self.index.discard()

    def need_open(self) -> None:
        """Open the index for writing, and make it if there is none.  Raises DatabaseUnusable."""
        if not self.index.is_open:
            self.index.open()

    def _drop_gone(self, known: int) -> Iterator[int]:
        """Drop what has no file any more; *known* documents were seen to have one."""
        if self.index.count() == known:
            return
        after, gone = "", list[str]()
        while keys := self.index.keys(after, self._step):
            after = keys[-1]
            gone += [key for key in keys if not self._files.there(key)]
            yield 0
        if gone:
            self.index.drop(gone)

    def _attempt(self, fn: Callable[[], object]) -> bool:
        """Do something with the index; tell whether that worked."""
        try:
            fn()
        except DatabaseUnusable as error:
            log.warning("search index not usable", extra={"why": str(error)})
            if error.damaged:
                self._discard()
            return False
        return True

    def _discard(self) -> None:
        try:
            self.index.discard()
        except DatabaseUnusable as error:
            log.warning("search index not removed", extra={"why": str(error)})
