"""Days in words: those that come again, as fields of cron, and dates."""

import re
from datetime import date, timedelta

from elwood.features.tasks.timing_words import (
    DAYS,
    MONTHS,
    ORDINALS,
    length,
    month,
    nth,
    weekday,
)

_NTH = r"(\d{1,2})(?:st|nd|rd|th)"
# "on the 5th" is the next one, "every 5th" and "on the 5th of the month" are all.
_DAY_OF_MONTH = re.compile(
    rf"(?=.*(?:every|month))(?:every )?(?:month )?(?:{_NTH}(?: day)?|(first|last) day)"
    r"(?: (?:every )?month)?(?: that has one)?"
)
_NTH_DAY = re.compile(
    rf"(?=.*month)(?:every )?(?:month )?({'|'.join(ORDINALS)}|last|{_NTH}) ([a-z]+)"
    r"(?: (?:every )?month)?"
)
# Of which one has a 31st, even if that of this month is over.
_MONTHS_AHEAD = 4
_DATE = re.compile(
    r"(every )?(?:year )?(?:(\d{1,2})(?:st|nd|rd|th)? ([a-z]+)|([a-z]+) (\d{1,2})(?:st|nd|rd|th)?)"
    r"(?: (\d{4}))?"
)


def recurring(form: str) -> str | None:
    """Read days that come again, as the last three fields of a cron expression.

    *form* is in small letters and without the words that only people need: on, the, of, and.

    >>> recurring("every monday thursday"), recurring("mondays"), recurring("last friday month")
    ('* * 1,4', '* * 1', '* * 5L')
    >>> recurring("every month 1st"), recurring("every year 24 december"), recurring("monday")
    ('1 * *', '24 12 *', None)
    """
    if form == "every day":
        return "* * *"
    found = _DAY_OF_MONTH.fullmatch(form)
    if found is not None:
        return f"{found.group(1) or {'first': '1', 'last': 'L'}[found.group(2)]} * *"
    found = _NTH_DAY.fullmatch(form)
    if found is not None and (day := weekday(found.group(3))) is not None:
        if found.group(1) == "last":
            return f"* * {(day + 1) % 7}L"
        return f"* * {(day + 1) % 7}#{found.group(2) or ORDINALS.index(found.group(1)) + 1}"
    found = _DATE.fullmatch(form)
    if found is not None and found.group(1) and not found.group(6):
        number = month(found.group(3) or found.group(4))
        return f"{found.group(2) or found.group(5)} {number} *" if number else None
    return _week_days(form)


def _week_days(form: str) -> str | None:
    words = form.removeprefix("every ").removeprefix("week ").split()
    if words == ["weekdays"] or form == "every weekday":
        return "* * 1-5"
    if words == ["weekends"] or form == "every weekend":
        return "* * 6,0"
    days = [weekday(word) for word in words if word != "to"]
    known = [day for day in days if day is not None]
    is_range = len(known) == 2 and words[1:2] == ["to"]
    # "monday" is the next one; "mondays", "every monday" and "monday to friday" are all.
    again = is_range or words != form.split() or form.endswith("s")
    if not words or not again or len(known) < len(days) or ("to" in words and not is_range):
        return None
    if is_range:
        first, last = known
        known = [(first + ahead) % 7 for ahead in range((last - first) % 7 + 1)]
    if sorted(known) == [0, 1, 2, 3, 4]:
        return "* * 1-5"
    return "* * " + ",".join(str((day + 1) % 7) for day in sorted(set(known)))


def dates(form: str, today: date) -> tuple[date, ...] | None:
    """Read a date as those that may be meant, of which the first that is not over is.

    >>> dates("monday", date(2026, 11, 23)), dates("next monday", date(2026, 11, 23))
    ((datetime.date(2026, 11, 23), datetime.date(2026, 11, 30)), (datetime.date(2026, 11, 30),))
    >>> dates("31st", date(2026, 11, 23))
    (datetime.date(2026, 12, 31), datetime.date(2027, 1, 31))
    >>> dates("24 december 2026", date(2026, 11, 23)), dates("every monday", date(2026, 11, 23))
    ((datetime.date(2026, 12, 24),), None)
    """
    after = {
        "": (0, 1), "today": (0,), "tonight": (0,), "tomorrow": (1,), "day after tomorrow": (2,)
    }.get(form)  # fmt: skip
    if after is None and (day := weekday(form.removeprefix("next "))) is not None:
        ahead = (day - today.weekday()) % 7
        after = (ahead or 7,) if form.startswith("next ") else (ahead, ahead + 7)
    if after is None and form.startswith("in ") and (seconds := length(form[3:])):
        after = (round(seconds / 86_400),) if seconds % 86_400 == 0 else None
    if after is not None:
        return tuple(today + timedelta(days=days) for days in after)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", form):
        return _only(_date(*map(int, form.split("-"))))
    if (found := re.fullmatch(_NTH, form)) is not None:
        coming = ((today.month - 1 + ahead) for ahead in range(_MONTHS_AHEAD))
        return _only(
            *(_date(today.year + n // 12, n % 12 + 1, int(found.group(1))) for n in coming)
        )
    found = _DATE.fullmatch(form)
    number = month(found.group(3) or found.group(4)) if found and not found.group(1) else None
    if found is None or number is None:
        return None
    day_number = int(found.group(2) or found.group(5))
    if found.group(6):
        return _only(_date(int(found.group(6)), number, day_number))
    # A leap day is eight years away at most.
    years = range(today.year, today.year + 9)
    return _only(*(_date(year, number, day_number) for year in years))


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None  # there is no such day


def _only(*days: date | None) -> tuple[date, ...] | None:
    return tuple(day for day in days if day is not None) or None


def say_days(fields: str) -> str | None:
    """Say the last three fields of a cron expression; None if there are no plain words for them.

    >>> say_days("* * 1,3"), say_days("31 * *")
    ('every Monday and Wednesday', 'on the 31st of every month that has one')
    >>> say_days("1 * 1")
    """
    if fields in _PLAIN_DAYS:
        return _PLAIN_DAYS[fields]
    day, number, name = fields.split()
    if number == "*" and name == "*" and day.isdecimal():
        missing = " that has one" if int(day) > 28 else ""
        return f"on the {nth(int(day))} of every month{missing}"
    if name == "*" and day.isdecimal() and number.isdecimal():
        return f"every year on {int(day)} {MONTHS[int(number) - 1]}"
    if (day, number) != ("*", "*"):
        return None
    found = re.fullmatch(r"([0-7])(?:#([1-5])|(l))", name)
    if found is not None:
        which = ORDINALS[int(found.group(2)) - 1] if found.group(2) else "last"
        return f"on the {which} {_say_day(found.group(1))} of every month"
    names = [_say_day(part) for part in name.split(",")]
    if "" in names:
        return None
    return "every " + " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_PLAIN_DAYS = {
    "* * *": "every day",
    "* * 1-5": "every weekday",
    "* * mon-fri": "every weekday",
    "l * *": "on the last day of every month",
}


def _say_day(field: str) -> str:
    """Return the name of a day of cron, "" if *field* is not one day."""
    number = weekday(field) if len(field) == 3 else None
    if number is None:
        return DAYS[int(field) - 1] if re.fullmatch("[0-7]", field) else ""
    return DAYS[number]
