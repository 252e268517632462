"""Times as people and models say them: reading them, and saying them."""

import re
from datetime import datetime, time

from elwood.features.tasks import crontab
from elwood.features.tasks import timezones as wall
from elwood.features.tasks.timing_days import dates, recurring, say_days
from elwood.features.tasks.timing_words import (
    DAYS,
    MONTHS,
    length,
    say_length,
    take_clock,
    zone_name,
)
from elwood.features.tasks.when import (
    Cadence,
    Cron,
    Every,
    Once,
    When,
    check,
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
# The hour at which the night ends of which "tonight" speaks.
_MORNING = 5
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


def repeated(text: str, zone: str) -> str:
    """Say *text*, which names one day or time of day, as what comes again; "" if it does not.

    >>> repeated("on the 1st at 10:00", "UTC"), repeated("tomorrow at nine", "UTC")
    ('on the 1st of every month at 10:00', '')
    """
    day = re.sub("^(on )?(the )?", "", text, flags=re.IGNORECASE)
    for form in (f"every {day}", f"every day {day}"):
        found = parse_when(form, zone, 0.0)
        words = say(found, zone) if isinstance(found, Cron) else ""
        if words and parse_when(words, zone, 0.0) == found:
            return words
    return ""


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
    if not rest and clock is None:
        return None
    rest = re.sub(r"(?<=[a-z])-(?=[a-z])", " to ", rest)
    form = " ".join(" ".join(_PLAIN.get(word, word) for word in re.split("[ ,]+", rest)).split())
    if form == "tonight" and clock is not None:
        clock, form = _tonight(*clock)
    days = recurring(form)
    possible = None if days else dates(form, wall.local(now, zone).date())
    if not days and not possible:
        return None
    if clock is None:
        return f"{words!r} has no time of day: write it like 'at 9' or 'at 17:30'"
    hour, minute = clock
    if days:
        return Cron(f"{minute} {hour} {days}")
    for day in possible or ():
        at = wall.moment(datetime.combine(day, time(hour, minute)), zone)
        if at > now:
            return Once(float(at))
    return f"{words!r} lies in the past"


def _tonight(hour: int, minute: int) -> tuple[tuple[int, int], str]:
    """Return the time and the day: the night goes on after midnight, which twelve is."""
    if hour in (0, 12):
        return (0, minute), "tomorrow"
    if hour < _MORNING:
        return (hour, minute), ""  # the next one: it may be that night already
    return (hour + 12 if hour < 12 else hour, minute), "today"


def say(when: When, zone: str) -> str:
    """Say *when*, which is fine by check, as people do; parse_when reads most of it.

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
            minute, hour, *fields = crontab.fields(expression)
            days = say_days(" ".join(fields).lower())
            if days is None or not (minute.isdecimal() and hour.isdecimal()):
                return f"cron {expression}"
            return f"{days} at {int(hour):02}:{int(minute):02}"


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
