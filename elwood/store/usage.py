"""The book of what models cost: the usage journal, and the limits that it decides about."""

from collections.abc import Callable

import trio

from elwood.core.budget import (
    Charged,
    Ledger,
    Limits,
    No,
    Spent,
    Yes,
    allowed,
    charge,
    spent,
)
from elwood.core.conversation import Usage
from elwood.runtime import trouble, well
from elwood.store.journal import DiskFull, Journal


class UsageBook:
    """Notes each call, and answers what has been and what may be spent.

    *now* is the Unix clock; a day begins at midnight in *zone* (IANA name).
    """

    def __init__(
        self,
        journal: Journal[Charged, Ledger],
        limits: Limits,
        zone: str,
        now: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._zone = zone
        self._now = now
        self._owed: list[Charged] = []
        self._writing = trio.Lock()

    async def open(self) -> None:
        """Read the journal; raises what `Journal.open` raises."""
        await self._journal.open()

    def spent(self, session: str) -> Spent:
        """Sum up for people."""
        return spent(self._limits, self._journal.state, session, self._now(), self._zone)

    def allowed(self, session: str) -> Yes | No:
        """Decide whether *session* may make a call now."""
        return allowed(self._limits, self._journal.state, session, self._now(), self._zone)

    async def settle(self) -> bool:
        """Write what is owed; False if the disk is full, and then no call may be made."""
        return not self._owed or await self._write()

    def owe(self, session: str, model: str, usage: Usage) -> None:
        """Note what a call cost: in memory, until `settle` has written it."""
        entry = charge(session, model, usage, now=self._now(), zone=self._zone)
        self._owed.append(entry)

    async def note(self, session: str, model: str, usage: Usage) -> None:
        """Note what a call cost, and write it.

        On a full disk it stays owed, and stops further calls until it is written.
        """
        self.owe(session, model, usage)
        await self._write()

    async def _write(self) -> bool:
        """Write what is owed, one line for all who wait here; False if the disk is full."""
        async with self._writing:
            batch = tuple(self._owed)
            try:
                await self._journal.append(*batch, last_words=True)
            except DiskFull as error:
                trouble("usage journal", str(error))
                return False
            del self._owed[: len(batch)]
            well("usage journal")
            return True
