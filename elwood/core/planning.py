"""What is to be done now about the tasks of the timetable.

The timetable first writes down what `settle` finds, so that of the times up to now at most the
newest that can still run is left; then `agenda` says what to do.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Literal

import attrs
from msgspec.structs import replace

from elwood.core import tidings, timing
from elwood.core.cancelled import to_tell
from elwood.core.tasks import Task
from elwood.core.timetable import (
    Left,
    Passed,
    Planned,
    Row,
    Timetable,
    TimetableEntry,
)
from elwood.core.timing import Once, When

# Tasks at once; a person has dozens.  All are looked at each minute, and all may be told about.
MAX_TASKS = 200
# Seconds after a failed try until the next; a task that fails for longer is paused.
BACKOFF = (60.0, 300.0, 900.0, 3600.0)
# Planned times, the newest, of which it is asked one by one whether they fell outside of hours.
LOOKED = 2_000

OFF = "I was not running then, or could take no new work"
LONG = "the run before took so long"
FINISHED = "its last time has passed"


@attrs.frozen
class Run:
    """A run to begin, or to go on with if it has *begun*.

    *seen* is the fingerprint of what the task watched when it was last done well, at Unix time
    *good* (0: never); *trouble* why the last try failed.
    """

    task: Task
    planned: Planned
    begun: bool = False
    seen: str = ""
    good: float = 0.0
    trouble: str = ""


@attrs.frozen
class Agenda:
    """What is to be done; *next* is when to ask again.  Tasks of the sessions *let_go* are gone."""

    runs: tuple[Run, ...] = ()
    next: float | None = None
    tell: tidings.Telling | None = None
    let_go: tuple[str, ...] = ()


def following(row: Row) -> float | None:
    """Return the first planned time that is not dealt with.

    >>> following(Row(Task("t", "t", timing.Every(60.0)), series=1, mark=60.0))
    120.0
    """
    return upcoming(row.task.when, _reached(row), row.task.zone, row.task.id, row.task.ends)


def is_awake(task: Task, at: float) -> bool:
    """Tell whether a run of *task* may begin at *at*; the time of a reminder was chosen.

    >>> hours = timing.Hours("08:00", "22:00")
    >>> is_awake(Task("t", "t", timing.Cron("@hourly"), hours=hours), 0.0)
    False
    >>> is_awake(Task("t", "t", Once(0.0), hours=hours), 0.0)
    True
    """
    return isinstance(task.when, Once) or timing.is_active(task.hours, at, task.zone)


def is_news(task: Task) -> bool:
    """Tell whether the owner hears of it when *task* is missed.

    What looks at something can as well do so the next time.

    >>> is_news(Task("t", "t", Once(0.0))), is_news(Task("t", "t", Once(0.0), chore="backup"))
    (True, False)
    """
    return task.watch is None and not task.chore and task.origin != "heartbeat"


def may_try(row: Row, now: float) -> bool:
    """Tell whether what failed is to be tried again, be it now or later.

    >>> may_try(Row(Task("t", "t", Once(60.0)), 1, 60.0), 61.0)
    False
    """
    return row.again is not None and now - row.again.planned.due <= row.task.catch_up


def settle(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """List the planned times that can never run any more.

    >>> row = Row(Task("t", "t", timing.Every(60.0), watch=()), series=1, mark=0.0)
    >>> [(one.first, one.last) for one in settle(Timetable({"t": row}), 180.0, "UTC")]
    [(60.0, 120.0)]
    """
    found: list[TimetableEntry] = []
    for row in table.rows.values():
        if row.run is None and not row.gone and not row.paused:
            found += _told(row, _passed(row, now), zone)
    return found


def closing(row: Row, now: float, why: str, zone: str = "") -> list[TimetableEntry]:
    """Close all planned times up to *now*, *why*; the owner is told if there is a *zone*.

    >>> row = Row(Task("t", "t", timing.Every(60.0)), series=1, mark=0.0)
    >>> [(one.last, one.count) for one in closing(row, 180.0, "it was paused")]
    [(180.0, 3)]
    """
    return _told(row, _passed(row, now, why), zone)


def may_begin(row: Row, run: Planned, now: float) -> bool:
    """Tell whether *run* may begin now; meanwhile the clock may have been set.

    >>> row = Row(Task("t", "t", Once(60.0)), series=1, mark=0.0)
    >>> [may_begin(row, Planned("t", 60.0, series=1), now) for now in (60.0, 59.0)]
    [True, False]
    """
    found, _ = _look(row, now)
    in_time = run.is_wanted or now - run.due <= row.task.catch_up
    return found is not None and found.planned == run and in_time


def finished(table: Timetable, now: float) -> list[TimetableEntry]:
    """List the tasks made in conversations for which nothing is left to do.

    >>> row = Row(Task("t", "t", Once(60.0)), series=1, mark=60.0)
    >>> [one.why for one in finished(Timetable({"t": row}), 61.0)]
    ['its last time has passed']
    """
    return [
        Left(row.task.id, FINISHED)
        for row in table.rows.values()
        if row.task.origin == "talk" and not row.paused and _is_over(row, now)
    ]


def agenda(table: Timetable, now: float) -> Agenda:
    """Say what is to be done, when all that has passed by is settled; oldest first.

    >>> table = Timetable({"t": Row(Task("t", "t", Once(60.0)), series=1, mark=0.0)})
    >>> agenda(table, 0.0).next, agenda(table, 60.0).runs[0].planned.due
    (60.0, 60.0)
    """
    runs, times = [], []
    for row in table.rows.values():
        run, at = _look(row, now)
        if run is not None:
            runs.append(run)
        if at is not None:
            times.append(at)
    runs.sort(key=lambda run: (not run.begun, run.planned.attempt > 0, run.planned.due))
    next_, let_go = min(times, default=None), to_tell(table.cancelled, now)
    return Agenda(tuple(runs), next_, tidings.telling(table), let_go)


@lru_cache(maxsize=4 * MAX_TASKS)
def upcoming(when: When, after: float, zone: str, key: str, ends: float | None) -> float | None:
    """Return the first planned time after *after*, up to *ends*.

    >>> upcoming(timing.Every(60.0), 90.0, "UTC", "t", None)
    120.0
    """
    # Asked each minute with the same arguments, until that time has come.
    at = timing.next_at(when, after, zone, key)
    return None if at is None or (ends is not None and at > ends) else at


def _reached(row: Row) -> float:
    if row.run is None or row.run.planned.is_wanted:
        return row.mark
    return max(row.mark, row.run.planned.due)


def _is_over(row: Row, now: float) -> bool:
    busy = row.run is not None or row.wanted is not None
    return not busy and not may_try(row, now) and following(row) is None


def _passed(row: Row, now: float, why: str = "") -> Iterator[Passed]:
    """Find what has passed by; with *why* nothing may run any more, else the newest perhaps."""
    first, task = following(row), row.task
    if first is None or first > now:
        return
    until = now if task.ends is None else min(now, task.ends)
    after = _reached(row)
    times, count = timing.planned(task.when, after, until, task.zone, task.id, LOOKED)
    if not times:
        return
    if (hidden := count - len(times)) > 0:
        (last,), _ = timing.planned(task.when, after, times[0] - 1, task.zone, task.id, 1)
        yield Passed(task.id, first, last, hidden, "missed", why or OFF)
    awake = [at for at in times if is_awake(task, at)]
    if awake and not why and now - awake[-1] <= task.catch_up:
        times = times[: times.index(awake[-1])]

    def came(at: float) -> tuple[Literal["missed", "asleep"], str]:
        if not is_awake(task, at):
            return "asleep", ""
        return "missed", why or (LONG if at <= row.free else OFF)

    for (result, reason), group in groupby(times, came):
        part = list(group)
        yield Passed(task.id, part[0], part[-1], len(part), result, reason)


def _told(row: Row, passed: Iterable[Passed], zone: str) -> list[TimetableEntry]:
    """Have the last of the entries tell about all that was missed, in one line."""
    entries = list(passed)
    missed = [entry for entry in entries if entry.result == "missed"]
    if not (zone and missed and is_news(row.task)):
        return list(entries)
    first, last, count = missed[0].first, missed[-1].last, sum(entry.count for entry in missed)
    line = tidings.missed(row.task, first, last, count, missed[-1].why, zone)
    telling = replace(missed[-1], tell=line)
    return [telling if entry is missed[-1] else entry for entry in entries]


def _look(row: Row, now: float) -> tuple[Run | None, float | None]:
    """Return what may run now of a row that is settled, and when to look at it again."""
    task = row.task
    if row.run is not None:
        running = row.run
        return Run(running.task, running.planned, True, good=row.good), None
    if row.gone:
        return None, None
    if row.wanted is not None:
        return _run(row, Planned(task.id, row.wanted, 0, row.series)), None
    if row.paused:
        return None, None
    coming = following(row)
    if coming is not None and coming <= now:
        planned, at = Planned(task.id, coming, 1, row.series), now
    elif row.again is not None and may_try(row, now):
        planned, at = row.again.planned, row.again.at
        if at - now > BACKOFF[-1]:  # the clock was put back meanwhile
            at = now
    else:
        return None, coming
    if not isinstance(task.when, Once):
        at = timing.next_active(task.hours, max(at, now), task.zone)
    if at <= now:
        return _run(row, planned), None
    late = planned.due + task.catch_up + 1
    return None, min(time for time in (at, late, coming) if time is not None and time > now)


def _run(row: Row, planned: Planned) -> Run:
    return Run(row.task, planned, False, row.seen, row.good, row.trouble)
