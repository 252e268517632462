"""The words for times: days, months, numbers, lengths, and times of day, read and said."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
ORDINALS = ("first", "second", "third", "fourth", "fifth")
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
    "twenty",
)  # fmt: skip
_AMOUNTS = {word: float(number) for number, word in enumerate(_NUMBERS)} | {
    "": 1.0, "a": 1.0, "an": 1.0, "half": 0.5, "half a": 0.5, "half an": 0.5, "other": 2.0,
} | {word: float(number) for number, word in enumerate(ORDINALS, 1)}  # fmt: skip
# Seconds, by the first letter of what people write: 30s, 20 min, 2 hours.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NAMES = (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_ANY = "|".join((*_NUMBERS[1:], *ORDINALS[1:]))
_LENGTH = re.compile(
    rf"(?:(\d{{1,9}}(?:\.\d{{1,3}})?|half an?|half|an?|other|{_ANY}) ?)?"
    r"(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])(?: and |, | )?"
)
_HOURS = rf"\d{{1,2}}|{'|'.join(_NUMBERS[1:13])}"
_PART = r" ?[ap]\.?m\b\.?| in the morning| in the afternoon| in the evening| at night"
_CLOCK = re.compile(
    rf"(noon|midday|midnight)|(?:(half past|quarter past|quarter to) )?({_HOURS})"
    rf"(?:[:.](\d\d))?(?: ?o'?clock)?({_PART})?"
)
_NAMED = "noon|midday|midnight"
# After "at", or of a form that only a time of day has.
_FIND_CLOCK = re.compile(
    rf"\bat ((?:{_NAMED}|(?:(?:half|quarter) (?:past|to) )?(?:{_HOURS})(?:[:.]\d\d)?"
    rf"(?: ?o'?clock)?(?:{_PART})?))(?![\w:])"
    rf"|(?<![\w:+-])({_NAMED}|\d{{1,2}}:\d\d(?:{_PART})?|(?:{_HOURS})(?:{_PART}))(?![\w:])"
)


def length(text: str) -> float | None:
    """Read a length of time, in seconds; None if *text* is none.

    >>> length("20 minutes"), length("1h30m"), length("two hours and half a minute")
    (1200.0, 5400.0, 7230.0)
    >>> length("hour"), length("other day"), length("second day"), length("soon")
    (3600.0, 172800.0, 172800.0, None)
    """
    seconds, place = 0.0, 0
    while place < len(text):
        part = _LENGTH.match(text, place)
        if part is None:
            return None
        number, unit = part.group(1) or "", part.group(2)
        if not number and part.group() != text:
            return None  # without a number it stands alone, or "second day" would be 86,401 s
        seconds += (
            _AMOUNTS[number] * _UNITS[unit[0]]
            if number in _AMOUNTS
            else (float(number) * _UNITS[unit[0]])
        )
        place = part.end()
    return seconds or None


def say_length(seconds: float) -> str:
    """Say a length of time in the greatest unit that fits.

    >>> say_length(1200), say_length(3600), say_length(5400), say_length(86400)
    ('20 minutes', 'hour', '90 minutes', '24 hours')
    """
    for name, size in _NAMES:
        if seconds % size == 0 and seconds != 86_400 * (name == "day"):
            count = seconds / size
            return name if count == 1 else f"{count:.10g} {name}s"
    return f"{seconds:.10g} seconds"


def take_clock(text: str) -> tuple[tuple[int, int] | None, str]:
    """Find the time of day in *text*: (hour, minute) or None, and the text without it.

    >>> take_clock("every monday at half past eight")
    ((8, 30), 'every monday')
    >>> take_clock("9pm tomorrow"), take_clock("at 17:30"), take_clock("24 december")
    (((21, 0), 'tomorrow'), ((17, 30), ''), (None, '24 december'))
    """
    found = _FIND_CLOCK.search(text)
    clock = _read_clock(found.group(1) or found.group(2)) if found else None
    if found is None or clock is None:
        return None, text
    return clock, " ".join((text[: found.start()] + text[found.end() :]).split())


def _read_clock(text: str) -> tuple[int, int] | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    named, fraction, hours, minutes, part = found.groups()
    if named:
        return (0, 0) if named == "midnight" else (12, 0)
    hour = int(hours) if hours.isdecimal() else _NUMBERS.index(hours)
    minute = int(minutes or 0) + {"half past": 30, "quarter past": 15}.get(fraction or "", 0)
    part = (part or "").strip().replace(".", "")
    if part in ("am", "pm"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (part == "pm")
    elif part and hour == 12 and part != "in the afternoon":
        if part == "in the evening":
            return None  # noon, or midnight?
        hour = 12 if (part, fraction) == ("in the morning", "quarter to") else 0
    elif part in ("in the afternoon", "in the evening") or (part == "at night" and hour > 5):
        hour += 12 * (hour < 12)
    if fraction == "quarter to":
        hour, minute = (hour - 1) % 24, minute + 45
    return (hour, minute) if hour < 24 and minute < 60 else None


def weekday(word: str) -> int | None:
    """Read a day of the week, 0 for Monday: its name, three letters or more of it, or its plural.

    >>> weekday("monday"), weekday("thurs"), weekday("sundays"), weekday("month")
    (0, 3, 6, None)
    """
    return _named(word, DAYS)


def month(word: str) -> int | None:
    """Read a month, 1 for January: its name or three letters or more of it.

    >>> month("december"), month("sept"), month("mon")
    (12, 9, None)
    """
    found = _named(word, MONTHS)
    return None if found is None else found + 1


def _named(word: str, names: tuple[str, ...]) -> int | None:
    for number, name in enumerate(names):
        if len(word) >= 3 and (name.lower().startswith(word) or f"{name.lower()}s" == word):
            return number
    return None


def nth(number: int) -> str:
    """Say the number of a day.

    >>> nth(1), nth(12), nth(23)
    ('1st', '12th', '23rd')
    """
    teen = number // 10 == 1
    return f"{number}" + ("th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th"))


def zone_name(at: float, zone: str) -> str:
    """Say which time the clocks of *zone* show at *at*: its abbreviation, or its offset.

    >>> zone_name(0, "Europe/Paris"), zone_name(0, "Asia/Kathmandu"), zone_name(0, "Asia/Dubai")
    ('CET', 'UTC+05:30', 'UTC+04')
    """
    name = datetime.fromtimestamp(at, ZoneInfo(zone)).tzname() or zone
    if name[0] not in "+-":
        return name
    return f"UTC{name[:3]}" + (f":{name[3:5]}" if name[3:] else "")
