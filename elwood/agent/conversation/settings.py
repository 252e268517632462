"""Settings of the owner and of one turn; active hours and wall clocks."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from math import floor
from typing import ClassVar
from zoneinfo import ZoneInfo

import attrs
import msgspec

from elwood.agent.conversation.stop_words import WORDS
from elwood.foundation.settings import BadSetting, Section, at_least, between, is_timezone, setting


def _is_language(name: str) -> None:
    if name not in WORDS:
        raise BadSetting(f"{name!r} is not a known language", f"use any of {', '.join(WORDS)}")


def is_hours(text: str) -> None:
    """Check that `read_hours` can parse *text*.  Raises BadSetting."""
    read_hours(text)


@attrs.frozen(kw_only=True)
class Owner:
    """The person Elwood works for.  Notices are sent in *hours*."""

    SECTION: ClassVar = Section("owner", "You.")

    name: str = setting("", help="your name, as Elwood uses it", example='"Ada"')
    timezone: str = setting("UTC", help="your time zone, by its IANA name", check=is_timezone)
    hours: str = setting(
        "08:00-22:00",
        help="when Elwood may send you notices: `08:00-22:00`, `mon-fri 8-18`, `always`",
        check=is_hours,
    )
    languages: tuple[str, ...] = setting(
        ("en",),
        help=f"languages in which a message that is only `stop` stops the work: {', '.join(WORDS)}",
        check=_is_language,
    )

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


@attrs.frozen(kw_only=True)
class TurnSettings:
    """Limits of a turn: model responses with calls, calls, tools, tokens of context, and seconds.

    *model_deadline* covers one response with waits, retries and fallbacks.  It is a little less
    than the *deadline*, so that the error names the provider.
    """

    SECTION: ClassVar = Section("turn", "Limits of one answer.")

    max_rounds: int = setting(20, help="maximum model calls for one answer", check=between(1, 1000))
    max_calls: int = setting(
        200, help="maximum tool calls for one answer", check=between(1, 10_000)
    )
    deadline: float = setting(
        900.0, help="maximum seconds for one answer", check=between(1, 86_400)
    )
    model_deadline: float = setting(
        840.0, help="maximum seconds for one model call, with retries", check=between(1, 86_400)
    )
    tool_deadline: float = setting(
        660.0, help="maximum seconds for one tool call", check=between(1, 86_400)
    )
    max_tools: int = setting(
        128, help="maximum number of tools that a model sees", check=between(1, 1000)
    )
    context_tokens: int = setting(
        150_000, help="maximum tokens of history sent to a model", check=at_least(1000)
    )


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Maximum characters of a wrong text in an error.
_SHOWN = 60
_CLOCKS = re.compile(r"([0-9]{1,2})(:[0-9]{2})?-([0-9]{1,2})(:[0-9]{2})?")


class Hours(msgspec.Struct, frozen=True):
    """From *begin* to before *end*, "HH:MM" on the clock; to the next day if *end* is not later.

    *days* (0 is Monday; empty means all) are those on which it begins: Friday from 22:00 to 02:00
    ends on Saturday.
    """

    begin: str
    end: str
    days: tuple[int, ...] = ()


def read_hours(text: str) -> Hours | None:
    """Parse hours, of all days or of some; None means always.  Raises BadSetting.

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
        remedy = "write them like 08:00-22:00, or mon-fri 08:00-18:00, or always"
        raise BadSetting(f"{text[:_SHOWN]!r} are not valid hours", remedy)
    begin, end = (
        f"{int(hour):02}{minute or ':00'}"
        for hour, minute in (found.group(1, 2), found.group(3, 4))
    )
    if not (found[2] or found[4]) and "01:00" <= end < begin <= "12:00":
        remedy = f"write it like {begin}-17:00"
        raise BadSetting(f"{clocks!r} may mean the next morning", remedy)
    for clock, last in ((begin, 24 * 60 - 1), (end, 24 * 60)):
        if clock[3:] > "59" or _minutes(clock) > last:
            raise BadSetting(f"{clock!r} is not a time of day", "write it like 22:00")
    return Hours(begin, end, () if len(days) == 7 else days)


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
    """Format hours so that `read_hours` can parse them."""
    if hours is None:
        return "always"
    days = sorted(set(hours.days))
    names = ",".join(DAYS[day].lower() for day in days)
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        names = f"{DAYS[days[0]]}-{DAYS[days[-1]]}".lower()
    return f"{names} {hours.begin}-{hours.end}".strip()


def is_active(hours: Hours | None, at: float, zone: str) -> bool:
    """Return True if *at* is within *hours* on the clock of *zone*; None means always.

    >>> is_active(Hours("22:00", "06:00", days=(4,)), 2 * 86_400.0, "UTC")
    True
    >>> is_active(Hours("22:00", "06:00", days=(5,)), 2 * 86_400.0, "UTC")
    False
    """
    if hours is None:
        return True
    here = local_time(at, zone)
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
    """Return *at* if it is within *hours*, else the time at which they begin next."""
    if hours is None or is_active(hours, at, zone):
        return at
    begin = timedelta(minutes=_minutes(hours.begin))
    now = math.floor(at)
    # Each step ends at a beginning or a clock change; a week has seven and a few.
    for _ in range(32):
        here = local_time(now, zone)
        midnight = here.replace(hour=0, minute=0, second=0)
        start = midnight + begin if midnight + begin > here else midnight + begin + timedelta(1)
        then = now + int((start - here).total_seconds())
        now = clock_change(now, then, zone) or then
        if is_active(hours, now, zone):
            return float(now)
    raise ValueError(f"{hours} never come")


def _minutes(clock: str) -> int:
    hour, _, minute = clock.partition(":")
    return int(hour) * 60 + int(minute)


def local_time(at: float, zone: str) -> datetime:
    """Return the local time in *zone*, to the second."""
    return datetime.fromtimestamp(floor(at), ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def _offset(at: float, zone: str) -> int:
    """Return the offset of *zone* from UTC in seconds."""
    ahead = datetime.fromtimestamp(floor(at), ZoneInfo(zone)).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def moment_at(wall: datetime, zone: str) -> int:
    """Return the time at which the clocks of *zone* show *wall*.

    If a clock change skips it, return the time of that change; if it occurs twice, the first.

    >>> moment_at(datetime(2026, 3, 29, 1, 30), "Europe/London") == moment_at(
    ...     datetime(2026, 3, 29, 2, 0), "Europe/London"
    ... )
    True
    """
    here = wall.replace(tzinfo=ZoneInfo(zone))
    first, second = int(here.timestamp()), int(here.replace(fold=1).timestamp())
    if first <= second:
        return first
    # A gap: fold=0 uses the offset before it, which leads after it, and fold=1 before it.
    changed = clock_change(second, first, zone)
    return first if changed is None else changed


def clock_change(begin: int, end: int, zone: str) -> int | None:
    """Return the time after *begin*, up to *end*, at which the offset changes.

    None if it is the same at both.  They should be days apart, not months: of several changes
    one is found, of two that cancel each other none.

    >>> clock_change(1774700000, 1774800000, "Europe/London")
    1774746000
    """
    before = _offset(begin, zone)
    if _offset(end, zone) == before:
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        if _offset(middle, zone) == before:
            begin = middle
        else:
            end = middle
    return end


class OwnerClock(msgspec.Struct, frozen=True):
    """The wall clock (Unix seconds), and the owner's time zone."""

    now: Callable[[], float]
    zone: tzinfo = UTC
