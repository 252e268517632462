"""Which tasks were cancelled: what their runs had asked the owner for is not to be done any more.

A task that came to its end by itself is none of them, be it that its own run ended it: what it has
asked for last may still be allowed.
"""

from collections.abc import Mapping

import msgspec

from elwood.features.tasks.task import Task, session_of

# Tasks that are remembered, the newest: nobody cancels more within the day that a question is open.
MAX_CANCELLED = 1_000
# Seconds for which a session is told again: two looks of the scheduler, which may be in a crash.
TOLD_FOR = 150.0


class Cancelled(msgspec.Struct, frozen=True):
    """The entry *seq*, of Unix time *at*, took a task away, whose runs were in *session*."""

    seq: int
    at: float
    session: str


def note(known: dict[str, Cancelled], task: Task, seq: int, at: float) -> None:
    """Add to *known*, by their ids, that *task* was cancelled."""
    known.pop(task.id, None)
    known[task.id] = Cancelled(seq, at, session_of(task))
    while len(known) > MAX_CANCELLED:
        del known[next(iter(known))]


def is_cancelled(known: Mapping[str, Cancelled], task: str, series: int) -> bool:
    """Tell whether *task* was cancelled after the entry *series*, from which a run was planned.

    >>> known = {"tea": Cancelled(7, 0.0, "task-tea")}
    >>> is_cancelled(known, "tea", 3), is_cancelled(known, "tea", 8), is_cancelled(known, "t", 3)
    (True, False, False)
    """
    found = known.get(task)
    return found is not None and series < found.seq


def to_tell(known: Mapping[str, Cancelled], now: float) -> tuple[str, ...]:
    """List the sessions that may not know yet.

    >>> known = {"tea": Cancelled(7, 0.0, "task-tea")}
    >>> to_tell(known, 60.0), to_tell(known, 3600.0)
    (('task-tea',), ())
    """
    fresh = (one.session for one in known.values() if 0 <= now - one.at < TOLD_FOR)
    return tuple(dict.fromkeys(fresh))
