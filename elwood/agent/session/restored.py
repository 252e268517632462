"""State folders that were restored from a backup: their note, and the entries they require.

Work in progress at the backup may have been done since. So it is reported and not continued.
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
    "I was restored from a backup of {}. I did not continue my work from that time{}, because it "
    "may have been done since. If something is still missing, please ask again."
)
AGAIN = (
    "I was restored from a backup of {}. I may have handled your message after that backup, so I "
    "did not handle it again. If it is still needed, please send it again."
)


class Restored(msgspec.Struct, frozen=True):
    """The state is from *backup_at*, and was restored at *restored_at* (Unix times)."""

    backup_at: float
    restored_at: float


class RestoredDamaged(Exception):
    """The note was edited; the backup must be restored again."""


def read_restored(state: Path) -> Restored | None:
    """Return when the state folder *state* was last restored; None if it never was.

    Raises OSError, and RestoredDamaged if the note was edited.
    """
    path = state / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Restored)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RestoredDamaged(f"{path} was changed: restore the backup again") from error


def describe_doubt(received: Received, restored: Restored | None, zone: tzinfo) -> str:
    """Return a warning if the replaced state may have handled a message before; else "".

    A channel sends messages again that were not confirmed in time.
    """
    if restored is None or received.bounds is not None:
        return ""
    if not restored.backup_at < received.sent_at <= restored.restored_at:
        return ""
    return AGAIN.format(_when(restored, zone))


async def close_old_work(
    log: SessionLog,
    restored: Restored | None,
    zone: tzinfo,
    at: Callable[[Route], Channel],
    withdraw: Callable[..., Awaitable[None]],
) -> None:
    """Answer, without running it, all work that is older than the restore; once, before other work.

    It is recorded as one line with a time after the restore: after a crash before that this happens
    again, after a later one it does not. *at* returns the channel of a route; *withdraw* closes
    questions to the owner.
    """
    if restored is None or log.last >= restored.restored_at:
        return
    known = closing_entries(log.state, _when(restored, zone), at)
    if not known:
        return
    turn = log.state.turn
    asked = [kept.pending for kept in log.state.pending.values()]
    calls = turn.calls.values() if turn is not None else ()
    asked += [call.pending for call in calls if call.pending is not None and call.ended is None]
    if asked:
        # First the owner's questions, or they would stay open for calls that are gone.
        await withdraw(*asked)
    await log.keep(*known, last_words=True)


def closing_entries(
    session: Session, when: str, at: Callable[[Route], Channel]
) -> tuple[Entry, ...]:
    """Return the entries, for one line, that close all work from before the restore.

    Calls get their known outcomes. The open turn and all waiting messages get one answer with the
    time of the backup, *when*; it is not sent if only runs of tasks wait. Unsent parts will be sent
    with the mark of a repeat.
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
        under_way, footer = f" (I was {turn.under_way})", activity([*turn.receipts, *ended])
    said = [received for received in heard if received.bounds is None]
    # The task list shows the outcomes of runs; no person waits for their answers.
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
