"""A session's journal while the session lives: the one place where its entries are written."""

from collections.abc import Callable

import trio

from elwood.core.replay import Session
from elwood.core.session import Entry
from elwood.store.journal import Journal


class SessionLog:
    """Writes entries and tells who waits for a change.

    *publish* shows the state to `elwood inspect` after each entry, and None at the end.
    """

    def __init__(
        self, journal: Journal[Entry, Session], publish: Callable[[Session | None], None]
    ) -> None:
        self._journal = journal
        self._publish = publish
        self._changed = trio.Event()

    @property
    def state(self) -> Session:
        """What the log adds up to."""
        return self._journal.state

    async def open(self) -> None:
        """Read the log.  Raises JournalDamaged."""
        await self._journal.open()
        self._publish(self.state)

    async def record(self, *entries: Entry, last_words: bool = False) -> None:
        """Write *entries* as one, on the disk when this returns.

        Raises DiskFull; with *last_words* the reserved space is used before that.
        """
        await self._journal.append(*entries, last_words=last_words)
        self._publish(self.state)
        self.changed()

    def changed(self) -> None:
        """Wake who waits for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        """Wait for the next entry."""
        await self._changed.wait()

    def close(self) -> None:
        """The session leaves the memory."""
        self._publish(None)
