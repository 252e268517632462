"""Cron expressions, and the moments they mean in zones that change their clocks.

cronsim reads an expression and finds the dates and times it fits as if clocks never changed; what
changes do to them is decided here, by the rules of Debian's cron (cron(8)).  cronsim knows these
rules too, but loses times where clocks change by other than whole hours (Lord Howe, Chatham).
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import takewhile
from math import floor

from cronsim import CronSim, CronSimError

from elwood.features.tasks import timezones as wall

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
_DAY = 86_400  # seconds
# Seconds in which no zone changes its clocks twice; longer than any change, which are 24 h at most.
_WINDOW = 2 * _DAY
_SECOND = timedelta(seconds=1)
_BEGINNING = datetime(2000, 1, 1)  # noqa: DTZ001 -- what the clock on a wall shows has no zone


def complaint(expression: str) -> str:
    """Say what is wrong with *expression* and what to write instead; "" if it is fine.

    >>> complaint("*/5 8-18 * * mon-fri"), complaint("@daily")
    ('', '')
    >>> complaint("0 25 * * *")
    "'25' is no hour: write 0-23"
    >>> complaint("0 0 31 4 *")
    "no day ever fits '0 0 31 4 *'"
    """
    if len(expression) > MAX_EXPRESSION:
        return f"a cron expression has at most {MAX_EXPRESSION} characters"
    given = fields(expression)
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


def fields(expression: str) -> list[str]:
    """Return the fields of *expression*, or of what it stands for.

    >>> fields("@weekly"), fields("0 8-8/2 * * *")
    (['0', '0', '*', '*', '0'], ['0', '8', '*', '*', '*'])
    """
    # cronsim takes 8-8/2 for 8/2, which is 8, 10, 12 …; it is 8 alone.
    given = re.sub(r"\b(\w+)-\1/\d+", r"\1", expression)
    return ALIASES.get(given.strip().lower(), given).split()


def moments(expression: str, after: float, zone: str) -> Iterator[int]:
    """Return the moments after *after* that *expression* means, until there is none in 50 years.

    Jobs that run at fixed times run once for each of them: those that fall into a gap when it
    ends, and where an hour comes twice in the first one.  Jobs whose minute or hour begins with *
    run whenever the clock shows a time that fits, so in both hours, and never in a gap.

    cron(8) takes changes of three hours and more for corrections of a wrong clock; they are
    treated like the others here.

    >>> first = next(moments("30 1 * * *", 1774740000, "Europe/London"))
    >>> wall.local(first, "Europe/London").isoformat()
    '2026-03-29T02:00:00'
    """
    minute, hour = fields(expression)[-5:-3]
    if minute.startswith("*") or hour.startswith("*"):
        return _whenever_it_fits(expression, floor(after) + 1, zone)
    return _once_each(expression, after, zone)


def _once_each(expression: str, after: float, zone: str) -> Iterator[int]:
    for fitting in _matcher(expression, wall.local(after, zone)):
        if (at := wall.moment(fitting, zone)) > after:
            yield at
            after = at


def _whenever_it_fits(expression: str, at: int, zone: str) -> Iterator[int]:
    while True:
        changed = wall.change(at, at + _WINDOW, zone)
        end = changed or at + _WINDOW
        here = wall.local(at, zone)
        for fitting in _matcher(expression, here - _SECOND):
            then = at + int((fitting - here).total_seconds())  # as long as no clock changes
            if then >= end:
                break
            yield then
        else:
            return
        # No change on the way can lead back before *end*, or further ahead than a window.
        at = changed or max(end, then - _WINDOW)


def planned(
    expression: str, after: float, until: float, zone: str, most: int
) -> tuple[tuple[int, ...], int]:
    """Return the newest *most* moments in (*after*, *until*], and how many there are.

    Goes back day by day.  A day on which no clock changes is counted without looking at its
    times, so that ten years of every minute take as long as ten years of every week.

    >>> planned("* * * * *", 0, 365 * 86_400, "Europe/Paris", 2)
    ((31535940, 31536000), 525600)
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
    day, end = wall.local(until, zone).date(), until
    while end > after:
        begin = max(wall.moment(datetime.combine(day, time()), zone) - 1, after)
        if end - begin == _DAY and wall.change(int(begin), int(end) + 1, zone) is None:
            fits = day.month in matcher.months and matcher.match_day(day)
            count += len(clock) if fits else 0
            if fits and len(newest) < most:
                newest[:0] = [int(begin) + 1 + seconds for seconds in clock]
        else:
            times = list(takewhile(end.__ge__, moments(expression, begin, zone)))
            count += len(times)
            newest[:0] = times if len(newest) < most else []
        end, day = begin, date.fromordinal(day.toordinal() - 1)
    return tuple(newest[max(0, len(newest) - most) :]), count


def _matcher(expression: str, after: datetime) -> CronSim:
    return CronSim(" ".join(fields(expression)), after)


def _comes(given: list[str]) -> bool:
    try:
        return next(CronSim(" ".join(given), _BEGINNING), None) is not None
    except CronSimError:
        return False
