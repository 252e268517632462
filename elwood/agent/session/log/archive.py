"""When a conversation is put away because nobody goes on with it."""

import logging
from collections.abc import Awaitable, Callable

import trio

from elwood.agent.session.log.entries import Archived
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.foundation.storage.disk import DiskFull

log = logging.getLogger("elwood.archiving")

# At the head of the first answer after it, once.
NOTE = "(I have put our last conversation away, as it was quiet; /resume brings it back.)\n\n"
# Seconds for approvals to end what was permitted: nothing is taken in meanwhile.
WITHDRAW_LIMIT = 5.0


def is_due(session: Session, last: float, now: float, after: float) -> bool:
    """Tell whether a session whose newest entry is of *last* has been quiet for *after* seconds.

    Nothing is due while anything is left to do, or waits for the owner.

    >>> is_due(Session(), 0.0, 1e9, 60.0)  # nothing was said that could be put away
    False
    """
    quiet = session.is_idle and not session.pending
    return quiet and bool(session.path) and now - last >= after


async def put_away_if_due(
    log_: SessionLog, withdraw: Callable[..., Awaitable[int]], now: float, after: float
) -> None:
    """Begin anew if the conversation was quiet for *after* seconds; `/resume` brings it back.

    Called by the loop that takes messages in, before each: so none can come meanwhile, and
    each finds a fresh conversation.  *withdraw* lets go of what waits for the owner.
    """
    if not is_due(log_.state, log_.last, now, after):
        return
    # What was permitted for the conversation ends with it, so that comes first.
    with trio.move_on_after(WITHDRAW_LIMIT) as scope:
        await withdraw(anew=True)
    if scope.cancelled_caught:
        log.warning("conversation was not put away", extra={"why": "approvals are away"})
        return
    try:
        await log_.record(Archived())
    except DiskFull as error:
        log.warning("conversation was not put away", extra={"why": str(error)})
