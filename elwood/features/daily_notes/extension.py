"""The daily notes' part in a conversation: what it writes into them, and what comes back."""

from collections.abc import Callable, Sequence

import trio

from elwood.agent.conversation.message import Human
from elwood.agent.session.extension import SessionExtension
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import FinishedTurn
from elwood.features.daily_notes.notes import is_first
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.confined import PathRefused, Unconfined

NOTE = "writing the daily note"
# Seconds that a turn waits for others, to be written together: writing is two syncs and a rename,
# and the note as a whole.
GATHER = 2.0


class DailyNotesExtension(SessionExtension):
    """The daily notes as one session uses them; notes that cannot be had or written hold up nobody.

    A turn that has ended is written a little later, with those of others.  Until the next one ends
    it stays in the session's state, so one that a crash kept out of its note is written at the next
    start; whoever ends the next one, or the session, must `settle` before.  *now* is Unix time.
    """

    def __init__(self, log: SessionLog, notes: DailyNotes, now: Callable[[], float]) -> None:
        self._id = log.id
        self._log = log
        self._notes = notes
        self._now = now
        self._gathered: FinishedTurn | None = None
        self._noted: FinishedTurn | None = None

    def is_due(self, inputs: Sequence[Received]) -> bool:
        """Tell whether a turn on *inputs* begins with the notes: the first of a day, the owner's.

        Nobody else is told what the owner did, in a group neither.
        """
        if not inputs or any(one.untrusted or one.errand for one in inputs):
            return False
        if not all(one.route.private for one in inputs):
            return False
        said = (node.message for node in self._log.state.path)
        texts = (message.text for message in said if isinstance(message, Human))
        return is_first(texts, self._notes.today(self._now()))

    async def opening(self, inputs: Sequence[Received]) -> str:
        """Read what a turn on *inputs* begins with; empty if with nothing."""
        if not self.is_due(inputs):
            return ""
        await self.settle()  # what was said here a moment ago comes back
        try:
            return await self._notes.recall(self._now())
        except (PathRefused, Unconfined) as error:
            report_error(NOTE, str(error))
            return ""

    async def turns_ended(self) -> None:
        """Have the newest turn that ended written soon; return when it was."""
        if self._gather():
            await trio.sleep(GATHER)
            await self.settle()

    async def settle(self) -> None:
        """Write the newest turn that ended into its day's note now, unless it stands there."""
        turn = self._log.state.done
        if not self._gather():
            return
        try:
            await self._notes.settle(self._id)
        except (PathRefused, Unconfined) as error:
            report_error(NOTE, str(error))
        else:
            clear_error(NOTE)
        self._noted = turn

    def _gather(self) -> bool:
        """Hand the newest turn that ended over, to be written; False if it has been written."""
        turn = self._log.state.done
        if turn is None or turn is self._noted:
            return False
        if turn is not self._gathered:
            self._notes.gather(self._id, turn)
            self._gathered = turn
        return True
