"""What people and Elwood said on one line of a conversation, and what was done: for people to read.

Read from the log: the words of people as they came, answers as they were delivered, calls from
their receipts.
"""

from collections.abc import Callable, Iterable

import attrs
import msgspec

from elwood.agent.conversation.labels import Label
from elwood.agent.session.log.branch_entries import Retried
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Entry,
    Joined,
    Received,
    Replied,
    TurnStarted,
)
from elwood.agent.session.log.replay_until import is_on, moved_to, spans
from elwood.agent.session.reading.audit import Row, rows


@attrs.frozen
class Words:
    """*who* said *text* at Unix time *at*; *foreign* words are not the sender's own."""

    at: float
    who: str
    text: str
    foreign: bool = False


@attrs.frozen
class Answer:
    """What Elwood answered at Unix time *at*; *failed* if it only says why there is no answer."""

    at: float
    text: str
    failed: bool = False


@attrs.frozen
class Done:
    """A call, with all its steps."""

    at: float
    row: Row


Item = Words | Answer | Done


def telling(
    session: str, log: Iterable[tuple[int, float, Entry]], redact: Callable[[str], str]
) -> list[Item]:
    """List what stands on the line up to the end of *log*, in order; *redact* takes secrets out.

    Commands and their answers are left out, and so is what was taken back.

    >>> telling("s", [], str)
    []
    """
    moves: list[tuple[int, int]] = []
    waiting: dict[str, Received] = {}
    found: list[tuple[int, Item]] = []
    steps: list[tuple[int, float, Entry]] = []
    head = 0
    for seq, at, entry in log:
        head = seq
        to = moved_to(entry)
        if to is not None:
            moves.append((seq, to))
        match entry:
            case Received():
                waiting[entry.id] = entry
            case Retried(input=id_) if id_ in waiting:
                waiting[id_] = _asked_again(waiting[id_], entry)
            case TurnStarted(inputs=inputs) | Joined(inputs=inputs):
                taken = [waiting.pop(id_) for id_ in inputs if id_ in waiting]
                found += [(seq, _words(at, one, redact)) for one in taken if one.text.strip()]
            case CallPending() | CallDecided() | CallStarted() | CallEnded():
                steps.append((seq, at, entry))
            case Replied(turn=turn):
                for id_ in entry.inputs:
                    waiting.pop(id_, None)
                if turn is not None and entry.text:
                    found.append((seq, Answer(at, redact(entry.text), entry.failed)))
    line = spans(moves, head)
    items = [item for seq, item in found if is_on(seq, line)]
    calls = rows(session, [(at, entry) for seq, at, entry in steps if is_on(seq, line)])
    items += [Done(row.at, _clean(row, redact)) for row in calls]
    # A stable order: what was written in one line stays as it was.
    return sorted(items, key=lambda item: item.at)


def label(items: Iterable[Item]) -> Label:
    """Join the labels of everything that was told.

    >>> label([Words(0.0, "me", "hello", foreign=True)])
    Label(untrusted=True, private=False)
    """
    joined = Label()
    for item in items:
        match item:
            case Words(foreign=foreign):
                joined |= Label(untrusted=foreign)
            case Done(row=row):
                joined |= row.label
    return joined


def _words(at: float, received: Received, redact: Callable[[str], str]) -> Words:
    return Words(at, received.principal, redact(received.text), received.untrusted)


def _clean(row: Row, redact: Callable[[str], str]) -> Row:
    row.target = redact(row.target)
    row.tool = redact(row.tool)
    return row


def _asked_again(command: Received, retried: Retried) -> Received:
    untrusted = command.untrusted or retried.untrusted
    return msgspec.structs.replace(command, text=retried.text, untrusted=untrusted)
