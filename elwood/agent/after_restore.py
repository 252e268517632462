"""Lets go of what a conversation had under way when the backup was taken that it came out of."""

from datetime import datetime

from elwood.agent.session_log import SessionLog
from elwood.agent.surroundings import Surroundings
from elwood.core.after_restore import settle


async def let_go(id_: str, log: SessionLog, house: Surroundings) -> None:
    """Answer, and do not do, what is older than the restore; once, before anything is begun.

    All of it is recorded in one line, whose time is after the restore: a crash before it lets this
    happen again, and one after it does not.
    """
    restored = house.restored
    if restored is None or log.last >= restored.restored_at:
        return
    when = f"{datetime.fromtimestamp(restored.backup_at, house.zone):%Y-%m-%d %H:%M}"
    entries = settle(log.state, when)
    if not entries:
        return
    turn = log.state.turn
    asked = [kept.pending for kept in log.state.pending.values()]
    calls = turn.calls.values() if turn is not None else ()
    asked += [call.pending for call in calls if call.pending is not None and call.ended is None]
    if asked:
        # The owner's questions first, or they would stay open for calls that are gone.
        await house.gate(id_, log).seeking.withdraw(*asked)
    await log.keep(*entries, last_words=True)
