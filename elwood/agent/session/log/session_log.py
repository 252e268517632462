"""A session's journal while the session is loaded. All its entries are written here."""

import logging
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import trio

from elwood.agent.conversation.message import Notice, Results, texts
from elwood.agent.session.log.entries import Entry, Received
from elwood.agent.session.log.state import (
    GiveUpTurn,
    Resume,
    Session,
    Start,
    account_name,
    inputs,
    next_work,
)
from elwood.agent.session.log.turns import Turn
from elwood.foundation.runtime import Signal
from elwood.foundation.storage.disk import write_or_report
from elwood.foundation.storage.journal import Journal

log = logging.getLogger("elwood.sessions")

T = TypeVar("T")
WRITE = "writing the conversation's log"
# Seconds between two tries to write on a full disk, doubling up to the last.
FIRST_PAUSE, LAST_PAUSE = 1.0, 10.0


class SessionLog:
    """Write entries and wake the tasks that wait for a change.

    *publish* shows the state of the session *id_* to `elwood inspect` after each entry, and None
    at the end. *moving* are the names of the commands that move the conversation.
    """

    def __init__(
        self,
        id_: str,
        journal: Journal[Entry, Session],
        publish: Callable[[str, Session | None], None],
        moving: Collection[str],
    ) -> None:
        self.id = id_
        self._journal = journal
        self._publish = publish
        self._moving = moving
        self._changed = Signal()
        self._awaited: list[tuple[Callable[[], bool], trio.Event]] = []

    @property
    def state(self) -> Session:
        """The state that the log adds up to."""
        return self._journal.state

    @property
    def turn(self) -> Turn:
        """The open turn. There must be one."""
        turn = self.state.turn
        assert turn is not None, "there is no open turn"
        return turn

    def inputs(self) -> tuple[Received, ...]:
        """Return the waiting messages that a turn may take."""
        return inputs(self.state, self._moving)

    def next_work(self) -> Start | Resume | GiveUpTurn | None:
        """Return the next step for turns."""
        return next_work(self.state, self._moving)

    @property
    def account(self) -> str:
        """The account that model calls are charged to: the session's present conversation."""
        return account_name(self.id, self.state.conversation)

    @property
    def last(self) -> float:
        """When the newest entry was written, Unix time."""
        return self._journal.last

    @property
    def size(self) -> int:
        """The size of the newest file in bytes."""
        return self._journal.size

    async def look_since(
        self, since: float, read: Callable[[Session, Iterator[tuple[int, float, Entry]]], T]
    ) -> T:
        """Return the result of *read* for a state before the entry *since* and the log after it.

        Raises JournalDamaged, and HistoryGone if that part was deleted.
        """
        return await self._journal.look_since(since, read)

    def sees(self, text: str) -> bool:
        """Return True if a result or notice that the model still sees contains *text*."""
        return any(
            text in one
            for node in self.state.path
            if isinstance(node.message, Results | Notice)
            for one in texts(node.message)
        )

    async def open(self) -> None:
        """Read the log.  Raises JournalDamaged."""
        await self._journal.open()
        self._publish(self.id, self.state)

    async def stage(self, entry: Entry) -> None:
        """Apply *entry* to the state now and write it with the next line, which saves a write.

        Only for entries that matter together with the next record: a crash before that loses them.
        """
        await self._journal.stage(entry)
        self._tell_changed()

    async def record(self, *entries: Entry) -> None:
        """Write *entries* as one and sync them to the disk.

        Raises DiskFull, so that nothing is done without its record.
        """
        await self._journal.append(*entries)
        self._tell_changed()

    async def record_ahead(self, written: Callable[[], object], *entries: Entry) -> None:
        """Do as `record`, and call *written* as soon as the entries survive a kill.

        Only for actions that may be repeated after a power cut, or that stay invisible outside
        until the next line is synced.
        """

        def tell() -> None:
            self._tell_changed()
            written()

        await self._journal.append(*entries, written=tell)

    async def keep(self, *entries: Entry, last_words: bool = False, synced: bool = True) -> None:
        """Write *entries* as one; wait as long as the disk is full.

        The turn waits with its results in memory, because a crash would lose them and end in
        giving up. *last_words* have happened already, so they may use the reserved space. If not
        *synced*, a power cut may lose the entries and their consequences: only for work that may
        be repeated.
        """
        pause = FIRST_PAUSE
        while not await write_or_report(
            WRITE, self._journal.append(*entries, last_words=last_words, synced=synced)
        ):
            await trio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)
        self._tell_changed()

    def get_changed(self) -> None:
        self._changed.give()
        for is_so, event in self._awaited:
            if is_so():
                event.set()

    async def wait_change(self) -> None:
        await self._changed.wait()

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until *is_so* returns True. Changes check it without waking the task.

        The condition may be false again when this returns.
        """
        if is_so():
            await trio.lowlevel.checkpoint()
            return
        awaited = is_so, trio.Event()
        self._awaited.append(awaited)
        try:
            await awaited[1].wait()
        finally:
            self._awaited.remove(awaited)

    def close(self) -> None:
        """Withdraw the published state: the session leaves the memory."""
        self._publish(self.id, None)

    def _tell_changed(self) -> None:
        self._publish(self.id, self.state)
        self.get_changed()
