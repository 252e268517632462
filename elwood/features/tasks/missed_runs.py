"""Which planned times have passed by without a run, and what the owner hears of it."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal

from msgspec.structs import replace

from elwood.features.tasks import texts
from elwood.features.tasks import time_ranges as stretches
from elwood.features.tasks import when as timing
from elwood.features.tasks.due_runs import (
    following,
    is_awake,
    is_news,
    is_over,
)
from elwood.features.tasks.entries import (
    LONG,
    ClockSet,
    Passed,
    Summed,
    TimetableEntry,
)
from elwood.features.tasks.state import Row, Timetable

# Planned times, the newest, of which it is asked one by one whether they fell outside of hours.
LOOKED = 2_000

# Seconds by which the clock must be found behind what was dealt with to be taken as put right: less
# is an hour set wrong, or a zone taken for another, and tasks rest until it is made up.
FAR = 86_400.0

# Seconds between two words about a task whose runs outlast its interval.
TELL_LONG = 86_400.0

OFF = "I was not running then, or could take no new work"
ONCE_A_DAY = " I tell you of more of that once a day, with their count."


def turned(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """Find that the clock was put back far, or forth again after that.

    >>> from elwood.features.tasks.task import Task
    >>> table = Timetable({"t": Row(Task("t", "t", timing.Every(60.0)), series=1, mark=900_000.0)})
    >>> [one.to for one in turned(table, 0.0, "UTC")], turned(table, 890_000.0, "UTC")
    ([0.0], [])
    """
    latest = table.latest
    if latest - now > FAR:
        return [ClockSet(now, texts.set_back(latest, now, zone))]
    # What slept as long over that very moment is taken for it, too; it was told once.
    if 0 < table.was <= now and now - latest > FAR:
        return [ClockSet(now)]
    return []


def settle(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """List the planned times that can never run any more.

    >>> from elwood.features.tasks.task import Task
    >>> row = Row(Task("t", "t", timing.Every(60.0), watch=()), series=1, mark=0.0)
    >>> [(one.first, one.last) for one in settle(Timetable({"t": row}), 180.0, "UTC")]
    [(60.0, 120.0)]
    """
    found: list[TimetableEntry] = []
    for row in table.rows.values():
        if row.unsaid is not None and (_may_say(row, now) or is_over(row, now)):
            first, last, count = row.unsaid.first, row.unsaid.last, row.unsaid.count
            line = texts.missed(row.task, first, last, count, LONG, zone)
            found.append(Summed(row.task.id, line))
        if row.run is None and not row.gone and not row.paused:
            found += _told(row, _passed(row, now), now, zone)
    return found


def closing(row: Row, now: float, why: str, zone: str = "") -> list[TimetableEntry]:
    """Close all planned times up to *now*, *why*; the owner is told if there is a *zone*.

    >>> from elwood.features.tasks.task import Task
    >>> row = Row(Task("t", "t", timing.Every(60.0)), series=1, mark=0.0)
    >>> [(one.last, one.count) for one in closing(row, 180.0, "it was paused")]
    [(180.0, 3)]
    """
    return _told(row, _passed(row, now, why), now, zone)


def _passed(row: Row, now: float, why: str = "") -> Iterator[Passed]:
    """Find what has passed by; with *why* nothing may run any more, else the newest perhaps."""
    first = following(row)
    if first is None or first > now:
        return
    until = now if row.task.ends is None else min(now, row.task.ends)
    *older, newest = stretches.gaps(row.ran, row.mark, until)
    for after, end in older:
        yield from _within(row, after, end, now, why or OFF)
    yield from _within(row, *newest, now, why)


def _within(row: Row, after: float, until: float, now: float, why: str) -> Iterator[Passed]:
    task = row.task
    times, count = timing.planned(task.when, after, until, task.zone, task.id, LOOKED)
    if not times:
        return
    if (hidden := count - len(times)) > 0:
        first = timing.next_at(task.when, after, task.zone, task.id)
        (last,), _ = timing.planned(task.when, after, times[0] - 1, task.zone, task.id, 1)
        assert first is not None
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


def _may_say(row: Row, now: float) -> bool:
    return row.said is None or not 0 <= now - row.said < TELL_LONG


def _told(row: Row, passed: Iterable[Passed], now: float, zone: str) -> list[TimetableEntry]:
    """Have the last of the entries tell about all that was missed, in one line; or do so later."""
    entries = list(passed)
    missed = [entry for entry in entries if entry.result == "missed"]
    if not (zone and missed and is_news(row.task)):
        return list(entries)
    long = all(entry.why == LONG for entry in missed)
    if long and (row.unsaid is not None or not _may_say(row, now)):
        return [replace(entry, later=entry.result == "missed") for entry in entries]
    first, last, count = missed[0].first, missed[-1].last, sum(entry.count for entry in missed)
    line = texts.missed(row.task, first, last, count, missed[-1].why, zone)
    telling = replace(missed[-1], tell=f"{line}{ONCE_A_DAY}" if long else line)
    return [telling if entry is missed[-1] else entry for entry in entries]
