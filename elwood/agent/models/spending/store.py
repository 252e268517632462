"""The book of what models cost: the usage journal, and the limits that it decides about."""

from collections.abc import Callable, Mapping

import msgspec
import trio

from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.task_run import Purse
from elwood.agent.models.settings import Limits
from elwood.agent.models.spending.budget import Bill, in_warning, limit_reached, warnings
from elwood.agent.models.spending.ledger import Ledger, UsageEntry, charge
from elwood.agent.models.spending.report import Spent, spent
from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.journal import Journal


class Caller(msgspec.Struct, frozen=True):
    """For whom a model is asked: a conversation and, if it is one, a *job* with its *purse*."""

    session: str
    job: str = ""
    purse: Purse | None = None


class UsageBook:
    """Notes each call, and answers what has been and what may be spent.

    *now* is the Unix clock; a day begins at midnight in *zone* (IANA name).
    """

    def __init__(
        self,
        journal: Journal[UsageEntry, Ledger],
        limits: Limits,
        zone: str,
        now: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._zone = zone
        self._now = now
        self._owed: list[Bill] = []
        self._warn: Callable[[str], None] = lambda text: None
        self._writing = trio.Lock()

    async def open(self) -> None:
        """Read the journal; raises what `Journal.open` raises."""
        await self._journal.open()

    def on_warning(self, warn: Callable[[str], None]) -> None:
        """From now on have *warn* tell the owner what was written down, once; it must not wait."""
        self._warn = warn

    def spent(self, session: str, purses: Mapping[str, Purse]) -> Spent:
        """Sum up for people."""
        ledger = self._journal.state
        return spent(self._limits, ledger, session, self._now(), self._zone, purses)

    def limit_reached(self, caller: Caller) -> str | None:
        """Say why a call may not be made now; None if it may."""
        return limit_reached(
            self._limits,
            self._journal.state,
            caller.session,
            self._now(),
            self._zone,
            job=caller.job,
            purse=caller.purse,
        )

    async def settle(self) -> bool:
        """Write what is owed; False if the disk is full, and then no call may be made."""
        return not self._owed or await self._write()

    def owe(self, caller: Caller, model: str, usage: Usage) -> None:
        """Note what a call cost: in memory, until `settle` has written it."""
        session, job = caller.session, caller.job
        entry = charge(session, model, usage, now=self._now(), zone=self._zone, job=job)
        self._owed.append(Bill(entry, caller.purse))

    async def note(self, caller: Caller, model: str, usage: Usage) -> None:
        """Note what a call cost, and write it.

        On a full disk it stays owed, and stops further calls until it is written.
        """
        self.owe(caller, model, usage)
        await self._write()

    async def _write(self) -> bool:
        """Write what is owed, one line for all who wait here; False if the disk is full.

        It is not synced: what a turn cost stands in its conversation as well, so that a power cut
        loses some counting only.  A warning is: it is given once.
        """
        async with self._writing:
            batch = tuple(self._owed)
            warned = warnings(self._limits, self._journal.state, batch)
            charged = (bill.entry for bill in batch)
            try:
                await self._journal.append(*charged, *warned, last_words=True, synced=bool(warned))
            except DiskFull as error:
                report_error("usage journal", str(error))
                return False
            del self._owed[: len(batch)]
            clear_error("usage journal")
            for one in warned:
                self._warn(in_warning(one, self._zone))
            return True
