"""Planned times over all kinds of clock changes, against an oracle that walks minute by minute."""

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elwood.agent.conversation.settings import Hours, is_active, next_active
from elwood.features.tasks.when import (
    LATEST,
    MAX_EVERY,
    MIN_EVERY,
    Cadence,
    Cron,
    Every,
    Once,
    When,
    check,
    next_at,
)
from elwood.foundation.settings import BadSetting

DAY = 86_400
ZONES = (
    "Europe/London", "America/New_York",
    "Asia/Kathmandu",  # +05:45, never changes
    "Africa/Casablanca",  # daylight saving is the rule, interrupted by Ramadan
    "Asia/Tehran",  # changed at midnight
    "Antarctica/Troll",  # two hours
    "Antarctica/Casey",  # three hours, to and fro
    "America/Havana",  # changes at midnight, so days may begin at 01:00 or twice
    "UTC",
)  # fmt: skip
BEGIN, END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2008, 2018))


@lru_cache
def changes(zone: str) -> tuple[int, ...]:
    """Find the changes of clocks in ten years, to the minute, without the code under test."""
    found, there = [], ZoneInfo(zone)

    def ahead(moment: int) -> timedelta | None:
        return datetime.fromtimestamp(moment, there).utcoffset()

    for before in range(BEGIN, END, DAY // 2):
        if ahead(before) != ahead(before + DAY // 2):
            moment = before
            while ahead(moment) == ahead(before):
                moment += 60
            found.append(moment)
    return tuple(found)


CHANGES = [(zone, change) for zone in ZONES for change in changes(zone)] + [
    (zone, BEGIN + 59 * DAY) for zone in ZONES
]


@lru_cache
def every_minute(zone: str, begin: int, end: int) -> list[tuple[int, datetime]]:
    there = ZoneInfo(zone)
    return [
        (moment, datetime.fromtimestamp(moment, there).replace(tzinfo=None, fold=0))
        for moment in range(begin, end, 60)
    ]


@attrs.frozen
class Field:
    """A field of a cron expression and what it lets through; *is_starred* as Debian sees it."""

    text: str
    values: frozenset[int]
    is_starred: bool


def field(least: int, most: int, some: st.SearchStrategy[int]) -> st.SearchStrategy[Field]:
    def step(size: int) -> Field:
        return Field(f"*/{size}", frozenset(range(least, most + 1, size)), True)

    def several(numbers: list[int]) -> Field:
        return Field(",".join(map(str, numbers)), frozenset(numbers), False)

    def span(ends: tuple[int, int, int]) -> Field:
        low, high, size = min(ends[:2]), max(ends[:2]), ends[2]
        text = f"{low}-{high}/{size}" if low < high else str(low)
        return Field(text, frozenset(range(low, high + 1, size)), False)

    return st.one_of(
        st.just(Field("*", frozenset(range(least, most + 1)), True)),
        st.integers(2, (most - least) // 2).map(step),
        st.lists(some, min_size=1, max_size=3, unique=True).map(several),
        st.tuples(some, some, st.integers(1, 7)).map(span),
    )


@attrs.frozen
class Pattern:
    minute: Field
    hour: Field
    day: Field
    weekday: Field

    @property
    def text(self) -> str:
        parts = (self.minute, self.hour, self.day)
        return " ".join([*(part.text for part in parts), "*", self.weekday.text])

    @property
    def is_fixed(self) -> bool:
        return not (self.minute.is_starred or self.hour.is_starred)

    def fits(self, wall: datetime) -> bool:
        day, weekday = wall.day in self.day.values, wall.isoweekday() % 7 in self.weekday.values
        either = not (self.day.is_starred or self.weekday.is_starred)
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and ((day or weekday) if either else (day and weekday))
        )


# Clocks are changed around midnight and in the small hours.
PATTERNS = st.builds(
    Pattern,
    field(0, 59, st.sampled_from([0, 1, 15, 29, 30, 31, 44, 45, 59])),
    field(0, 23, st.sampled_from([0, 1, 2, 3, 4, 12, 22, 23])),
    field(1, 31, st.integers(1, 31)) | st.just(Field("*", frozenset(range(1, 32)), True)),
    field(0, 6, st.integers(0, 6)) | st.just(Field("*", frozenset(range(7)), True)),
)


def by_debian(pattern: Pattern, begin: int, end: int, zone: str) -> list[int]:
    """Walk through real minutes as cron(8) says, with a clock on the wall.

    "Jobs that run at a specific time" in an interval that is skipped "will be run immediately";
    when the time is moved backward, "running the same job twice is avoided"; others "are
    scheduled normally".
    """
    times, latest = [], None
    for moment, wall in every_minute(zone, begin, end):
        if not pattern.is_fixed:
            fires = pattern.fits(wall)
        elif latest is None:
            fires, latest = pattern.fits(wall), wall
        else:
            fires = False
            while latest < wall:  # does nothing while the clock catches up
                latest += timedelta(minutes=1)
                fires = fires or pattern.fits(latest)
        if fires:
            times.append(moment)
    return times


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    number: int = request.config.getoption("--timing-examples")
    return number


def test_cron_means_what_debian_says(examples: int) -> None:
    """Asked at any moment, not only at planned ones."""

    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(
        st.sampled_from(CHANGES), PATTERNS,
        st.lists(st.floats(-DAY, DAY), min_size=5, max_size=5),
    )  # fmt: skip
    def holds(change: tuple[str, int], pattern: Pattern, leads: list[float]) -> None:
        zone, moment = change
        end = moment + 2 * DAY
        expected = by_debian(pattern, moment - DAY - DAY // 2, end, zone)
        for after in (moment - DAY / 2, *(moment + lead for lead in leads)):
            found: float | None = after
            for time in [time for time in expected if time > after][:50]:
                assert found is not None
                found = next_at(Cron(pattern.text), found, zone)
                assert found == time

    holds()


def between(when: When, after: float, until: float, zone: str, key: str = "") -> list[float]:
    found, at = [], next_at(when, after, zone, key)
    while at is not None and at <= until:
        found.append(at)
        at = next_at(when, at, zone, key)
    return found


@given(st.floats(MIN_EVERY, MAX_EVERY), st.floats(0, 2e9), st.floats(0, 4e9))
@example(60.0, 0.0, 0.0)
@example(60.1, 0.3, 1e9)
def test_intervals(seconds: float, start: float, after: float) -> None:
    every = Every(seconds, start)
    check(every)
    first = next_at(every, after, "UTC")
    assert first is not None
    assert after < first <= max(after, start) + seconds * (1 + 1e-9)
    second = next_at(every, first, "UTC")
    assert second == pytest.approx(first + seconds)


PERIODS = {"hourly": 3600, "daily": DAY, "weekly": 7 * DAY, "monthly": 31 * DAY}
CADENCES = [Cadence("hourly"), Cadence("daily"), Cadence("weekly"), Cadence("monthly")]


def period(cadence: Cadence, moment: float, zone: str) -> tuple[int, ...]:
    """Say in which hour, day, week or month a moment lies."""
    here = datetime.fromtimestamp(moment, ZoneInfo(zone))
    match cadence.word:
        case "hourly":
            return (int(moment) // 3600,)
        case "daily":
            return (here.toordinal(),)
        case "weekly":
            return here.isocalendar()[:2]
        case "monthly":
            return (here.year, here.month)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.sampled_from(CADENCES), st.sampled_from(ZONES), st.text(max_size=20))
def test_a_cadence_comes_once_in_each_period(cadence: Cadence, zone: str, key: str) -> None:
    span = 4 * 366 * DAY if cadence.word != "hourly" else 60 * DAY
    begin = changes(zone)[0] - 30 * DAY if changes(zone) else BEGIN
    times = between(cadence, begin, begin + span, zone, key)
    periods = [period(cadence, time, zone) for time in times]
    assert len(set(periods)) == len(periods)
    longest = PERIODS[cadence.word] + 25 * 3600
    assert all(0 < other - one <= longest for one, other in pairwise([begin, *times]))


def test_a_cadence_stays_where_it_is_over_versions() -> None:
    """The hash is part of what people see: an update must not move their tasks."""
    assert next_at(Cadence("hourly"), 0, "UTC", "backup") == 6781
    assert next_at(Cadence("daily"), 0, "UTC", "backup") == 17280


CLOCKS = st.builds(
    "{:02}:{:02}".format,
    st.sampled_from([0, 1, 2, 3, 4, 12, 22, 23]),
    st.sampled_from([0, 15, 30, 44, 45, 59]),
)
HOURS = st.builds(
    Hours, CLOCKS, CLOCKS | st.just("24:00"), st.lists(st.integers(0, 6), max_size=3).map(tuple)
)


def by_the_clock(hours: Hours, wall: datetime) -> bool:
    """Decide by walking back to the latest beginning."""
    begin, end = (tuple(map(int, clock.split(":"))) for clock in (hours.begin, hours.end))
    now = (wall.hour, wall.minute)
    began = wall.date() if now >= begin else wall.date() - timedelta(days=1)
    if hours.days and began.weekday() not in hours.days:
        return False
    is_over = (now >= end) if now >= begin else (now >= end or end > begin)
    return is_over is False if begin < end or now < begin else True


def test_active_hours(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(st.sampled_from(CHANGES), HOURS, st.lists(st.integers(-DAY, DAY), max_size=5))
    def holds(change: tuple[str, int], hours: Hours, leads: list[int]) -> None:
        zone, moment = change
        begin, end = moment - DAY, moment + 2 * DAY
        walls = every_minute(zone, begin, end)
        expected = [time for time, wall in walls if by_the_clock(hours, wall)]
        for time, wall in walls[::7]:
            assert is_active(hours, time, zone) == by_the_clock(hours, wall)
        near = range(-2 * 3600, 3 * 3600, 600)
        for asked in (moment + lead for lead in (*near, *leads)):
            found = next_active(hours, asked, zone)
            assert is_active(hours, found, zone)
            if is_active(hours, asked, zone):
                assert found == asked
            else:
                later = [time for time in expected if time > asked]
                assert (found == later[0]) if later else found >= end

    holds()


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (Every(59.9), "60 seconds at least"),
        (Every(-60), "60 seconds at least"),
        (Every(math.nan), "once in 366 days"),
        (Every(math.inf), "once in 366 days"),
        (Every(367 * DAY), "once in 366 days"),
        (Every(60, start=math.nan), "1970"),
        (Once(math.inf), "1970"),
        (Once(-1), "1970"),
        (Once(LATEST + 1), "2200"),
        (Cron(""), "no cron expression"),
        (Cron("* * * *"), "no cron expression"),
        (Cron("* * * * * *"), "no cron expression"),
        (Cron("@reboot"), "@daily"),
        (Cron("60 * * * *"), "minute"),
        (Cron("* 24 * * *"), "hour"),
        (Cron("* * 32 * *"), "day-of-month"),
        (Cron("* * * 13 *"), "month"),
        (Cron("* * * * 8"), "day-of-week"),
        (Cron("*/0 * * * *"), "minute"),
        (Cron("5-1 * * * *"), "minute"),
        (Cron("0 0 30 2 *"), "day-of-month"),
        (Cron("1," * 1000 + " * * * *"), "no cron expression"),
    ],
)
def test_what_cannot_be_is_said(when: When, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        check(when)


@pytest.mark.parametrize(
    "expression",
    ["*/59 * * * *", "0 0 29 2 *", "0 0 30 2 1", "0 0 * * 7", "0 0 1 JAN Sun", "@Daily",
     "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#5", " 0  0 * *\t* "],
)  # fmt: skip
def test_what_can_be_is_fine(expression: str) -> None:
    check(Cron(expression))
    assert next_at(Cron(expression), 0, "UTC") is not None


@settings(max_examples=200, derandomize=True)
@given(st.text("0123456789*/,-#LW@ aMON\u0663²", max_size=24) | st.text(max_size=24))
def test_any_text_is_checked(text: str) -> None:
    """What passes the check can be planned, and nothing makes it fail."""
    with suppress(BadSetting):
        check(Cron(text))
        assert next_at(Cron(text), 0, "Europe/London") is not None
