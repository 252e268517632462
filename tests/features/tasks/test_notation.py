"""Times and tasks as people write them are parsed the same way every time."""

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.settings import Hours, read_hours, write_hours
from elwood.features.tasks.settings import TaskForm, read_route, read_task
from elwood.features.tasks.task import CATCH_UP, CATCH_UP_ONCE, Task
from elwood.features.tasks.when import (
    FORMS,
    Cadence,
    Cron,
    Every,
    Once,
    When,
    read_moment,
    read_when,
    say_when,
)
from elwood.foundation.settings import BadSetting

CLOCKS = st.integers(0, 1439).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")


@pytest.mark.parametrize(
    "text", ["tomorrow at nine", "in 20 minutes", "every day at 9", "2026-12-24", "17:30", "often"]
)
def test_an_invalid_time_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(BadSetting) as found:
        read_when(text, "Europe/Berlin")
    assert found.value.remedy == f"write one of {FORMS}"
    proposed = FORMS.replace("or a cron expression like ", "")
    for form in proposed.split(", "):
        read_when(form, "UTC")


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Every 30 minutes", Every(1800.0)),
        ("every hour", Every(3600.0)),
        ("every 2 weeks", Every(1_209_600.0)),
        ("biweekly", Cadence("biweekly")),
        ("Daily", Cadence("daily")),
        ("@daily", Cron("@daily")),
        ("30  7 * * mon-fri", Cron("30 7 * * mon-fri")),
        ("2026-12-24t18:00+01:00", Once(1_798_131_600.0)),
    ],
)
def test_times_in_files_are_parsed(text: str, when: When) -> None:
    assert read_when(text, "Europe/Berlin") == when


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (Cron("0 8 * * 1,2,7"), "every Mon, Tue, Sun at 08:00"),
        (Cron("30 7 * * 1-5"), "every weekday at 07:30"),
        (Cron("@daily"), "every day at 00:00"),
        (Cron("0 9 31 * *"), "on day 31 of every month at 09:00"),
        (Cron("@hourly"), "cron @hourly"),
        (Cron("5 4 1 * 1"), "cron 5 4 1 * 1"),
        (Every(5400.0), "every 90 minutes"),
        (Every(172_800.0), "every 2 days"),
        (Every(90.5), "every 90.5 seconds"),
        (Once(1_795_345_200.0), "once, Sun 2026-11-22 12:00 CET"),
    ],
)
def test_schedules_are_described(when: When, said: str) -> None:
    assert say_when(when, "Europe/Paris") == said


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("8-22", Hours("08:00", "22:00")),
        ("08:00 \u2013 24:00", Hours("08:00", "24:00")),
        ("Mon-Fri, sun 8:30-18:00", Hours("08:30", "18:00", (0, 1, 2, 3, 4, 6))),
        ("9:00-5:00", Hours("09:00", "05:00")),
        ("12-0", Hours("12:00", "00:00")),
        ("fri-mon 20-2", Hours("20:00", "02:00", (0, 4, 5, 6))),
        ("mon-sun 8-18", Hours("08:00", "18:00")),
        ("always", None),
        ("", None),
    ],
)
def test_hours_are_parsed(text: str, hours: Hours | None) -> None:
    assert read_hours(text) == hours


@pytest.mark.parametrize(
    "text", ["8", "25-26", "8-22:60", "24:00-8", "mon-", "mon-fri", "funday 8-9", "8-9 mon", "9-5"]
)
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="write"):
        read_hours(text)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    by_zone = (partial(read_when, zone="UTC"), partial(read_moment, zone="UTC"))
    for read in (read_hours, *by_zone, read_route):
        with suppress(BadSetting):
            read(text)


@given(begin=CLOCKS, end=CLOCKS, days=st.sets(st.integers(0, 6), max_size=6))
def test_hours_survive_a_round_trip(begin: str, end: str, days: set[int]) -> None:
    hours = Hours(begin, end, tuple(sorted(days)))
    assert read_hours(write_hours(hours)) == hours


def made(**keys: str) -> Task:
    return read_task(TaskForm(**keys), "Europe/Berlin", "config")  # type: ignore[arg-type]


def test_missing_keys_have_defaults() -> None:
    task = made(when="0 9 * * *", prompt="Look into   the inbox\nand say what is new " * 5)
    assert task.title == "Look into the inbox and say what is new Look into the inbox "[:60]
    assert task.id == "look-into-the-inbox-and-say-what-is-new-look-into-the-inbox"
    assert (task.zone, task.hours, task.watch) == ("Europe/Berlin", None, None)
    assert (task.role, task.budget, task.catch_up) == ("default", None, CATCH_UP)
    assert made(when="2100-01-01 09:00", message="x").catch_up == CATCH_UP_ONCE
    assert made(when="2100-01-01 09:00", prompt="x").catch_up == CATCH_UP


def test_an_end_date_includes_its_day() -> None:
    ends = made(when="hourly", message="x", ends="2026-12-24").ends
    assert ends == read_moment("2026-12-25 00:00", "Europe/Berlin")


def test_an_interval_may_have_a_start() -> None:
    task = made(when="every 2 days", message="x", start="2026-11-22 09:00", hours="8-10")
    assert task.when == Every(172_800.0, start=1_795_334_400.0)
