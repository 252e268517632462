"""Keeps the indexes of the memory up to the files, which anybody may change at any time."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import trio

from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.sqlite import DatabaseUnusable

log = logging.getLogger("elwood.memory")

T = TypeVar("T")

# Seconds after which a search has the files looked through for changes by hand; with many files
# that is as many times the time it takes, so that it is a twentieth of the work at most.
LOOK_EVERY, LOOK_SHARE = 5.0, 20.0
# Seconds after which an index is tried again that could not be brought up to date.
TRY_AGAIN = 60.0

INDEX = "memory index"


class Write(Protocol):
    """Runs a function as the only writer of the memory."""

    def __call__(self, fn: Callable[[], T], /) -> Awaitable[T]: ...


class Upkeep:
    """Brings the indexes of *catalogs* up to their files; *done* is told each time."""

    def __init__(
        self, catalogs: Sequence[IndexedFiles], write: Write, done: Callable[[], object]
    ) -> None:
        self._catalogs = catalogs
        self._write = write
        self._tell = done
        self._due = trio.Event()
        self._done = trio.Event()
        self._looked = -math.inf
        self._took = 0.0
        # Those that have not been looked through for damage.
        self._unchecked = list(catalogs)

    async def run(self) -> None:
        """Look now, and whenever that is wanted, until cancelled."""
        self._due.set()
        while True:
            await self._due.wait()
            self._due = trio.Event()
            began = trio.current_time()
            troubles = [why for one in self._catalogs if (why := await self._bring_up(one))]
            self._looked = trio.current_time()
            if troubles:
                report_error(INDEX, "; ".join(troubles))
                self._looked += TRY_AGAIN
            else:
                clear_error(INDEX)
                self._took = self._looked - began
            self._done.set()
            self._done = trio.Event()
            self._tell()

    def insist(self) -> None:
        """Have the files looked through, whenever that was done last."""
        self._due.set()

    def want(self) -> bool:
        """Have changes by hand looked for; False if that was done just now."""
        if trio.current_time() < self._looked + max(LOOK_EVERY, LOOK_SHARE * self._took):
            return False
        self._due.set()
        return True

    async def look(self, wait: float) -> None:
        """Have changes by hand looked for, if that was not done just now, and *wait* a little."""
        done = self._done
        if self.want():
            with trio.move_on_after(wait):
                await done.wait()

    async def _bring_up(self, catalog: IndexedFiles) -> str:
        """Bring one index up to its files; say what kept us from it."""
        try:
            if catalog in self._unchecked:
                await self._write(catalog.check)
            await self._go_through(catalog.catch_up())
        except DatabaseUnusable as error:
            log.warning("memory index not up to date", extra={"why": str(error)})
            return str(error)
        if catalog in self._unchecked:
            self._unchecked.remove(catalog)
        return ""

    async def _go_through(self, steps: Iterator[int]) -> None:
        count = 0
        while (took := await self._write(lambda: next(steps, None))) is not None:
            count += took
        if count:
            log.info("memory index up to date", extra={"files taken in": count})
