"""Hours of the day in which something may happen: reading, writing, and the next that come."""

import math
import re
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from elwood.agent.conversation import timezones

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Characters of a wrong text that are shown.
_SHOWN = 60
_CLOCKS = re.compile(r"([0-9]{1,2})(:[0-9]{2})?-([0-9]{1,2})(:[0-9]{2})?")


class Hours(msgspec.Struct, frozen=True):
    """From *begin* to before *end*, "HH:MM" on the clock; to the next day if *end* is not later.

    *days* (0 is Monday; none means all) are those on which it begins: Friday from 22:00 to 02:00
    ends on Saturday.
    """

    begin: str
    end: str
    days: tuple[int, ...] = ()


def read_hours(text: str) -> Hours | str | None:
    """Read hours, of all days or of some; None is always.  Else say what is wrong.

    >>> read_hours("mon-fri 8-18"), read_hours("always")
    (Hours(begin='08:00', end='18:00', days=(0, 1, 2, 3, 4)), None)
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
        return f"{clocks!r} may mean the next morning: write it like {begin}-17:00"
    hours = Hours(begin, end, () if len(days) == 7 else days)
    return check_hours(hours) or hours


def _read_days(words: Sequence[str]) -> tuple[int, ...] | None:
    names = [day.lower() for day in DAYS]
    days: set[int] = set()
    for part in ",".join(words).split(",") if words else ():
        first, _, last = part.partition("-")
        if first[:3] not in names or (last or first)[:3] not in names:
            return None
        begin, end = names.index(first[:3]), names.index((last or first)[:3])
        days |= {(begin + ahead) % 7 for ahead in range((end - begin) % 7 + 1)}
    return tuple(sorted(days))


def write_hours(hours: Hours | None) -> str:
    """Write hours so that `read_hours` reads them."""
    if hours is None:
        return "always"
    days = sorted(set(hours.days))
    names = ",".join(DAYS[day].lower() for day in days)
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        names = f"{DAYS[days[0]]}-{DAYS[days[-1]]}".lower()
    return f"{names} {hours.begin}-{hours.end}".strip()


def is_active(hours: Hours | None, at: float, zone: str) -> bool:
    """Tell whether the clock in *zone* shows a time within *hours* at *at*; None is always.

    >>> is_active(Hours("22:00", "06:00", days=(4,)), 2 * 86_400.0, "UTC")
    True
    >>> is_active(Hours("22:00", "06:00", days=(5,)), 2 * 86_400.0, "UTC")
    False
    """
    if hours is None:
        return True
    here = timezones.local(at, zone)
    begin, end = _minutes(hours.begin), _minutes(hours.end)
    if end <= begin:
        end += 24 * 60
    minute = here.hour * 60 + here.minute
    today, yesterday = here.weekday(), (here - timedelta(days=1)).weekday()
    days = hours.days or range(7)
    return (today in days and begin <= minute < end) or (
        yesterday in days and minute + 24 * 60 < end
    )


def next_active(hours: Hours | None, at: float, zone: str) -> float:
    """Return *at* if it is within *hours*, else the moment at which they begin next."""
    if hours is None or is_active(hours, at, zone):
        return at
    begin = timedelta(minutes=_minutes(hours.begin))
    now = math.floor(at)
    # Each step ends at a beginning or a change of clocks; a week has seven and a few.
    for _ in range(32):
        here = timezones.local(now, zone)
        midnight = here.replace(hour=0, minute=0, second=0)
        start = midnight + begin if midnight + begin > here else midnight + begin + timedelta(1)
        then = now + int((start - here).total_seconds())
        now = timezones.change(now, then, zone) or then
        if is_active(hours, now, zone):
            return float(now)
    raise ValueError(f"{hours} never come; check_hours tells why")


def check_hours(hours: Hours) -> str:
    """Say what is wrong with *hours* and what to write instead; "" if they are fine."""
    for clock in (hours.begin, hours.end):
        found = re.fullmatch(r"([0-9]{1,2}):([0-5][0-9])", clock)
        if found is None or _minutes(clock) > 24 * 60 - (clock == hours.begin):
            return f"{clock!r} is no time of day: write it like 22:00"
    wrong = [day for day in hours.days if not 0 <= day <= 6]
    return f"{wrong[0]} is no day of the week: write 0 (Monday) to 6 (Sunday)" if wrong else ""


def _minutes(clock: str) -> int:
    hour, _, minute = clock.partition(":")
    return int(hour) * 60 + int(minute)
