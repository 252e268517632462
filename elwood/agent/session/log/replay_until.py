"""Reads a session's log again: what it added up to once, and what has happened on a line since.

The functions take the whole log in order, entries with their numbers and times, and hold no more
of it than they give.
"""

from collections.abc import Collection, Iterable, Sequence

import attrs

from elwood.agent.session.log.entries import (
    Archived,
    CallEnded,
    CallStarted,
    Entry,
    Joined,
    Received,
    Resumed,
    Retried,
    Rewound,
    TurnStarted,
)
from elwood.agent.session.log.state import Session

Log = Iterable[tuple[int, float, Entry]]


def state_at(log: Log, to: int, without: Collection[str] = ()) -> Session:
    """Return what the entries up to *to* add up to, as if the messages *without* had not come.

    >>> state_at([], 0).messages
    ()
    """
    session = Session()
    for seq, at, entry in log:
        if seq > to:
            break
        match entry:
            case Received(id_) | Retried(id_) if id_ in without:
                continue
        session.apply(seq, at, entry)
    return session


def moved_to(entry: Entry) -> int | None:
    """Return where *entry* moves the head; None if it does not.

    >>> moved_to(Rewound(5)), moved_to(Archived())
    (5, 0)
    """
    match entry:
        case Rewound(to) | Resumed(to):
            return to
        case Archived():
            return 0
    return None


def spans(moves: Sequence[tuple[int, int]], head: int) -> list[tuple[int, int]]:
    """List the stretches of the log, both ends inclusive, that lie on the line up to *head*.

    *moves* are the entries that moved the head, in order, and where to.

    >>> spans([(10, 4), (15, 0), (20, 12)], 25)
    [(1, 4), (10, 12), (20, 25)]
    """
    found = []
    for at, to in reversed(moves):
        if at <= head:
            found.append((at, head))
            head = to
    if head:
        found.append((1, head))
    return found[::-1]


def is_on(seq: int, line: Sequence[tuple[int, int]]) -> bool:
    """Tell whether the entry *seq* lies on *line*."""
    return any(first <= seq <= last for first, last in line)


@attrs.frozen
class Since:
    """What has happened on the present line since an entry.

    *inputs* are the messages that became part of it, *notices* what the model was told before
    them, *turns* what was begun, *done* the calls that changed something, or may have.
    """

    inputs: tuple[Received, ...] = ()
    notices: tuple[str, ...] = ()
    turns: frozenset[str] = frozenset()
    done: tuple[CallEnded, ...] = ()


def since(log: Log, start: int) -> Since:
    """Say what has happened on the present line from the entry *start* on.

    >>> since([], 1)
    Since(inputs=(), notices=(), turns=frozenset(), done=())
    """
    session = Session()
    moves: list[tuple[int, int]] = []
    inputs: list[tuple[int, Received]] = []
    notices: list[tuple[int, str]] = []
    turns: list[tuple[int, str]] = []
    acting: set[tuple[str, str]] = set()
    done: list[tuple[int, CallEnded]] = []
    head = 0
    for seq, at, entry in log:
        head = seq
        to = moved_to(entry)
        if to is not None:
            moves.append((seq, to))
        match entry:
            case TurnStarted() | Joined() if seq >= start:
                waiting, told = session.waiting, session.notices
                inputs += [(seq, waiting[id_]) for id_ in entry.inputs if id_ in waiting]
                notices += [(seq, told[id_]) for id_ in entry.inputs if id_ in told]
                turns.append((seq, entry.turn))
            case CallStarted() if seq >= start and entry.effect != "pure":
                acting.add((entry.turn, entry.call))
            case CallEnded(turn, call, _, "ok" | "unknown") if (turn, call) in acting:
                done.append((seq, entry))
        session.apply(seq, at, entry)
    line = spans(moves, head)
    return Since(
        tuple(received for seq, received in inputs if is_on(seq, line)),
        tuple(notice for seq, notice in notices if is_on(seq, line)),
        frozenset(turn for seq, turn in turns if is_on(seq, line)),
        tuple(ended for seq, ended in done if is_on(seq, line)),
    )
