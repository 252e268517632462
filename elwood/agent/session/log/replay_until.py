"""Reads a session's log again: what it added up to once, and what has happened on a line since.

The functions take the whole log in order, entries with their numbers and times, and hold no more
of it than they give.
"""

from collections.abc import Collection, Iterable, Sequence

from elwood.agent.session.log.entries import Archived, Entry, Received, Resumed, Retried, Rewound
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
