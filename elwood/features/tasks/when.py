"""Planned times: cron, intervals, moments and cadences; how to parse and format them.

Times are Unix seconds, zones are checked IANA names.
"""

import math
import re
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from elwood.agent.conversation.settings import DAYS, local_time, moment_at
from elwood.foundation.settings import BadSetting

# Seconds.  Work that runs more often than each minute should be a program, not a task.
MIN_EVERY = 60.0
MAX_EVERY = 366 * 86_400.0
# Unix seconds of 2200-01-01: the last planned time, far from the end of dates in 9999.
LATEST = 7_258_118_400.0
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
# Days that every month has.
_MONTH = 28
# crontab(5) of Debian, without @reboot, which is no time.
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
# Forms of a time in files.
FORMS = (
    "every 30 minutes, hourly, daily, weekly, biweekly, monthly, 2026-12-24 18:00, or a cron "
    "expression like 30 7 * * 1-5"
)
_CRON_FORM = (
    "write minute, hour, day of the month, month and day of the week, like 30 7 * * 1-5, or @daily"
)
# Characters of an invalid text in an error.
_SHOWN = 60
_EVERY = re.compile(r"every (?:([0-9]{1,8}) )?(second|minute|hour|day|week)s?", re.IGNORECASE)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:.*", re.IGNORECASE)
_CRON = re.compile(r"@\w+|[0-9*/,-]+ [0-9*/,-]+(?: \S+){3}")


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """A cron expression of five fields, or @hourly, @daily, @weekly … as in crontab(5)."""

    expression: str


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Every *seconds* after *start*, in elapsed time; not at *start* itself."""

    seconds: float
    start: float = 0.0


class Once(msgspec.Struct, frozen=True, tag="once"):
    """One moment."""

    at: float


class Cadence(msgspec.Struct, frozen=True, tag="cadence"):
    """Once per hour, day, week, two weeks or month, at a time that depends on the key."""

    word: Literal["hourly", "daily", "weekly", "biweekly", "monthly"]


When = Cron | Every | Once | Cadence
_WORDS: dict[str, When] = {
    "hourly": Cadence("hourly"),
    "daily": Cadence("daily"),
    "weekly": Cadence("weekly"),
    "biweekly": Cadence("biweekly"),
    "monthly": Cadence("monthly"),
}


def next_at(when: When, after: float, zone: str, key: str = "") -> float | None:
    """Return the first planned time after *after*; None if there is none.

    Clock changes are handled as in Debian's cron: times in a gap move to its end, and repeated
    times count once, unless minute or hour begin with *.  If a change is not by whole hours (Lord
    Howe), some of the latter are lost.  *key* is the task's id; it spreads cadences.
    """
    after = max(after, -1.0)
    if after >= LATEST:
        return None
    found: float | None
    when, week = _resolve_cadence(when, key)
    match when:
        case Once(at):
            found = at if at > after else None
        case Every(seconds, start):
            number = max(1, math.floor((after - start) / seconds))
            while start + number * seconds <= after:
                number += 1
            found = start + number * seconds
        case Cron(expression):
            here = datetime.fromtimestamp(math.floor(after), ZoneInfo(zone))
            times = (
                at.timestamp()
                for at in CronSim(" ".join(cron_fields(expression)), here)
                if week is None or at.toordinal() // 7 % 2 == week
            )
            # In a repeated hour, cronsim starts with the first one.
            found = next((at for at in times if at > after), None)
    return None if found is None or found > LATEST else found


def check(when: When) -> None:
    """Raise BadSetting unless *when* can be planned."""
    at = 0.0
    match when:
        case Cron(expression):
            _check_cron(expression)
        case Every(seconds, at):
            if not MIN_EVERY <= seconds <= MAX_EVERY:
                raise BadSetting(
                    f"an interval of {seconds:g} seconds is not possible",
                    f"use at least {MIN_EVERY:g} seconds and at most 366 days",
                )
        case Once(at):
            pass
    if not 0 <= at <= LATEST:
        raise BadSetting("the time is out of range", "use a time from 1970 to 2200")


def _resolve_cadence(when: When, key: str) -> tuple[Cron | Every | Once, int | None]:
    """Resolve a cadence by a hash of its key, so that its time is always the same.

    Also return whether only the even (0) or odd (1) weeks count.
    """
    if not isinstance(when, Cadence):
        return when, None
    number = int.from_bytes(sha256(f"{when.word} {key}".encode()).digest()[:8])
    if when.word == "hourly":
        return Every(3600.0, start=number % 3600), None
    days, seconds = divmod(number, UNITS["day"])
    weekly, monthly = f"* * {days % 7}", f"{days % _MONTH + 1} * *"
    days_of = {"daily": "* * *", "weekly": weekly, "biweekly": weekly, "monthly": monthly}
    at = Cron(f"{seconds // 60 % 60} {seconds // 3600} {days_of[when.word]}")
    return at, days // 7 % 2 if when.word == "biweekly" else None


def _check_cron(expression: str) -> None:
    shown, fields = expression[:_SHOWN], cron_fields(expression)
    if len(expression) > MAX_EXPRESSION or len(fields) != 5:
        raise BadSetting(f"{shown!r} is not a cron expression", _CRON_FORM)
    try:
        found = next(CronSim(" ".join(fields), datetime(2000, 1, 1)), None)  # noqa: DTZ001 -- no zone is meant
    except CronSimError as error:
        raise BadSetting(f"{shown!r} has a {str(error).lower()}", _CRON_FORM) from None
    if found is None:
        raise BadSetting(f"no date matches {shown!r}", _CRON_FORM)


def cron_fields(expression: str) -> list[str]:
    return ALIASES.get(expression.strip().lower(), expression).split()


# --- parsing; a text in a file must always mean the same ------------------------------------------


def read_when(text: str, zone: str) -> When:
    """Parse a time of a file; intervals count from 1970 UTC.  Raises BadSetting.

    >>> read_when("every 20 minutes", "UTC"), read_when("2026-12-24 18:00", "Europe/Berlin")
    (Every(seconds=1200.0, start=0.0), Once(at=1798131600.0))
    """
    said = " ".join(text.split())
    when = _WORDS.get(said.lower())
    if when is not None:
        return when
    if _CRON.fullmatch(said):
        when = Cron(said)
    elif found := _EVERY.fullmatch(said):
        when = Every(float(int(found[1] or 1) * UNITS[found[2].lower()]))
    elif _ISO.fullmatch(said):
        when = Once(read_moment(said, zone))
    else:
        what = f"{said[:_SHOWN]!r} is not a valid time"
        raise BadSetting(what, f"write one of {FORMS}")
    check(when)
    return when


def read_moment(text: str, zone: str, *, end: bool = False) -> float:
    """Parse a date with or without a time; a date alone means its start, or its *end*.

    Raises BadSetting.
    """
    try:
        given = datetime.fromisoformat(text.strip())
        if end and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text.strip()):
            given += timedelta(days=1)
        at = moment_at(given, zone) if given.tzinfo is None else given.timestamp()
        if 0 <= at <= LATEST:
            return float(at)
    except (ValueError, OverflowError):
        pass
    remedy = "write a date, with or without a time, like 2026-12-24 18:00"
    raise BadSetting(f"{text[:_SHOWN]!r} is not a date or time", remedy)


# --- formatting -----------------------------------------------------------------------------------


def say_when(when: When, zone: str) -> str:
    """Format *when*, which must be valid, for people.

    >>> say_when(Cron("0 8 * * 1"), "UTC"), say_when(Cron("*/5 8-18 * * *"), "UTC")
    ('every Mon at 08:00', 'cron */5 8-18 * * *')
    >>> say_when(Every(1200.0), "UTC"), say_when(Once(0.0), "Europe/Paris")
    ('every 20 minutes', 'once, Thu 1970-01-01 01:00 CET')
    """
    match when:
        case Every(seconds):
            fitting = (unit for unit in reversed(UNITS) if seconds % UNITS[unit] == 0)
            unit = next(fitting, "second")
            count = seconds / UNITS[unit]
            return f"every {unit}" if count == 1 else f"every {count:.10g} {unit}s"
        case Once(at):
            return f"once, {say_clock(at, zone)}"
        case Cadence(word):
            return word
        case Cron(expression):
            minute, hour, day, month, weekday = cron_fields(expression)
            on = _say_days(day, weekday.lower()) if month == "*" else ""
            if not (on and minute.isdecimal() and hour.isdecimal()):
                return f"cron {expression}"
            return f"{on} at {int(hour):02}:{int(minute):02}"


def _say_days(day: str, weekday: str) -> str:
    if weekday == "*" and day.isdecimal():
        return f"on day {day} of every month"
    if day != "*":
        return ""
    if weekday in ("1-5", "mon-fri"):
        return "every weekday"
    if re.fullmatch(r"[0-7](,[0-7])*", weekday):
        return f"every {', '.join(DAYS[int(number) - 1] for number in weekday.split(','))}"
    return "every day" if weekday == "*" else ""


def say_clock(at: float, zone: str) -> str:
    """Format the local time at *at*.

    >>> say_clock(0, "Europe/Paris"), say_clock(0, "Asia/Kathmandu")
    ('Thu 1970-01-01 01:00 CET', 'Thu 1970-01-01 05:30 UTC+05:30')
    """
    here = datetime.fromtimestamp(math.floor(at), ZoneInfo(zone))
    name = here.tzname() or zone
    if name[0] in "+-":
        name = f"UTC{name[:3]}" + (f":{name[3:5]}" if name[3:] else "")
    return f"{DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M} {name}"


def say_moment(at: float, zone: str, now: float) -> str:
    """Format a moment, with today, tomorrow or yesterday as seen from *now*.

    >>> say_moment(118800, "UTC", 0), say_moment(10 * 86400, "UTC", 0)
    ('tomorrow, Fri 1970-01-02 09:00 UTC', 'Sun 1970-01-11 00:00 UTC')
    """
    ahead = (local_time(at, zone).date() - local_time(now, zone).date()).days
    near = {0: "today, ", 1: "tomorrow, ", -1: "yesterday, "}.get(ahead, "")
    return f"{near}{say_clock(at, zone)}"
