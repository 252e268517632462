"""Files that can be searched and their index, kept together.

The files are the truth; whatever the index lacks it takes from them.  Everything here blocks.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from elwood.foundation.storage.search_index import Document, Lookup, SearchIndex
from elwood.foundation.storage.sqlite import DatabaseUnusable

log = logging.getLogger("elwood.memory")

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

    *plain* looks into the files as long as the index cannot be relied on.
    """

    def __init__(
        self, files: DocumentFiles, path: Path, plain: Lookup, *, step: int = STEP
    ) -> None:
        self.index = SearchIndex(path)
        self._documents = files
        self._plain = plain
        self._step = step
        # Files that the index should have taken in and could not, since it caught up.
        self._missed = 0
        # How many files there are, as long as that is known.
        self._count: int | None = None
        # None was there when the files were last looked through, and none was put there since.
        self.is_empty = False

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
        """Bring the index up to the files, in steps: yields how many notes each took in.

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
        names = self._documents.stamps()
        while step := dict(islice(names, self._step)):
            self._need_open()
            before = self.index.stamps(list(step))
            known += len(before)
            changed = [key for key, stamp in step.items() if before.get(key) != stamp]
            read = map(self._documents.document, changed)
            if found := [document for document in read if document is not None]:
                self.index.put(found)
                self._count = None
            there += len(step)
            yield len(found)
        self.is_empty = there == 0
        if self.index.exists:
            self._need_open()
            yield from self._drop_gone(known)
            if not self.index.is_complete:
                self.index.complete()
        self._missed -= missed

    def discard(self) -> None:
        """Throw the index away; `catch_up` makes it anew.  Raises DatabaseUnusable."""
        self.index.discard()

    def tidy(self) -> None:
        """Keep the index fast, if there is one."""
        if self.index.exists:
            self._need_open()
            self._attempt(self.index.tidy)

    def rebuild(self) -> int:
        """Make the index anew, at once; return how many notes it has.  Raises DatabaseUnusable."""
        self.index.discard()
        return sum(self.catch_up())

    def by(self, fn: Callable[[Lookup], T]) -> T:
        """Look up by the index or, as long as that cannot be relied on, in the files."""
        if self.index.exists and not self._missed:
            try:
                if self.index.is_complete:
                    return fn(self.index)
            except DatabaseUnusable as error:
                log.warning("looking into every note", extra={"why": f"index: {error}"})
        return fn(self._plain)

    def count(self) -> int:
        """Count the notes."""
        if self._count is None:
            self._count = self._counted()
        return self._count

    def _counted(self) -> int:
        if self.index.exists:
            try:
                if self.index.is_complete:
                    return self.index.count()
            except DatabaseUnusable as error:
                log.warning("counting the files", extra={"why": f"index: {error}"})
        return sum(1 for _ in self._documents.stamps())

    def _drop_gone(self, known: int) -> Iterator[int]:
        """Drop what has no file any more; *known* notes of the index were seen to have one."""
        if self.index.count() == known:
            return
        after, gone = "", list[str]()
        while keys := self.index.keys(after, self._step):
            after = keys[-1]
            gone += [key for key in keys if not self._documents.there(key)]
            yield 0
        if gone:
            self.index.drop(gone)
            self._count = None

    def _need_open(self) -> None:
        if not self.index.is_open:
            self.index.open()

    def _attempt(self, fn: Callable[[], object]) -> bool:
        """Do something with the index; tell whether that worked."""
        try:
            fn()
        except DatabaseUnusable as error:
            log.warning("memory index not usable", extra={"why": str(error)})
            if error.damaged:
                self._discard()
            return False
        return True

    def _discard(self) -> None:
        try:
            self.index.discard()
        except DatabaseUnusable as error:
            log.warning("memory index not removed", extra={"why": str(error)})
