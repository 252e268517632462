"""Times as they are written: in files, where a text must always mean the same, and for people."""

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import (
    DAYS,
    Hours,
    is_active,
    local_time,
    moment_at,
    next_active,
)
from elwood.features.tasks.when import (
    LATEST,
    Cadence,
    Cron,
    Every,
    Once,
    When,
    check,
    cron_fields,
    next_at,
)

FORMS = (
    "every 30 minutes, hourly, daily, weekly, biweekly, monthly, 2026-12-24 18:00, or a cron "
    "expression like 30 7 * * 1-5"
)
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
# Unix seconds of 2020-01-01: before anything is planned, and zones have hardly changed since.
_ANCHOR = 1_577_836_800.0
# A Monday from which long intervals are counted.
_MONDAY = datetime(2020, 1, 6)  # noqa: DTZ001 -- what a clock on the wall shows has no zone
_TWO_WEEKS = 14 * 86_400.0
# Characters of a wrong text that are shown.
_SHOWN = 60
# Planned times that are tried: those of more than a year, if there is one a day.
_TRIES = 400
_CADENCES = {
    "hourly": Cadence("hourly"),
    "daily": Cadence("daily"),
    "weekly": Cadence("weekly"),
    "monthly": Cadence("monthly"),
}
_EVERY = re.compile(r"every (?:([0-9]{1,8}) )?(second|minute|hour|day|week)s?", re.IGNORECASE)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:.*", re.IGNORECASE)
_CRON = re.compile(r"@\w+|[0-9*/,-]+ [0-9*/,-]+(?: \S+){3}")
_ROUTE = re.compile(r"([a-z][a-z0-9_-]{0,31})(?::(-?\d{1,18})(?::(\d{1,18}))?)?")


def read_when(text: str, zone: str) -> When | str:
    """Read when something is done, or say what is wrong; intervals are counted from 1970 UTC.

    >>> read_when("every 20 minutes", "UTC"), read_when("2026-12-24 18:00", "Europe/Berlin")
    (Every(seconds=1200.0, start=0.0), Once(at=1798131600.0))
    """
    said = " ".join(text.split())
    if said.lower() in _CADENCES:
        return _CADENCES[said.lower()]
    if said.lower() == "biweekly":
        return Every(_TWO_WEEKS)
    if _CRON.fullmatch(said):
        return check(Cron(said)) or Cron(said)
    if found := _EVERY.fullmatch(said):
        every = Every(float(int(found[1] or 1) * UNITS[found[2].lower()]))
        return check(every) or every
    if _ISO.fullmatch(said):
        at = read_moment(said, zone)
        return at if isinstance(at, str) else Once(at)
    return f"{said[:_SHOWN]!r} is no time that is understood: write one of {FORMS}"


def write_when(when: When, zone: str) -> str:
    """Write *when* so that `read_when` reads it; but for its `start`, and parts of a second."""
    match when:
        case Cron(expression):
            return " ".join(expression.split())
        case Once(at):
            return write_moment(at, zone)
        case Every() | Cadence():
            return say_when(when, zone)


def read_moment(text: str, zone: str, *, end: bool = False) -> float | str:
    """Read a date, or a date and time; a mere date is its beginning, or its *end*."""
    wrong = f"{text[:_SHOWN]!r} is no moment: write a date, and maybe a time, like 2026-12-24 18:00"
    try:
        given = datetime.fromisoformat(text.strip())
        if end and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text.strip()):
            given += timedelta(days=1)
        at = moment_at(given, zone) if given.tzinfo is None else given.timestamp()
    except (ValueError, OverflowError):
        return wrong
    return float(at) if 0 <= at <= LATEST else wrong


def write_moment(at: float, zone: str) -> str:
    """Write a moment as the clocks in *zone* show it, by the second."""
    here = datetime.fromtimestamp(int(at), ZoneInfo(zone))
    offset = here.utcoffset()
    if offset is None or offset.total_seconds() % 60:
        here = here.astimezone(UTC)  # some zones were off by seconds, which is not written
    return here.isoformat(timespec="seconds")


def read_route(text: str) -> Route | str:
    """Read where answers go: a channel, a chat of it, a topic of that; or say what is wrong.

    Without a chat, `Route.chat` is 0: the owner's own there.  Groups have negative numbers.
    """
    found = _ROUTE.fullmatch(text)
    if found is None:
        shown = text[:_SHOWN]
        return f"{shown!r} is no place for answers: write telegram, or telegram:123456789"
    channel, chat, topic = found.groups()
    number = int(chat or 0)
    return Route(channel, number, None if topic is None else int(topic), private=number >= 0)


def write_route(route: Route) -> str:
    """Write *route* so that `read_route` reads it, but for the message that is answered."""
    topic = "" if route.topic is None else f":{route.topic}"
    return f"{route.channel}:{route.chat}{topic}" if route.chat or topic else route.channel


def advice(text: str) -> tuple[str, str]:
    """Take apart what is wrong and what to write, as the functions here say it in one sentence.

    >>> advice("'x' is no hour: write 0-23")
    ("'x' is no hour", 'write 0-23')
    """
    what, mark, remedy = text.partition(": write ")
    return what, f"write {remedy}" if mark else "correct it"


def placed(when: When, hours: Hours | None, zone: str, key: str) -> When:
    """Let what names no time of day be planned within *hours*: outside of them nothing runs.

    A day, week or month comes in their first hour; intervals of more than an hour are counted from
    an hour after they begin, so that clocks put back or forward do not lead out of them.

    >>> placed(Cadence("daily"), Hours("08:00", "22:00"), "UTC", "news")
    Cron(expression='28 8 * * *')
    """
    if hours is None:
        return when
    begin = 60 * int(hours.begin[:-3]) + int(hours.begin[-2:])
    if isinstance(when, Every) and when.start == 0.0 and when.seconds > UNITS["hour"]:
        day = min(hours.days, default=0)
        shown = _MONDAY + timedelta(days=day, hours=1, minutes=begin)
        return Every(when.seconds, start=float(moment_at(shown, zone)))
    if not isinstance(when, Cadence) or when.word == "hourly":
        return when
    turn, minute = divmod(int.from_bytes(sha256(f"{when.word} {key}".encode()).digest()[:8]), 60)
    later, minute = divmod(begin + minute, 1440)
    clock = f"{minute % 60} {minute // 60}"
    names = [str((day + 1 + later) % 7) for day in hours.days]
    match when.word:
        case "daily":
            return Cron(f"{clock} * * {','.join(names) or '*'}")
        case "weekly":
            return Cron(f"{clock} * * {(names or '0123456')[turn % (len(names) or 7)]}")
        case "monthly" if names:
            return Cron(f"{clock} * * {names[turn % len(names)]}#{turn % 4 + 1}")
        case "monthly":
            return Cron(f"{clock} {turn % 28 + 1} * *")


def never(when: When, hours: Hours | None, zone: str, key: str) -> bool:
    """Tell whether no planned time is ever within *hours*, which do not hold for a single one."""
    if isinstance(when, Once):
        return False
    at = _ANCHOR
    for _ in range(_TRIES):
        found = next_at(when, at, zone, key)
        if found is None or is_active(hours, found, zone):
            return found is None
        at = next_active(hours, found, zone) - 1
    return True


def say_when(when: When, zone: str) -> str:
    """Say *when*, which is fine by `check`, as people do.

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
    if weekday == "*":
        return "every day" if day == "*" else f"on day {day} of every month"
    if weekday in ("1-5", "mon-fri"):
        return "every weekday"
    if day != "*" or not re.fullmatch(r"[0-7](,[0-7])*", weekday):
        return ""
    return f"every {', '.join(DAYS[int(number) - 1] for number in weekday.split(','))}"


def say_clock(at: float, zone: str) -> str:
    """Say what the clocks show at *at*.

    >>> say_clock(0, "Europe/Paris"), say_clock(0, "Asia/Kathmandu")
    ('Thu 1970-01-01 01:00 CET', 'Thu 1970-01-01 05:30 UTC+05:30')
    """
    name = datetime.fromtimestamp(at, ZoneInfo(zone)).tzname() or zone
    if name[0] in "+-":
        name = f"UTC{name[:3]}" + (f":{name[3:5]}" if name[3:] else "")
    here = local_time(at, zone)
    return f"{DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M} {name}"


def say_moment(at: float, zone: str, now: float) -> str:
    """Say a moment, seen from *now*, so that nobody takes the day for another.

    >>> say_moment(118800, "UTC", 0), say_moment(10 * 86400, "UTC", 0)
    ('tomorrow, Fri 1970-01-02 09:00 UTC', 'Sun 1970-01-11 00:00 UTC')
    """
    ahead = (local_time(at, zone).date() - local_time(now, zone).date()).days
    near = {0: "today, ", 1: "tomorrow, ", -1: "yesterday, "}.get(ahead, "")
    return f"{near}{say_clock(at, zone)}"
