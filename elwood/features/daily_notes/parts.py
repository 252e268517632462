"""Build the daily notes for one run of the app and for each session."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import date
from functools import partial

import trio

from elwood.agent.conversation.message import Human
from elwood.agent.conversation.settings import Owner
from elwood.agent.models.settings import can_think
from elwood.agent.parts import Chore, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.extension import Opening, SessionExtension, TakenBack
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.turns import FinishedTurn
from elwood.features.daily_notes.notes import due_reflections, is_first, request
from elwood.features.daily_notes.settings import DailyNotesSettings
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.features.daily_notes.tools import command, tools
from elwood.foundation.runtime import ActorUnavailable, clear_error, report_error
from elwood.foundation.storage.anchors import Anchor
from elwood.foundation.storage.confined import PathRefused, Unconfined

DAY = 86_400.0
NOTE = "writing the daily note"
# Seconds that a turn waits for others, to write them together: a write takes two syncs, a rename,
# and the whole note.
GATHER = 2.0
# Seconds that a new note waits for the head of the records.
ANCHOR_WAIT = 5.0


async def build(core: Core, others: Gathered) -> Parts:
    """Build the notes, which all sessions share, their search and their chores."""
    blocking, paths = core.environment.blocking, core.paths
    zone = core.config.get(Owner).zone

    async def anchor() -> str:
        with suppress(ActorUnavailable), trio.move_on_after(ANCHOR_WAIT):
            return await core.anchoring.ask(Anchor())
        return ""

    bounds = core.config.get(DailyNotesSettings)
    notes = DailyNotes(core.workspace, zone, blocking, core.redactor, anchor, bounds)
    search = DailyNoteSearch(paths.state, paths.workspace, blocking, notes.write_all_turns)
    # The offline model cannot reflect.
    thinks = can_think(core.config, "cheap")
    chore = Chore(
        id="reflections",
        title="reflect on the week or month",
        every=DAY,
        do=partial(reflect, notes, core.clock.now),
        tools=("read_file", "write_file"),
    )
    reflects = thinks and bounds.reflections
    return Parts(
        sessions=[partial(DailyNotesExtension, notes, core.clock.now)],
        chores=[chore] if reflects else [],
        searches=[search],
        tools=tools(notes),
        commands=[command(notes)],
    )


async def reflect(notes: DailyNotes, now: Callable[[], float], last: float) -> Report:
    """Request the oldest reflection that is due, one at a time."""
    try:
        names = await notes.names()
    except (PathRefused, Unconfined) as error:
        return Report(str(error), failed=True)
    due = due_reflections(names, date.fromisoformat(notes.today(now())))
    return Report(prompt=request(due[0])) if due else Report("no reflection is due")


class DailyNotesExtension(SessionExtension):
    """The daily notes of one session; a failure to read or write them never stops a turn.

    A finished turn stays in the session's state until the next one ends, so after a crash it is
    written at the next start.  Call `finish_previous_turn` before the next turn or the session
    ends.  *now* is Unix time.
    """

    def __init__(self, notes: DailyNotes, now: Callable[[], float], log: SessionLog) -> None:
        self._notes = notes
        self._now = now
        self._log = log
        self._gathered: FinishedTurn | None = None

    def _is_due(self, inputs: Sequence[Received]) -> bool:
        """Return True if a turn on *inputs* begins with the notes: the owner's first of a day.

        Guests and groups must not see them.
        """
        if not inputs or any(one.untrusted or one.bounds for one in inputs):
            return False
        if not all(one.route.private for one in inputs):
            return False
        messages = (node.message for node in reversed(self._log.state.path))  # the newest first
        texts = (message.text for message in messages if isinstance(message, Human))
        return is_first(texts, self._notes.today(self._now()))

    def get_opening(self, inputs: Sequence[Received]) -> Opening | None:
        return self._recall if self._is_due(inputs) else None

    async def _recall(self) -> str:
        """Read the notes to recall; empty if there are none."""
        await self.finish_previous_turn()  # include the last turn of this session
        try:
            return await self._notes.recall(self._now())
        except (PathRefused, Unconfined) as error:
            report_error(NOTE, str(error))
            return ""

    async def remove_turns(self, gone: TakenBack) -> None:
        """Remove the turns from their days' notes."""
        self._gathered = self._log.state.done
        try:
            await self._notes.leave_out(self._log.id, gone.turns)
        except (PathRefused, Unconfined) as error:
            report_error(NOTE, str(error))

    @property
    def work(self) -> Callable[[], Awaitable[None]]:
        return self._write_turns

    async def _write_turns(self) -> None:
        """Write each finished turn soon, together with those of other sessions."""
        while True:
            await self._log.wait_until(lambda: self._log.state.turn is None and self._has_new_turn)
            if self._log.state.turn is None and self._queue_turn():
                await trio.sleep(GATHER)
                await self.finish_previous_turn()

    async def finish_previous_turn(self) -> None:
        """Write the newest finished turn into its day's note now, unless it is there."""
        self._queue_turn()
        try:
            if await self._notes.write_turns(self._log.id):
                clear_error(NOTE)
        except (PathRefused, Unconfined) as error:
            report_error(NOTE, str(error))

    @property
    def _has_new_turn(self) -> bool:
        turn = self._log.state.done
        return turn is not None and turn is not self._gathered

    def _queue_turn(self) -> bool:
        """Queue the newest finished turn for writing; False if it was queued before."""
        turn = self._log.state.done
        if turn is None or not self._has_new_turn:
            return False
        self._notes.gather(self._log.id, turn)
        self._gathered = turn
        return True
