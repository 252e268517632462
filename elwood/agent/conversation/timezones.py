"""Wall clocks: which moment a local date and time is, and when the clocks of a zone change.

Moments are Unix seconds, local times are datetimes without a zone.
"""

from datetime import datetime
from math import floor
from zoneinfo import ZoneInfo


def local(at: float, zone: str) -> datetime:
    """Read the clock on the wall in *zone*, to the second."""
    return datetime.fromtimestamp(floor(at), ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def offset(at: float, zone: str) -> int:
    """Return by how many seconds the clocks of *zone* are ahead of UTC."""
    ahead = datetime.fromtimestamp(floor(at), ZoneInfo(zone)).utcoffset()
    return 0 if ahead is None else round(ahead.total_seconds())


def moment(wall: datetime, zone: str) -> int:
    """Return the moment at which the clocks of *zone* show *wall*.

    If they never do, because they are put forward over it, it is the moment when that happens;
    if they do twice, it is the first.

    >>> moment(datetime(2026, 3, 29, 1, 30), "Europe/London") == moment(
    ...     datetime(2026, 3, 29, 2, 0), "Europe/London"
    ... )
    True
    """
    here = wall.replace(tzinfo=ZoneInfo(zone))
    first, second = int(here.timestamp()), int(here.replace(fold=1).timestamp())
    if first <= second:
        return first
    # A gap: fold=0 reckons with the offset before it, which leads beyond, and fold=1 before it.
    changed = change(second, first, zone)
    return first if changed is None else changed


def change(begin: int, end: int, zone: str) -> int | None:
    """Return the moment after *begin*, up to *end*, from which on the offset is another one.

    None if it is the same at both.  They should be days apart, not months: of several changes
    one is found, of two that cancel each other none.

    >>> local(change(1774700000, 1774800000, "Europe/London"), "Europe/London").isoformat()
    '2026-03-29T02:00:00'
    """
    before = offset(begin, zone)
    if offset(end, zone) == before:
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        if offset(middle, zone) == before:
            begin = middle
        else:
            end = middle
    return end
