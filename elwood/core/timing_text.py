"""Times as people and models say them: reading them, and saying them."""

import re
from datetime import date, datetime, time, timedelta

from elwood.core import crontab, wall
from elwood.core.timing import Cadence, Cron, Every, Once, When, check
from elwood.core.timing_words import (
    DAYS,
    MONTHS,
    ORDINALS,
    length,
    month,
    nth,
    say_length,
    take_clock,
    weekday,
    zone_name,
)

# Characters; what is longer is a story, not a time.  Cron expressions may be longer.
MAX_TEXT = 200
FORMS = (
    "every 20 minutes, every 2h, hourly, daily, weekly, monthly, every day at 9, every weekday at "
    "7:30, every monday and thursday at 8, on the 1st of every month at 10:00, on the last friday "
    "of every month at 16:00, every year on 24 december at 18:00, in 20 minutes, at 17:30, "
    "tomorrow at nine, friday at 8pm, 24 december at 18:00, 2026-12-24 18:00, "
    "2026-12-24T18:00+01:00, a cron expression like 30 7 * * 1-5, @daily"
)
_CADENCES = {
    "hourly": Cadence("hourly"),
    "daily": Cadence("daily"),
    "every day": Cadence("daily"),
    "weekly": Cadence("weekly"),
    "every week": Cadence("weekly"),
    "monthly": Cadence("monthly"),
    "every month": Cadence("monthly"),
}
_CRON = re.compile(r"[\d*/,-]+ [\d*/,-]+(?: \S+){3,4}")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:t| | at )(\d\d:\d\d(?::\d\d)?)(?: ?(z|utc|[+-]\d\d:?\d\d))?"
)
# Words that a form has or has not, with the same meaning.
_PLAIN = {
    "each": "every", "daily": "every day", "weekly": "every week", "monthly": "every month",
    "yearly": "every year", "annually": "every year",
    "on": "", "the": "", "of": "", "and": "", "at": "",
}  # fmt: skip
_NTH = r"(\d{1,2})(?:st|nd|rd|th)"
_DAY_OF_MONTH = re.compile(
    rf"(?:every )?(?:month )?(?:{_NTH}(?: day)?|(first|last) day)(?: (?:every )?month)?"
    r"(?: that has one)?"
)
_NTH_DAY = re.compile(
    rf"(?=.*month)(?:every )?(?:month )?({'|'.join(ORDINALS)}|last|{_NTH}) ([a-z]+)"
    r"(?: (?:every )?month)?"
)
_DATE = re.compile(
    r"(every )?(?:year )?(?:(\d{1,2})(?:st|nd|rd|th)? ([a-z]+)|([a-z]+) (\d{1,2})(?:st|nd|rd|th)?)"
    r"(?: (\d{4}))?"
)
_NO_TIME = "{!r} has no time of day: write it like 'at 9' or 'at 17:30'"


def parse_when(text: str, zone: str, now: float) -> When | str:
    """Read when something shall be done; what cannot be read is answered with a text that helps.

    English.  Times are those of the clocks in *zone*: one that clocks leave out is the moment
    when they do, of one that they show twice it is the first (as in core/wall.moment).

    >>> parse_when("every weekday at 7:30", "UTC", 0)
    Cron(expression='30 7 * * 1-5')
    >>> parse_when("tomorrow at nine", "UTC", 0), parse_when("in 20 minutes", "UTC", 0)
    (Once(at=118800.0), Once(at=1200.0))
    >>> parse_when("every 5 seconds", "UTC", 0)
    'every 5 seconds is too often: the least is 60 seconds'
    """
    said = " ".join(text.split())
    if said.startswith("@") or _CRON.fullmatch(said):
        return check(Cron(said)) or Cron(said)
    words = said.lower().rstrip(".!")
    if len(words) > MAX_TEXT:
        return f"a time has at most {MAX_TEXT} characters. Write one of: {FORMS}."
    found = _length(words, now) or _iso(words, zone, now) or _calendar(words, zone, now)
    if found is None:
        return f"{said!r} is no time that is understood. Write one of: {FORMS}."
    return found if isinstance(found, str) else check(found) or found


def _length(words: str, now: float) -> When | None:
    if words in _CADENCES:
        return _CADENCES[words]
    kind, _, rest = words.partition(" ")
    seconds = length(rest)
    if seconds is None:
        return None
    if kind in ("every", "each"):
        return Every(seconds, start=now)
    return Once(now + seconds) if kind == "in" else None


def _iso(words: str, zone: str, now: float) -> When | str | None:
    found = _ISO.fullmatch(words)
    if found is None:
        return None
    day, clock, offset = found.groups()
    try:
        given = datetime.fromisoformat(f"{day}T{clock}{(offset or '').upper().replace('UTC', 'Z')}")
    except ValueError as problem:
        return f"{words!r} is no time: {problem}"
    at = wall.moment(given, zone) if given.tzinfo is None else given.timestamp()
    return Once(float(at)) if at > now else f"{words!r} lies in the past"


def _calendar(words: str, zone: str, now: float) -> When | str | None:
    clock, rest = take_clock(words)
    rest = re.sub(r"(?<=[a-z])-(?=[a-z])", " to ", rest)
    form = " ".join(" ".join(_PLAIN.get(word, word) for word in re.split("[ ,]+", rest)).split())
    today = wall.local(now, zone).date()
    days = _recurring(form)
    dates = None if days else _dates(form, today)
    if clock is None or not (days or dates):
        return _NO_TIME.format(words) if form and (days or dates) else None
    hour, minute = clock
    if days:
        return Cron(f"{minute} {hour} {days}")
    if form == "tonight" and 1 <= hour < 12:
        hour += 12
    for day in dates or ():
        at = wall.moment(datetime.combine(day, time(hour, minute)), zone)
        if at > now:
            return Once(float(at))
    return f"{words!r} lies in the past"


def _recurring(form: str) -> str | None:
    """Return the last three fields of a cron expression."""
    if form == "every day":
        return "* * *"
    found = _DAY_OF_MONTH.fullmatch(form)
    if found is not None:
        return f"{found.group(1) or {'first': '1', 'last': 'L'}[found.group(2)]} * *"
    found = _NTH_DAY.fullmatch(form)
    if found is not None and (day := weekday(found.group(3))) is not None:
        which = found.group(2) or str(ORDINALS.index(found.group(1)) + 1)
        return f"* * {(day + 1) % 7}" + ("L" if found.group(1) == "last" else f"#{which}")
    found = _DATE.fullmatch(form)
    if found is not None and found.group(1) and not found.group(6):
        number = month(found.group(3) or found.group(4))
        return f"{found.group(2) or found.group(5)} {number} *" if number else None
    return _week_days(form)


def _week_days(form: str) -> str | None:
    words = form.removeprefix("every ").removeprefix("week ").split()
    if not words or (words == form.split() and not words[0].endswith("s")):
        return None  # "monday" is the next one, "mondays" and "every monday" are all
    if words in (["weekday"], ["weekdays"]):
        return "* * 1-5"
    if words in (["weekend"], ["weekends"]):
        return "* * 0,6"
    days = [weekday(word) for word in words if word != "to"]
    known = [(day + 1) % 7 for day in days if day is not None]
    if len(known) < len(days):
        return None
    if "to" not in words:
        return f"* * {','.join(map(str, sorted(set(known))))}"
    if len(words) != 3 or words[1] != "to":
        return None
    first, last = known[0], known[1] or 7  # a week of cron may end with Sunday, as 7
    return f"* * {first}-{last}" if first < last else None


def _dates(form: str, today: date) -> tuple[date, ...] | None:
    """Return the dates that may be meant, of which the first that is not over is."""
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


def say(when: When, zone: str) -> str:
    """Say *when* as people do; parse_when reads it, except "once" and "cron".

    >>> say(Cron("0 8 * * 1"), "UTC"), say(Cron("30 7 1 * *"), "UTC")
    ('every Monday at 08:00', 'on the 1st of every month at 07:30')
    >>> say(Every(1200.0), "UTC"), say(Once(0.0), "Europe/Paris")
    ('every 20 minutes', 'once, 1970-01-01 01:00 CET')
    >>> say(Cron("*/5 8-18 * * *"), "UTC")
    'cron */5 8-18 * * *'
    """
    match when:
        case Every(seconds):
            return f"every {say_length(seconds)}"
        case Once(at):
            return f"once, {wall.local(at, zone):%Y-%m-%d %H:%M} {zone_name(at, zone)}"
        case Cadence(word):
            return word
        case Cron(expression):
            fields = crontab.ALIASES.get(expression.strip().lower(), expression).split()
            minute, hour = fields[:2]
            days = _say_days(" ".join(fields[2:]).lower())
            if days is None or not (minute.isdecimal() and hour.isdecimal()):
                return f"cron {expression}"
            return f"{days} at {int(hour):02}:{int(minute):02}"


def _say_days(fields: str) -> str | None:
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


def say_time(at: float, zone: str, now: float) -> str:
    """Say a moment as the clocks in *zone* show it, seen from *now*.

    >>> say_time(118800, "UTC", 0), say_time(118800 + 86400, "UTC", 0)
    ('tomorrow at 09:00 UTC', 'Sat 3 Jan at 09:00 UTC')
    >>> say_time(0, "Europe/Paris", 86400 * 400)
    'Thu 1 Jan 1970 at 01:00 CET'
    """
    then, today = wall.local(at, zone), wall.local(now, zone).date()
    ahead = (then.date() - today).days
    day = {0: "today", 1: "tomorrow", -1: "yesterday"}.get(ahead)
    if day is None:
        day = f"{DAYS[then.weekday()][:3]} {then.day} {MONTHS[then.month - 1][:3]}"
        day += "" if then.year == today.year else f" {then.year}"
    return f"{day} at {then:%H:%M} {zone_name(at, zone)}"
