"""Puts a conversation away that nobody has gone on with for long."""

import logging

import trio

from elwood.agent.session.log.archive import is_due
from elwood.agent.session.log.branch_entries import Archived
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.turn.runner import TurnRunner
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.foundation.storage.journal import DiskFull

log = logging.getLogger("elwood.archiving")

# Seconds for approvals to end what was permitted: nothing is taken in meanwhile.
WITHDRAW_LIMIT = 5.0


class Archive:
    """Puts the conversation of one session away; `/resume` brings it back."""

    def __init__(self, log_: SessionLog, runner: TurnRunner, house: Surroundings) -> None:
        self._log = log_
        self._runner = runner
        self._house = house

    async def put_away_if_due(self) -> None:
        """Begin anew if the conversation was quiet for long enough.

        Called by the loop that takes messages in, before each: so none can come meanwhile, and
        each finds a fresh conversation.
        """
        house = self._house
        if not is_due(self._log.state, self._log.last, house.now(), house.archive):
            return
        # What was permitted for the conversation ends with it, so that comes first.
        with trio.move_on_after(WITHDRAW_LIMIT) as scope:
            await self._runner.withdraw(anew=True)
        if scope.cancelled_caught:
            log.warning("conversation was not put away", extra={"why": "approvals are away"})
            return
        try:
            await self._log.record(Archived())
        except DiskFull as error:
            log.warning("conversation was not put away", extra={"why": str(error)})
