"""What people write about tasks into files: times, hours, chats, moments; read, and written.

What stands in a file is read again and again, so it must mean the same each time.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

from elwood.agent.conversation.route import Route
from elwood.features.tasks import timezones as wall
from elwood.features.tasks.timing_text import (
    FORMS,
    parse_when,
    repeated,
    say,
)
from elwood.features.tasks.timing_words import DAYS, weekday
from elwood.features.tasks.when import (
    LATEST,
    Cadence,
    Cron,
    Every,
    Hours,
    Once,
    When,
    check_hours,
    is_active,
    next_active,
    next_at,
)

# Of the forms of times those that do not depend on the day on which they are read.
_STANDING = (
    "every 20 minutes, every 2h, hourly, daily, weekly, monthly, every day at 9, every weekday at "
    "7:30, every monday and thursday at 8, on the 1st of every month at 10:00, every year on "
    "24 december at 18:00, 2026-12-24 18:00, a cron expression like 30 7 * * 1-5, @daily"
)
# Unix seconds of 1980-01-01: no text that depends on today means the same on both days.
_ANOTHER_DAY = 315_532_800.0
# Unix seconds of 2020-01-01: before anything is planned, and zones have hardly changed since; and
# weeks of winter and summer, whichever is which in a zone.
_ANCHOR = 1_577_836_800.0
_WEEKS = tuple(tuple(date(2020, month, day) for day in range(1, 8)) for month in (1, 7))
_HOUR = 3600
# Characters of a wrong text that are shown.
_SHOWN = 60
# Planned times that are tried: those of more than a year, if there is one a day.
_TRIES = 400
_CLOCKS = re.compile(r"(\d{1,2})(:\d\d)?-(\d{1,2})(:\d\d)?")
_ROUTE = re.compile(r"([a-z][a-z0-9_-]{0,31})(?::(-?\d{1,18})(?::(\d{1,18}))?)?")
_SHORT = tuple(day[:3].lower() for day in DAYS)


def read_when(text: str, zone: str) -> When | str:
    """Read a time that means the same whenever it is read, or say what is wrong with it.

    Intervals are counted from 1970-01-01 UTC.

    >>> read_when("every 20 minutes", "UTC"), read_when("2026-12-24 18:00", "Europe/Berlin")
    (Every(seconds=1200.0, start=0.0), Once(at=1798131600.0))
    >>> read_when("tomorrow at nine", "UTC")
    "'tomorrow at nine' depends on the day: write date and time, like 2026-12-24 18:00"
    """
    found = parse_when(text, zone, 0.0)
    if isinstance(found, str):
        return found.replace(FORMS, _STANDING)
    if isinstance(found, Once) and parse_when(text, zone, _ANOTHER_DAY) != found:
        said = " ".join(text.split())
        if again := repeated(said, zone):
            return (
                f"{said!r} reads as once, on the next such day: write {again!r} if it shall come "
                "again and again, else date and time, like 2026-12-24 18:00"
            )
        return f"{said!r} depends on the day: write date and time, like 2026-12-24 18:00"
    return found


def write_when(when: When, zone: str) -> str:
    """Write *when* so that `read_when` reads it; but for its `start`, and parts of a second.

    >>> write_when(Every(1200.0), "UTC"), write_when(Once(0.0), "Europe/Berlin")
    ('every 20 minutes', '1970-01-01T01:00:00+01:00')
    """
    match when:
        case Cron(expression):
            return " ".join(expression.split())
        case Once(at):
            return write_moment(at, zone)
        case Every() | Cadence():
            return say(when, zone)


def read_moment(text: str, zone: str, *, end: bool = False) -> float | str:
    """Read a date, or a date and time; a mere date is its beginning, or its *end*.

    >>> read_moment("1970-01-02", "UTC"), read_moment("1970-01-02", "UTC", end=True)
    (86400.0, 172800.0)
    >>> read_moment("soon", "UTC")
    "'soon' is no moment: write a date, and maybe a time, like 2026-12-24 18:00"
    """
    wrong = f"{text[:_SHOWN]!r} is no moment: write a date, and maybe a time, like 2026-12-24 18:00"
    try:
        given = datetime.fromisoformat(text.strip())
        if end and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text.strip()):
            given += timedelta(days=1)
        at = wall.moment(given, zone) if given.tzinfo is None else given.timestamp()
    except (ValueError, OverflowError):
        return wrong
    return float(at) if 0 <= at <= LATEST else wrong


def write_moment(at: float, zone: str) -> str:
    """Write a moment as the clocks in *zone* show it, by the second.

    >>> write_moment(0.5, "Asia/Tokyo")
    '1970-01-01T09:00:00+09:00'
    """
    here = datetime.fromtimestamp(int(at), ZoneInfo(zone))
    offset = here.utcoffset()
    if offset is None or offset.total_seconds() % 60:
        here = here.astimezone(UTC)  # some zones were off by seconds, which is not written
    return here.isoformat(timespec="seconds")


def read_hours(text: str) -> Hours | str | None:
    """Read hours, of all days or of some; None is always.  Else say what is wrong.

    >>> read_hours("mon-fri 8-18"), read_hours("22:00 - 6:30"), read_hours("always")
    (Hours(begin='08:00', end='18:00', days=(0, 1, 2, 3, 4)), Hours(begin='22:00', end='06:30', \
days=()), None)
    >>> read_hours("mornings")
    "'mornings' are no hours: write them like 08:00-22:00, or mon-fri 08:00-18:00, or always"
    """
    words = re.sub(r" ?([-\u2013,]) ?", r"\1", " ".join(text.lower().split()))
    words = words.replace("\u2013", "-")
    if words in ("", "always"):
        return None
    *before, clocks = words.split(" ")
    found, days = _CLOCKS.fullmatch(clocks), _read_days(before)
    if found is None or days is None:
        return (
            f"{text[:_SHOWN]!r} are no hours: write them like 08:00-22:00, or mon-fri 08:00-18:00,"
            " or always"
        )
    begin, end = (
        f"{int(hour):02}{minute or ':00'}"
        for hour, minute in (found.group(1, 2), found.group(3, 4))
    )
    if not (found[2] or found[4]) and "01:00" <= end < begin <= "12:00":
        later = f"{int(end[:2]) + 12:02}:00"
        return f"{clocks!r} may mean two things: write {begin}-{later}, or {begin}-{end}"
    hours = Hours(begin, end, () if len(days) == 7 else days)
    return check_hours(hours) or hours


def _read_days(words: Sequence[str]) -> tuple[int, ...] | None:
    days: set[int] = set()
    for part in ",".join(words).split(",") if words else ():
        first, dash, last = (part.partition("-")) if part not in _GROUPS else _GROUPS[part]
        begin, end = weekday(first), weekday(last or first)
        if begin is None or end is None or (dash and not last):
            return None
        days |= {(begin + ahead) % 7 for ahead in range((end - begin) % 7 + 1)}
    return tuple(sorted(days))


_GROUPS = {"weekdays": ("monday", "-", "friday"), "weekends": ("saturday", "-", "sunday")}


def write_hours(hours: Hours | None) -> str:
    """Write hours so that `read_hours` reads them.

    >>> write_hours(Hours("08:00", "18:00", (0, 1, 2))), write_hours(Hours("08:00", "18:00", (6,)))
    ('mon-wed 08:00-18:00', 'sun 08:00-18:00')
    """
    if hours is None:
        return "always"
    days = sorted(set(hours.days))
    names = ",".join(_SHORT[day] for day in days)
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        names = f"{_SHORT[days[0]]}-{_SHORT[days[-1]]}"
    return f"{names} {hours.begin}-{hours.end}".strip()


def read_route(text: str) -> Route | str:
    """Read where answers go: a channel, a chat of it, a topic of that; or say what is wrong.

    Without a chat, `Route.chat` is 0: the owner's own there.  Groups have negative numbers.

    >>> read_route("telegram:-100:7")
    Route(channel='telegram', chat=-100, topic=7, private=False, reply_to=None)
    >>> read_route("Ada")
    "'Ada' is no place for answers: write telegram, or telegram:123456789"
    """
    found = _ROUTE.fullmatch(text)
    if found is None:
        shown = text[:_SHOWN]
        return f"{shown!r} is no place for answers: write telegram, or telegram:123456789"
    channel, chat, topic = found.groups()
    number = int(chat or 0)
    return Route(channel, number, None if topic is None else int(topic), private=number >= 0)


def write_route(route: Route) -> str:
    """Write *route* so that `read_route` reads it, but for the message that is answered.

    >>> write_route(Route("telegram", 5)), write_route(Route("console"))
    ('telegram:5', 'console')
    """
    topic = "" if route.topic is None else f":{route.topic}"
    return f"{route.channel}:{route.chat}{topic}" if route.chat or topic else route.channel


def placed(when: When, hours: Hours | None, zone: str, key: str) -> When:
    """Let what names no time of day be planned within *hours*: outside of them nothing runs.

    Days, weeks and months get a time by a hash of *key*, as `timing.Cadence` has it; intervals of
    more than an hour are counted from a time within the hours.

    >>> placed(Cadence("daily"), Hours("08:00", "09:00"), "UTC", "news")
    Cron(expression='28 8 * * *')
    >>> placed(Every(86400.0), Hours("08:00", "22:00"), "UTC", "news")
    Every(seconds=86400.0, start=1593590400.0)
    """
    if hours is None:
        return when
    begin, end = (int(clock[:-3]) * 60 + int(clock[-2:]) for clock in (hours.begin, hours.end))
    span = (end - begin) % 1440 or 1440
    match when:
        case Every(seconds, 0.0) if seconds > _HOUR:
            return Every(seconds, start=_begin(hours, begin, zone))
        case Cadence("daily" | "weekly" | "monthly" as word):
            place = int.from_bytes(sha256(f"{word} {key}".encode()).digest()[:8])
            turn, minute = divmod(place, span)
            later, minute = divmod(begin + minute, 1440)
            clock = f"{minute % 60} {minute // 60}"
            names = [str((day + 1 + later) % 7) for day in hours.days]
            if word == "daily":
                return Cron(f"{clock} * * {','.join(names) or '*'}")
            if word == "monthly" and not names:
                return Cron(f"{clock} {turn % 28 + 1} * *")
            name = (names or "0123456")[turn % (len(names) or 7)]
            return Cron(f"{clock} * * {name}" + (f"#{turn % 4 + 1}" if word == "monthly" else ""))
        case _:
            return when


def _begin(hours: Hours, minute: int, zone: str) -> float:
    """Return when *hours*, from *minute* on, begin while clocks are not put forward.

    So what is counted from there comes at that time or, in summer, later.
    """
    moments: list[tuple[float, float]] = []
    for week in _WEEKS:
        days = [day for day in week if day.weekday() in hours.days]
        shown = datetime.combine((days or week)[0], time()) + timedelta(minutes=minute)
        at = float(wall.moment(shown, zone))
        moments.append((at - shown.replace(tzinfo=UTC).timestamp(), at))
    return max(moments)[1]


def advice(text: str) -> tuple[str, str]:
    """Take apart what is wrong and what to write, as the functions here say it in one sentence.

    >>> advice("'x' is no hour: write 0-23")
    ("'x' is no hour", 'write 0-23')
    """
    what, mark, remedy = re.sub(r"\. Write one of: ", ": write one of: ", text).partition(
        ": write "
    )
    return what, f"write {remedy}" if mark else "correct it"


def never(when: When, hours: Hours | None, zone: str, key: str) -> bool:
    """Tell whether no planned time is ever within *hours*, which do not hold for a single one.

    >>> never(Cron("0 7 * * *"), Hours("08:00", "22:00"), "UTC", "news")
    True
    >>> never(Cron("* * * * *"), Hours("08:00", "22:00", days=(6,)), "UTC", "news")
    False
    """
    if isinstance(when, Once):
        return False
    at = _ANCHOR
    for _ in range(_TRIES):
        found = next_at(when, at, zone, key)
        if found is None or is_active(hours, found, zone):
            return found is None
        at = next_active(hours, found, zone) - 1
    return True
