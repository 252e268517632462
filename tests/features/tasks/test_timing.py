"""Planned times over all kinds of clock changes, and active hours, checked minute by minute."""

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

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


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    number: int = request.config.getoption("--timing-examples")
    return number


@pytest.mark.parametrize(
    ("zone", "expression", "after", "times"),
    [
        # A time in the gap moves to its end; a repeated time counts once, the first time.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00+01:00",
         ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("Europe/Berlin", "15 1-3 * * *", "2026-03-29T00:00+01:00",
         ["2026-03-29T01:15+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:15+02:00"]),
        ("America/Havana", "0 0 * * *", "2026-03-07T12:00-05:00",
         ["2026-03-08T01:00-04:00", "2026-03-09T00:00-04:00"]),
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00+02:00",
         ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        # A minute field with a star continues by elapsed minutes.
        ("Europe/Berlin", "*/30 * * * *", "2026-03-29T01:00+01:00",
         ["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00"]),
        ("Europe/Berlin", "*/30 * * * *", "2026-10-25T02:30+02:00",
         ["2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00", "2026-10-25T03:00+01:00"]),
    ],
)  # fmt: skip
def test_cron_times_follow_clock_changes(
    zone: str, expression: str, after: str, times: list[str]
) -> None:
    at: float | None = datetime.fromisoformat(after).timestamp()
    for time in times:
        assert at is not None
        at = next_at(Cron(expression), at, zone)
        assert at == datetime.fromisoformat(time).timestamp()


@given(st.floats(MIN_EVERY, MAX_EVERY), st.floats(0, 2e9), st.floats(0, 4e9))
@example(60.0, 0.0, 0.0)
@example(60.1, 0.3, 1e9)
def test_intervals_are_planned(seconds: float, start: float, after: float) -> None:
    every = Every(seconds, start)
    check(every)
    first = next_at(every, after, "UTC")
    assert first is not None
    assert after < first <= max(after, start) + seconds * (1 + 1e-9)
    second = next_at(every, first, "UTC")
    assert second == pytest.approx(first + seconds)


@pytest.mark.parametrize(
    ("cadence", "at"),
    [
        (Cadence("hourly"), 1_000_002_612.0),
        (Cadence("daily"), 1_000_035_060.0),
        (Cadence("weekly"), 1_000_477_680.0),
        (Cadence("biweekly"), 1_001_063_940.0),
        (Cadence("monthly"), 1_001_922_780.0),
    ],
)
def test_a_cadence_does_not_move_between_versions(cadence: Cadence, at: float) -> None:
    """The hash is visible to people: an update must not move their tasks."""
    assert next_at(cadence, 1e9, "Europe/Berlin", "tea") == at


def test_biweekly_tasks_keep_their_local_time_over_clock_changes() -> None:
    at, times = 1.79e9, list[datetime]()
    for _ in range(26):
        at = next_at(Cadence("biweekly"), at, "Europe/Berlin", "tea") or 0.0
        times.append(datetime.fromtimestamp(at, ZoneInfo("Europe/Berlin")).replace(tzinfo=None))
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(days=14)}


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


def test_active_hours_match_a_minute_by_minute_walk(examples: int) -> None:
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
        (Every(59.9), "at least 60 seconds"),
        (Every(-60), "at least 60 seconds"),
        (Every(math.nan), "at most 366 days"),
        (Every(math.inf), "at most 366 days"),
        (Every(367 * DAY), "at most 366 days"),
        (Every(60, start=math.nan), "1970"),
        (Once(math.inf), "1970"),
        (Once(-1), "1970"),
        (Once(LATEST + 1), "2200"),
        (Cron(""), "not a cron expression"),
        (Cron("* * * * * *"), "not a cron expression"),
        (Cron("@reboot"), "@daily"),
        (Cron("60 * * * *"), "minute"),
        (Cron("0 0 30 2 *"), "day-of-month"),
        (Cron("1," * 1000 + " * * * *"), "not a cron expression"),
    ],
)
def test_an_invalid_schedule_is_explained(when: When, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        check(when)


@pytest.mark.parametrize(
    "expression",
    ["*/59 * * * *", "0 0 29 2 *", "0 0 30 2 1", "0 0 * * 7", "0 0 1 JAN Sun", "@Daily",
     "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#5", " 0  0 * *\t* "],
)  # fmt: skip
def test_a_valid_schedule_is_accepted(expression: str) -> None:
    check(Cron(expression))
    assert next_at(Cron(expression), 0, "UTC") is not None


@settings(max_examples=200, derandomize=True)
@given(st.text("0123456789*/,-#LW@ aMON\u0663²", max_size=24) | st.text(max_size=24))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    """Every accepted schedule can be planned, and no text raises."""
    with suppress(BadSetting):
        check(Cron(text))
        assert next_at(Cron(text), 0, "Europe/London") is not None
