"""How tasks look to people: what ran last, and what comes next."""

from elwood.features.tasks import when as timing
from elwood.features.tasks.due_runs import following, is_awake, may_try
from elwood.features.tasks.state import Row
from elwood.features.tasks.task import Seen

# Planned times that are tried to find one within the hours.
TRIED = 200


def seen(row: Row, now: float) -> Seen:
    """Show a task as people see it.

    >>> from elwood.features.tasks.task import Task
    >>> seen(Row(Task("t", "t", timing.Once(60.0)), series=1, mark=0.0), 5.0).next
    60.0
    """
    running = None if row.run is None else row.run.at
    coming = None if row.paused else _coming(row, now)
    return Seen(
        row.task,
        coming,
        running,
        row.last,
        row.result,
        row.words,
        row.paused,
        row.failed,
    )


def _coming(row: Row, now: float) -> float | None:
    """Find when *row* runs next, for people."""
    if row.wanted is not None:
        return now
    if row.again is not None and may_try(row, now):
        return row.again.at
    task, at = row.task, following(row)
    for _ in range(TRIED):
        if at is None or is_awake(task, at):
            return at and max(at, now)
        begins = timing.next_active(task.hours, at, task.zone)
        at = timing.next_at(task.when, begins - 1, task.zone, task.id)
        at = None if at is None or (task.ends is not None and at > task.ends) else at
    return None
