"""Lets go of what a conversation had under way when the backup was taken that it came out of."""

from datetime import datetime

from elwood.agent.session.log.after_restore import settle
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.restored import Restored
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.turn.surroundings import Surroundings

AGAIN = (
    "I was restored from a backup of {}. This may have been done since, so I have not done it; ask "
    "again if it is still to be done."
)


def doubtful(received: Received, house: Surroundings) -> str:
    """Say why a message may have been dealt with by the state that a backup replaced; else "".

    A channel gives out again what it was not told in time that we had.
    """
    restored = house.restored
    if restored is None or received.errand is not None:
        return ""
    if not restored.backup_at < received.sent_at <= restored.restored_at:
        return ""
    return AGAIN.format(_when(restored, house))


async def let_go(id_: str, log: SessionLog, house: Surroundings) -> None:
    """Answer, and do not do, what is older than the restore; once, before anything is begun.

    All of it is recorded in one line, whose time is after the restore: a crash before it lets this
    happen again, and one after it does not.
    """
    restored = house.restored
    if restored is None or log.last >= restored.restored_at:
        return
    entries = settle(log.state, _when(restored, house))
    if not entries:
        return
    turn = log.state.turn
    asked = [kept.pending for kept in log.state.pending.values()]
    calls = turn.calls.values() if turn is not None else ()
    asked += [call.pending for call in calls if call.pending is not None and call.ended is None]
    if asked:
        # The owner's questions first, or they would stay open for calls that are gone.
        await house.gate(id_, log).approvals.withdraw(*asked)
    await log.keep(*entries, last_words=True)


def _when(restored: Restored, house: Surroundings) -> str:
    return f"{datetime.fromtimestamp(restored.backup_at, house.zone):%Y-%m-%d %H:%M}"
