"""What follows from the end of a run."""

from elwood.features.tasks import texts
from elwood.features.tasks.due_runs import BACKOFF, following, upcoming
from elwood.features.tasks.entries import (
    Ended,
    Halted,
    Planned,
    TimetableEntry,
)
from elwood.features.tasks.missed_runs import closing
from elwood.features.tasks.state import Row
from elwood.features.tasks.task import PAUSE_AFTER, TELL_AFTER, Result


def ended(
    row: Row,
    run: Planned,
    result: Result,
    words: str,
    acted: bool,
    now: float,
    zone: str,
    told: bool = False,
) -> list[TimetableEntry]:
    """Say what follows from the end of a run: a further try, a word to the owner, a pause.

    What *acted* is not tried again; of a failure that the owner is *told* of by its conversation
    there is no further word.

    >>> from elwood.features.tasks.task import Task
    >>> from elwood.features.tasks.when import Once
    >>> row = Row(Task("t", "t", Once(60.0)), series=1, mark=0.0)
    >>> run = Planned("t", 60.0, series=1)
    >>> ended(row, run, "failed", "no net", False, 70.0, "UTC")[0].again
    130.0
    """
    words = texts.brief(words)
    if result != "failed":
        tell = result == "spent" and not told and (acted or row.result != "spent")
        line = texts.not_done(row.task, words, acted=acted) if tell else ""
        return [Ended(run, result, words, tell=line)]
    wanted = run.is_wanted
    count = row.failed + 1 if row.owns(run) else 1
    if count >= PAUSE_AFTER and not row.paused and not row.gone:
        why = f"it failed {count} times in a row: {words}"
        halted = Halted(row.task.id, why, texts.paused(row.task, count, words))
        return [Ended(run, result, words), *closing(row, now, why), halted]
    again = None
    if not (acted or wanted or row.paused or row.gone or run.series != row.series):
        again = now + BACKOFF[min(run.attempt, len(BACKOFF)) - 1]
        then = upcoming(row.task.when, run.due, row.task.zone, row.task.id, row.task.ends)
        if (then is not None and then <= again) or again - run.due > row.task.catch_up:
            again = None
    last = again is None and following(row) in (None, run.due)
    # What it did nobody has seen: the answer of a failed run is not sent.
    tell = not told and (count == TELL_AFTER or wanted or last or acted)
    line = texts.failed(row.task, count, words, again, zone, acted=acted) if tell else ""
    return [Ended(run, result, words, again, line)]
