"""Which planned times have passed by without a run, and what the owner hears of it."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

from msgspec.structs import replace

from elwood.core import tidings, timing
from elwood.core.planning import following, is_awake, is_news, reached
from elwood.core.schedule import Passed, TimetableEntry
from elwood.core.timetable import Row, Timetable

# Planned times, the newest, of which it is asked one by one whether they fell outside of hours.
LOOKED = 2_000

OFF = "I was not running then, or could take no new work"
LONG = "the run before took so long"


def settle(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """List the planned times that can never run any more.

    >>> from elwood.core.tasks import Task
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

    >>> from elwood.core.tasks import Task
    >>> row = Row(Task("t", "t", timing.Every(60.0)), series=1, mark=0.0)
    >>> [(one.last, one.count) for one in closing(row, 180.0, "it was paused")]
    [(180.0, 3)]
    """
    return _told(row, _passed(row, now, why), zone)


def _passed(row: Row, now: float, why: str = "") -> Iterator[Passed]:
    """Find what has passed by; with *why* nothing may run any more, else the newest perhaps."""
    first, task = following(row), row.task
    if first is None or first > now:
        return
    until = now if task.ends is None else min(now, task.ends)
    after = reached(row)
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
