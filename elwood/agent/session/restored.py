"""A state folder that came out of a backup: the note of it, and what conversations record then.

What was under way when the backup was taken may have been done since; so it is told, and not gone
on with.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from elwood.agent.channels.channel import Channel
from elwood.agent.conversation.calls import Outcome
from elwood.agent.conversation.message import INTERRUPTED
from elwood.agent.conversation.route import Route
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import CallEnded, Entry, Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import OpenCall
from elwood.agent.session.reading.receipts import activity

NAME = "restored.json"
TOLD = (
    "I was restored from a backup of {}. What was under way then{} I have not gone on with, as it "
    "may have been done since. Ask again for what is still to be done."
)
AGAIN = (
    "I was restored from a backup of {}. This may have been done since, so I have not done it; ask "
    "again if it is still to be done."
)


class Restored(msgspec.Struct, frozen=True):
    """The state is as it was at *backup_at*, and was put here at *restored_at* (Unix times)."""

    backup_at: float
    restored_at: float


class RestoredDamaged(Exception):
    """Somebody changed the note; the backup must be restored again."""


def restored(state: Path) -> Restored | None:
    """Read when the state folder *state* was restored last; None if it never was.

    Raises OSError, and RestoredDamaged if somebody edited it.
    """
    path = state / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Restored)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RestoredDamaged(f"{path} was changed: restore the backup again") from error


def doubtful(received: Received, restored: Restored | None, zone: tzinfo) -> str:
    """Say why a message may have been dealt with by the state that a backup replaced; else "".

    A channel gives out again what it was not told in time that we had.
    """
    if restored is None or received.bounds is not None:
        return ""
    if not restored.backup_at < received.sent_at <= restored.restored_at:
        return ""
    return AGAIN.format(_when(restored, zone))


async def let_go(
    log: SessionLog,
    restored: Restored | None,
    zone: tzinfo,
    at: Callable[[Route], Channel],
    withdraw: Callable[..., Awaitable[None]],
) -> None:
    """Answer, and do not do, what is older than the restore; once, before anything is begun.

    All of it is recorded in one line, whose time is after the restore: a crash before it lets this
    happen again, and one after it does not.  *at* returns the channel of a route;
    *withdraw* takes back the owner's questions.
    """
    if restored is None or log.last >= restored.restored_at:
        return
    known = settle(log.state, _when(restored, zone), at)
    if not known:
        return
    turn = log.state.turn
    asked = [kept.pending for kept in log.state.pending.values()]
    calls = turn.calls.values() if turn is not None else ()
    asked += [call.pending for call in calls if call.pending is not None and call.ended is None]
    if asked:
        # The owner's questions first, or they would stay open for calls that are gone.
        await withdraw(*asked)
    await log.keep(*known, last_words=True)


def settle(session: Session, when: str, at: Callable[[Route], Channel]) -> tuple[Entry, ...]:
    """List the entries, for one line, after which nothing of before the restore is left to be done.

    Calls come to what is known of them; the open turn and all that waits are answered with when
    the backup was taken, *when*, in silence if only runs of tasks wait; what was not sent yet will
    be sent marked as a repeat.
    """
    known: list[Entry] = []
    for undelivered in session.undelivered.values():
        replied = undelivered.replied
        messages = at(replied.route).render(replied.text, replied.footer)
        for part in range(len(messages)):
            if part not in undelivered.posted:
                attempt = undelivered.attempts.get(part, 0) + 1
                known.append(entries.Posting(replied.reply, part, attempt))
    for kept in session.pending.values():
        one = kept.pending
        known.append(entries.CallDecided(one.turn, one.call, one.plan, "withdrawn"))
    turn, heard, under_way, footer = session.turn, [*session.waiting.values()], "", ""
    if turn is not None:
        ended = [_ended(turn.id, call) for call in turn.calls.values() if call.ended is None]
        known += ended
        heard = [*turn.inputs, *heard]
        under_way, footer = f" ({turn.under_way})", activity([*turn.receipts, *ended])
    said = [received for received in heard if received.bounds is None]
    # Of runs the timetable tells what became: nobody waits for their answers.
    quiet = not said and (turn is None or turn.bounds is not None)
    place = next(iter(said or heard), turn)
    if place is not None:
        id_, reply = (turn.id, turn.id) if turn is not None else (None, heard[0].id)
        ids = tuple(received.id for received in heard)
        text = TOLD.format(when, under_way)
        known.append(
            entries.Replied(reply, id_, ids, place.route, text, footer, failed=True, quiet=quiet)
        )
    return tuple(known)


def _ended(turn: str, call: OpenCall) -> CallEnded:
    outcome: Outcome = "denied"
    text, target = "not begun before the backup was taken", ""
    if call.started is not None:
        pure = call.started.effect == "pure"
        outcome, text = ("failed", "cut off") if pure else ("unknown", INTERRUPTED)
        target = call.started.target
    elif call.pending is not None:
        target = call.pending.target
    name, number = call.call.name, call.number
    return CallEnded(turn, call.key, name, outcome, text, target, ruling=call.ruling, number=number)


def _when(restored: Restored, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(restored.backup_at, zone):%Y-%m-%d %H:%M}"
