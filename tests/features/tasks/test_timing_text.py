from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.features.tasks.timing_text import (
    FORMS,
    parse_when,
    say,
    say_time,
)
from elwood.features.tasks.timing_words import (
    DAYS,
    MONTHS,
    length,
    take_clock,
)
from elwood.features.tasks.when import (
    Cadence,
    Cron,
    Every,
    Once,
    When,
    check,
    next_at,
)

ZONE = "Europe/Berlin"


def at(text: str, fold: int = 0) -> float:
    here = datetime.fromisoformat(text)
    return here.replace(tzinfo=here.tzinfo or ZoneInfo(ZONE), fold=fold).timestamp()


NOW = at("2026-11-22 06:00")  # a Sunday


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("every monday at 8", "0 8 * * 1"),
        ("Every Monday At 8:00.", "0 8 * * 1"),
        ("mondays at 8", "0 8 * * 1"),
        ("at 8 every monday", "0 8 * * 1"),
        ("weekly on monday at 8", "0 8 * * 1"),
        ("every week on monday at 8am", "0 8 * * 1"),
        ("every sunday at 8", "0 8 * * 0"),
        ("every weekday at 7:30", "30 7 * * 1-5"),
        ("on weekdays at half past seven", "30 7 * * 1-5"),
        ("monday to friday at 7.30", "30 7 * * 1-5"),
        ("mon-fri at 7:30", "30 7 * * 1-5"),
        ("every friday to monday at 9", "0 9 * * 1,5,6,0"),
        ("every weekend at noon", "0 12 * * 6,0"),
        ("every mon, wed and fri at 5 p.m.", "0 17 * * 1,3,5"),
        ("tuesdays and thursdays at 5pm", "0 17 * * 2,4"),
        ("every day at 9", "0 9 * * *"),
        ("daily at nine", "0 9 * * *"),
        ("9am daily", "0 9 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("each day at 12am", "0 0 * * *"),
        ("each day at 12pm", "0 12 * * *"),
        ("every day at quarter to nine", "45 8 * * *"),
        ("every day at nine in the evening", "0 21 * * *"),
        ("every day at nine o'clock", "0 9 * * *"),
        ("every 1st at 10:00", "0 10 1 * *"),
        ("on the 1st of the month at 10:00", "0 10 1 * *"),
        ("on the 1st of every month at 10:00", "0 10 1 * *"),
        ("on the first day of the month at 10:00", "0 10 1 * *"),
        ("every month on the 22nd at 10:00", "0 10 22 * *"),
        ("monthly on the 3rd at 10", "0 10 3 * *"),
        ("on the last day of every month at 18:00", "0 18 L * *"),
        ("on the last friday of every month at 16:00", "0 16 * * 5L"),
        ("first monday of the month at 9", "0 9 * * 1#1"),
        ("every 2nd tuesday of the month at 9", "0 9 * * 2#2"),
        ("every year on 24 december at 18:00", "0 18 24 12 *"),
        ("yearly on december 24th at 6pm", "0 18 24 12 *"),
        ("every 24th of dec at 18:00", "0 18 24 12 *"),
        ("5 4 * * *", "5 4 * * *"),
        ("*/5 8-18 * * MON-FRI", "*/5 8-18 * * MON-FRI"),
        ("@daily", "@daily"),
        ("@Weekly", "@Weekly"),
    ],
)
def test_what_comes_again_becomes_cron(text: str, expression: str) -> None:
    assert parse_when(text, ZONE, NOW) == Cron(expression)
    assert check(Cron(expression)) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hourly", Cadence("hourly")),
        ("daily", Cadence("daily")),
        ("every day", Cadence("daily")),
        ("weekly", Cadence("weekly")),
        ("Monthly", Cadence("monthly")),
        ("every 20 minutes", Every(1200.0, start=NOW)),
        ("every 20 mins.", Every(1200.0, start=NOW)),
        ("every 2h", Every(7200.0, start=NOW)),
        ("every 1h30m", Every(5400.0, start=NOW)),
        ("every 1.5 hours", Every(5400.0, start=NOW)),
        ("every two hours and 30 minutes", Every(9000.0, start=NOW)),
        ("every minute", Every(60.0, start=NOW)),
        ("every half an hour", Every(1800.0, start=NOW)),
        ("every other day", Every(172_800.0, start=NOW)),
        ("every second day", Every(172_800.0, start=NOW)),
        ("every third hour", Every(10_800.0, start=NOW)),
        ("every 90 seconds", Every(90.0, start=NOW)),
        ("in 20 minutes", Once(NOW + 1200)),
        ("in an hour", Once(NOW + 3600)),
        ("in half an hour", Once(NOW + 1800)),
        ("in 2 weeks", Once(NOW + 14 * 86_400)),
        ("in 10 seconds", Once(NOW + 10)),
    ],
)
def test_cadences_and_lengths(text: str, expected: When) -> None:
    assert parse_when(text, ZONE, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tomorrow at nine", "2026-11-23 09:00"),
        ("tomorrow at 9", "2026-11-23 09:00"),
        ("9:15 tomorrow", "2026-11-23 09:15"),
        ("at 9pm tomorrow", "2026-11-23 21:00"),
        ("the day after tomorrow at 7", "2026-11-24 07:00"),
        ("at 17:30", "2026-11-22 17:30"),
        ("17:30", "2026-11-22 17:30"),
        ("at 5:59", "2026-11-23 05:59"),
        ("at six", "2026-11-23 06:00"),  # it is six now
        ("midnight", "2026-11-23 00:00"),
        ("today at 8", "2026-11-22 08:00"),
        ("tonight at 8", "2026-11-22 20:00"),
        ("tonight at 20:30", "2026-11-22 20:30"),
        ("tonight at 12", "2026-11-23 00:00"),
        ("tonight at midnight", "2026-11-23 00:00"),
        ("tonight at half past 12", "2026-11-23 00:30"),
        ("tonight at 2", "2026-11-23 02:00"),
        ("tomorrow at 12 at night", "2026-11-23 00:00"),
        ("tomorrow at half past 12 in the morning", "2026-11-23 00:30"),
        ("tomorrow at 12 in the afternoon", "2026-11-23 12:00"),
        ("on the 1st at 10:00", "2026-12-01 10:00"),  # once: nobody said every month
        ("the 22nd at 5:59", "2026-12-22 05:59"),
        ("on the 22nd at 6:01", "2026-11-22 06:01"),
        ("on the 31st at noon", "2026-12-31 12:00"),
        ("in 3 days at 9", "2026-11-25 09:00"),
        ("in a week at 9", "2026-11-29 09:00"),
        ("sunday at 8", "2026-11-22 08:00"),
        ("sunday at 5", "2026-11-29 05:00"),
        ("next sunday at 8", "2026-11-29 08:00"),
        ("on friday at 8pm", "2026-11-27 20:00"),
        ("fri 17:00", "2026-11-27 17:00"),
        ("24 december at 18:00", "2026-12-24 18:00"),
        ("on the 24th of december at 6pm", "2026-12-24 18:00"),
        ("Dec 24, 2027 at 18:00", "2027-12-24 18:00"),
        ("22 november at 5:00", "2027-11-22 05:00"),
        ("29 february at noon", "2028-02-29 12:00"),
        ("2026-12-24 18:00", "2026-12-24 18:00"),
        ("2026-12-24 at 6pm", "2026-12-24 18:00"),
        ("2026-12-24T18:00:30", "2026-12-24 18:00:30"),
        ("2026-12-24T18:00-05:00", "2026-12-25T00:00+01:00"),
        ("2026-12-24 18:00 +0100", "2026-12-24 18:00"),
        ("2026-12-24T17:00Z", "2026-12-24 18:00"),
        ("2026-12-24 17:00 UTC", "2026-12-24 18:00"),
        ("2027-03-28 02:30", "2027-03-28 03:00"),  # there is no half past two
        ("2027-10-31 02:30", "2027-10-31 02:30"),  # there are two: the first
    ],
)
def test_moments(text: str, expected: str) -> None:
    assert parse_when(text, ZONE, NOW) == Once(at(expected))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Write one of"),
        ("soon", "Write one of"),
        ("9", "Write one of"),
        ("at", "no time of day"),
        ("every", "Write one of"),
        ("every second monday at 9", "Write one of"),
        ("every day at 9 and 17", "Write one of"),
        ("tomorrow at 25", "Write one of"),
        ("tomorrow at 13pm", "Write one of"),
        ("tomorrow at 9:75", "Write one of"),
        ("30 february at noon", "Write one of"),
        ("2027-02-29 at noon", "Write one of"),
        ("2026-12-24 18:00 CET", "Write one of"),
        ("every 0 minutes", "Write one of"),
        ("on the 32nd at 9", "Write one of"),
        ("on the 32nd of every month at 9", "day of the month"),
        ("on the last day at 9", "Write one of"),
        ("on the weekend at 10", "Write one of"),
        ("every hour minute", "Write one of"),
        ("tomorrow at 12 in the evening", "Write one of"),
        ("every year on 30 february at 9", "no day ever"),
        ("tomorrow", "no time of day"),
        ("every monday", "no time of day"),
        ("2026-12-24", "no time of day"),
        ("2026-11-22 05:59", "past"),
        ("2026-11-22 06:00", "past"),
        ("today at 5", "past"),
        ("24 december 2025 at 18:00", "past"),
        ("2026-13-01 10:00", "month"),
        ("every 5 seconds", "too often"),
        ("every 400 days", "too seldom"),
        ("in 99999 weeks", "2200"),
        ("0 25 * * *", "hour"),
        ("*/90 * * * *", "every 90 minutes"),
        ("5 4 * * * *", "no cron expression"),
        ("@reboot", "@daily"),
        ("tomorrow at nine " * 100, "at most"),
    ],
)
def test_what_is_not_understood_is_answered_with_help(text: str, said: str) -> None:
    answer = parse_when(text, ZONE, NOW)
    assert isinstance(answer, str)
    assert said in answer


def test_every_form_that_is_offered_is_understood() -> None:
    forms = FORMS.replace("hourly, daily, weekly, monthly", "hourly").split(", ")
    assert len(forms) > 15
    for form in forms:
        text = form.removeprefix("a cron expression like ")
        when = parse_when(text, ZONE, NOW)
        assert not isinstance(when, str), text
        assert next_at(when, NOW, ZONE) is not None


WORDS = (
    "every", "each", "day", "daily", "weekday", "weekends", "monday", "tues", "fridays", "next",
    "last", "first", "1st", "31st", "in", "on", "the", "of", "to", "and", "at", "am", "pm", "9",
    "17:30", "8:75", "nine", "noon", "half", "past", "quarter", "month", "year", "week", "december",
    "feb", "29", "2027", "2026-12-24", "hours", "minutes", "20", "2h", "a", "an", "tomorrow",
    "tonight", "today", "-", ",", "@daily", "*", "*/5", "0",
)  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join) | st.text(max_size=40))
def test_whatever_is_understood_is_to_come_and_can_be_said(text: str) -> None:
    when = parse_when(text, ZONE, NOW)
    if isinstance(when, str):
        assert when
        return
    assert check(when) == ""
    found = next_at(when, NOW, ZONE)
    assert found is not None
    assert found > NOW
    assert say_time(found, ZONE, NOW)
    said = say(when, ZONE)
    if isinstance(when, Cron) and not said.startswith("cron "):
        again = parse_when(said, ZONE, NOW)
        assert isinstance(again, Cron)
        assert next_at(again, NOW, ZONE) == found
        assert say(again, ZONE) == said


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (Cron("0 8 * * 1"), "every Monday at 08:00"),
        (Cron("0 8 * * MON,sun"), "every Monday and Sunday at 08:00"),
        (Cron("0 8 * * 1,2,4"), "every Monday, Tuesday and Thursday at 08:00"),
        (Cron("0 8 * * 7"), "every Sunday at 08:00"),
        (Cron("30 7 * * 1-5"), "every weekday at 07:30"),
        (Cron("@daily"), "every day at 00:00"),
        (Cron("@monthly"), "on the 1st of every month at 00:00"),
        (Cron("@yearly"), "every year on 1 January at 00:00"),
        (Cron("0 9 31 * *"), "on the 31st of every month that has one at 09:00"),
        (Cron("0 9 L * *"), "on the last day of every month at 09:00"),
        (Cron("0 9 * * 1#2"), "on the second Monday of every month at 09:00"),
        (Cron("0 9 * * 5L"), "on the last Friday of every month at 09:00"),
        (Cron("@hourly"), "cron @hourly"),
        (Cron("5 4 1 * 1"), "cron 5 4 1 * 1"),
        (Cron("5 4 1 2-3 *"), "cron 5 4 1 2-3 *"),
        (Cron("5 4 * * 1-3"), "cron 5 4 * * 1-3"),
        (Cron("5,10 4 * * *"), "cron 5,10 4 * * *"),
        (Every(1200.0), "every 20 minutes"),
        (Every(3600.0), "every hour"),
        (Every(5400.0), "every 90 minutes"),
        (Every(86_400.0), "every 24 hours"),
        (Every(172_800.0), "every 2 days"),
        (Every(604_800.0), "every week"),
        (Every(90.5), "every 90.5 seconds"),
        (Cadence("weekly"), "weekly"),
        (Once(at("2026-12-24 18:00")), "once, 2026-12-24 18:00 CET"),
        (Once(at("2027-10-31 02:30", fold=1)), "once, 2027-10-31 02:30 CET"),
        (Once(at("2027-10-31 02:30")), "once, 2027-10-31 02:30 CEST"),
    ],
)
def test_saying(when: When, said: str) -> None:
    assert say(when, ZONE) == said


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-11-22 17:30", "today at 17:30 CET"),
        ("2026-11-22 00:00", "today at 00:00 CET"),
        ("2026-11-23 09:00", "tomorrow at 09:00 CET"),
        ("2026-11-21 23:59", "yesterday at 23:59 CET"),
        ("2026-11-24 08:00", "Tue 24 Nov at 08:00 CET"),
        ("2027-07-01 08:00", "Thu 1 Jul 2027 at 08:00 CEST"),
    ],
)
def test_saying_a_moment(moment: str, said: str) -> None:
    assert say_time(at(moment), ZONE, NOW) == said


def test_zones_without_an_abbreviation_say_how_far_they_are() -> None:
    assert say_time(0, "Asia/Kathmandu", 0) == "today at 05:30 UTC+05:30"
    assert say_time(0, "America/Sao_Paulo", 86_400) == "yesterday at 21:00 UTC-03"


@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(DAYS), st.integers(1, 28),
       st.integers(1, 12))  # fmt: skip
def test_what_is_said_is_read(hour: int, minute: int, day: str, number: int, month: int) -> None:
    number_of_day = (DAYS.index(day) + 1) % 7
    for fields in ("* * *", f"* * {number_of_day}", f"{number} * *", f"{number} {month} *",
                   f"* * {number_of_day}#3", f"* * {number_of_day}L"):  # fmt: skip
        cron = Cron(f"{minute} {hour} {fields}")
        assert parse_when(say(cron, ZONE), ZONE, NOW) == cron
    assert take_clock(f"{hour}:{minute:02}") == ((hour, minute), "")
    assert take_clock(f"{number} {MONTHS[month - 1].lower()}")[0] is None


@given(st.integers(1, 400), st.sampled_from(["minutes", "hours", "seconds", "m", "h", "s", "d"]))
def test_lengths(number: int, unit: str) -> None:
    size = {"m": 60, "h": 3600, "s": 1, "d": 86_400}[unit[0]]
    assert length(f"{number} {unit}") == length(f"{number}{unit}") == number * size
