"""What a server says about trying again, in the headers of its answer."""

import math
from collections.abc import Mapping


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds the server wants us to wait, or None (protocols/anthropic.md §8).

    ``retry-after-ms`` wins over ``retry-after``: seconds, also fractions, or an HTTP date, which
    is compared with the server's own ``date`` if there is one and with *now* (Unix) otherwise.

    >>> retry_after({"retry-after-ms": "1500", "retry-after": "9"}, now=0.0)
    1.5
    >>> retry_after({"retry-after": "2.5"}, now=0.0)
    2.5
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=45.0)
    15.0
    >>> retry_after({"retry-after": "soon"}, now=0.0)
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _seconds(text)
    if seconds is None and (at := _date(text)) is not None:
        there = _date(headers.get("date", ""))
        seconds = at - (now if there is None else there)
    return None if seconds is None else max(0.0, seconds)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the server's own word on retrying, if it gave one (LLM-07).

    >>> should_retry({"x-should-retry": "false"}), should_retry({})
    (False, None)
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(text: str) -> float | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # rare, and not cheap to import

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
