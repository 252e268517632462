"""When things are planned: cron, intervals, moments, cadences, and hours in which they may run.

Times are Unix seconds, zones are IANA names that were checked before.  cronsim reads a cron
expression and finds the dates and times it fits as if clocks never changed; what changes do to them
is decided here, by the rules of Debian's cron (cron(8)).  cronsim knows these rules too, but loses
times where clocks change by other than whole hours (Lord Howe, Chatham).
"""

import math
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from hashlib import sha256
from itertools import takewhile
from typing import Literal

import msgspec
from cronsim import CronSim, CronSimError

from elwood.agent.conversation.settings import clock_change, local_time, moment_at

# Seconds.  What runs more often than each minute should be a program, not a task.
MIN_EVERY = 60.0
MAX_EVERY = 366 * 86_400.0
# Unix seconds of 2200-01-01: nothing later is planned, and dates are far from their end in 9999.
LATEST = 7_258_118_400.0
# Planned times that are told one by one; the rest are only counted.
MOST = 100
# Seconds.  Planned times that are older when they are looked for are not even counted.
OLDEST = 10 * 366 * 86_400.0
_OUT_OF_RANGE = "times are from 1970 to 2200"
_HOUR = 3600
_DAY = 86_400
# Days that every month has.
_MONTH = 28
# crontab(5) of Debian.  Not @reboot, which is no time.
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Characters; all sixty minutes one by one take 169.
MAX_EXPRESSION = 300
_FIELDS = (
    ("minute", "0-59", 60),
    ("hour", "0-23", 24),
    ("day of the month", "1-31, or L for the last one", 31),
    ("month", "1-12 or jan-dec", 12),
    ("day of the week", "0-7 (0 and 7 are Sunday) or sun-sat", 7),
)
_FORM = "write minute, hour, day, month and day of the week, like 30 7 * * 1-5, or one of "
# Seconds in which no zone changes its clocks twice; longer than any change, which are 24 h at most.
_WINDOW = 2 * _DAY
_SECOND = timedelta(seconds=1)
_BEGINNING = datetime(2000, 1, 1)  # noqa: DTZ001 -- what the clock on a wall shows has no zone


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """By a cron expression of five fields, or @hourly, @daily, @weekly … as in crontab(5)."""

    expression: str


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Each *seconds* after *start*, whatever the clocks show; not at *start* itself."""

    seconds: float
    start: float = 0.0


class Once(msgspec.Struct, frozen=True, tag="once"):
    """At one moment."""

    at: float


class Cadence(msgspec.Struct, frozen=True, tag="cadence"):
    """Once in each hour, day, week or month, at a time of its own that depends on the key."""

    word: Literal["hourly", "daily", "weekly", "monthly"]


When = Cron | Every | Once | Cadence


def next_at(when: When, after: float, zone: str, key: str = "") -> float | None:
    """Return the first planned time after *after*; None if there is none any more.

    What changes of clocks do is written at `cron_moments`.  *key* is the task's id; it spreads
    cadences.
    """
    after = max(after, -1.0)
    if after >= LATEST:
        return None
    match _settled(when, key):
        case Once(at):
            found: float | None = at if at > after else None
        case Every() as every:
            found = _moment(every, _passed(every, after) + 1)
        case Cron(expression):
            found = next(cron_moments(expression, after, zone), None)
    return None if found is None or found > LATEST else float(found)


def planned(
    when: When, after: float, until: float, zone: str, key: str = "", most: int = MOST
) -> tuple[tuple[float, ...], int]:
    """Return the newest *most* planned times in (*after*, *until*], and how many there are.

    Intervals are reckoned, cron expressions counted by days: a year takes milliseconds.  What is
    older than OLDEST before *until* is left out.
    """
    until = min(until, LATEST)
    after = max(after, until - OLDEST, -1.0)
    match _settled(when, key):
        case Once(at):
            times: tuple[float, ...] = (at,) if after < at <= until else ()
            return times[:most], len(times)
        case Every() as every:
            first, last = _passed(every, after), _passed(every, until)
            newest = range(max(first, last - most) + 1, last + 1)
            return tuple(_moment(every, number) for number in newest), max(0, last - first)
        case Cron(expression):
            found, count = _cron_planned(expression, after, until, zone, most)
            return tuple(map(float, found)), count


def check(when: When) -> str:
    """Say what is wrong with *when* and what to write instead; "" if it is fine."""
    match when:
        case Cron(expression):
            return cron_problem(expression)
        case Every(seconds, start):
            if seconds < MIN_EVERY:
                return f"every {seconds:g} seconds is too often: the least is {MIN_EVERY:g} seconds"
            if not seconds <= MAX_EVERY:
                days = f"every {seconds / _DAY:g} days"
                return f"{days} is too seldom: the most is {MAX_EVERY / _DAY:g} days"
            return "" if 0 <= start <= LATEST else _OUT_OF_RANGE
        case Once(at):
            return "" if 0 <= at <= LATEST else _OUT_OF_RANGE
        case Cadence():
            return ""


def _passed(every: Every, at: float) -> int:
    """Count the planned times up to and with *at*."""
    number = max(0, math.floor((at - every.start) / every.seconds))
    # The quotient is rounded: it may be off by one.
    while number > 0 and _moment(every, number) > at:
        number -= 1
    while _moment(every, number + 1) <= at:
        number += 1
    return number


def _moment(every: Every, number: int) -> float:
    return every.start + number * every.seconds


def _settled(when: When, key: str) -> Cron | Every | Once:
    """Give a cadence its time, by a hash, so that it is the same for ever and on all machines."""
    if not isinstance(when, Cadence):
        return when
    place = int.from_bytes(sha256(f"{when.word} {key}".encode()).digest()[:8])
    if when.word == "hourly":
        return Every(_HOUR, start=place % _HOUR)
    days, seconds = divmod(place, _DAY)
    clock = f"{seconds % 60} {seconds // 60 % 60} {seconds // 3600}"
    match when.word:
        case "daily":
            return Cron(f"{clock} * * *")
        case "weekly":
            return Cron(f"{clock} * * {days % 7}")
        case "monthly":
            return Cron(f"{clock} {days % _MONTH + 1} * *")


# --- cron ----------------------------------------------------------------------------------------


def cron_problem(expression: str) -> str:
    """Say what is wrong with *expression* and what to write instead; "" if it is fine.

    >>> cron_problem("*/5 8-18 * * mon-fri"), cron_problem("@daily")
    ('', '')
    >>> cron_problem("0 25 * * *")
    "'25' is no hour: write 0-23"
    >>> cron_problem("0 0 31 4 *")
    "no day ever fits '0 0 31 4 *'"
    """
    if len(expression) > MAX_EXPRESSION:
        return f"a cron expression has at most {MAX_EXPRESSION} characters"
    given = cron_fields(expression)
    if len(given) != len(_FIELDS):
        return f"{expression!r} is no cron expression: {_FORM}{' '.join(ALIASES)}"
    for position, (name, span, size) in enumerate(_FIELDS):
        field = given[position]
        alone = ["*"] * len(_FIELDS)
        alone[position] = field
        if not _comes(alone):
            return f"{field!r} is no {name}: write {span}"
        steps = [part.partition("/")[2] for part in field.split(",")]
        if any(int(step or 0) >= size for step in steps):
            return f"{field!r} steps over every {name}: write 'every 90 minutes' or the like"
    return "" if _comes(given) else f"no day ever fits {expression!r}"


def cron_fields(expression: str) -> list[str]:
    """Return the fields of *expression*, or of what it stands for."""
    # cronsim takes 8-8/2 for 8/2, which is 8, 10, 12 …; it is 8 alone.
    given = re.sub(r"\b(\w+)-\1/\d+", r"\1", expression)
    return ALIASES.get(given.strip().lower(), given).split()


def cron_moments(expression: str, after: float, zone: str) -> Iterator[int]:
    """Return the moments after *after* that *expression* means, until there is none in 50 years.

    Jobs that run at fixed times run once for each of them: those that fall into a gap when it
    ends, and where an hour comes twice in the first one.  Jobs whose minute or hour begins with *
    run whenever the clock shows a time that fits, so in both hours, and never in a gap.

    cron(8) takes changes of three hours and more for corrections of a wrong clock; they are
    treated like the others here.

    >>> first = next(cron_moments("30 1 * * *", 1774740000, "Europe/London"))
    >>> local_time(first, "Europe/London").isoformat()
    '2026-03-29T02:00:00'
    """
    minute, hour = cron_fields(expression)[-5:-3]
    if minute.startswith("*") or hour.startswith("*"):
        return _whenever_it_fits(expression, math.floor(after) + 1, zone)
    return _once_each(expression, after, zone)


def _once_each(expression: str, after: float, zone: str) -> Iterator[int]:
    for fitting in _matcher(expression, local_time(after, zone)):
        if (at := moment_at(fitting, zone)) > after:
            yield at
            after = at


def _whenever_it_fits(expression: str, at: int, zone: str) -> Iterator[int]:
    while True:
        changed = clock_change(at, at + _WINDOW, zone)
        end = changed or at + _WINDOW
        here = local_time(at, zone)
        for fitting in _matcher(expression, here - _SECOND):
            then = at + int((fitting - here).total_seconds())  # as long as no clock changes
            if then >= end:
                break
            yield then
        else:
            return
        # No change on the way can lead back before *end*, or further ahead than a window.
        at = changed or max(end, then - _WINDOW)


def _cron_planned(
    expression: str, after: float, until: float, zone: str, most: int
) -> tuple[tuple[int, ...], int]:
    """Return the newest *most* moments in (*after*, *until*], and how many there are.

    Goes back day by day.  A day on which no clock changes is counted without looking at its
    times, so that ten years of every minute take as long as ten years of every week.

    """
    matcher = _matcher(expression, _BEGINNING)
    clock = sorted(
        hour * 3600 + minute * 60 + second
        for hour in matcher.hours
        for minute in matcher.minutes
        for second in matcher.seconds
    )
    newest: list[int] = []
    count = 0
    day, end = local_time(until, zone).date(), until
    while end > after:
        begin = max(moment_at(datetime.combine(day, time()), zone) - 1, after)
        if end - begin == _DAY and clock_change(int(begin), int(end) + 1, zone) is None:
            fits = day.month in matcher.months and matcher.match_day(day)
            count += len(clock) if fits else 0
            if fits and len(newest) < most:
                newest[:0] = [int(begin) + 1 + seconds for seconds in clock]
        else:
            times = list(takewhile(end.__ge__, cron_moments(expression, begin, zone)))
            count += len(times)
            newest[:0] = times if len(newest) < most else []
        end, day = begin, date.fromordinal(day.toordinal() - 1)
    return tuple(newest[max(0, len(newest) - most) :]), count


def _matcher(expression: str, after: datetime) -> CronSim:
    return CronSim(" ".join(cron_fields(expression)), after)


def _comes(given: list[str]) -> bool:
    try:
        return next(CronSim(" ".join(given), _BEGINNING), None) is not None
    except CronSimError:
        return False
