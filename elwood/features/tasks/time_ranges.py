"""Stretches of planned times of which each has had its run, kept in little room.

They are needed when a clock is put back: what was only passed over can still be done.
"""

import math
from collections.abc import Sequence

import msgspec

# Stretches of a task, each ended by a missed time or by a night; of more the two oldest are taken
# as one, with what lies between: that only ever keeps something from being done twice.
MAX_STRETCHES = 50


class Stretch(msgspec.Struct, frozen=True, order=True, array_like=True):
    """All planned times from *first* to *last* have run."""

    first: float
    last: float


def add(ran: Sequence[Stretch], at: float, mark: float) -> list[Stretch]:
    """Add the planned time *at*; all between *mark* and it have run, too.

    >>> add(add([], 60.0, 0.0), 120.0, mark=60.0)
    [Stretch(first=60.0, last=120.0)]
    >>> add([Stretch(60.0, 60.0)], 300.0, mark=240.0)
    [Stretch(first=60.0, last=60.0), Stretch(first=300.0, last=300.0)]
    """
    if holding(ran, at) is not None:
        return list(ran)
    first = next((one.first for one in reversed(ran) if one.last == mark < at), at)
    others = [one for one in ran if not first <= one.first <= at]
    found = sorted([*others, Stretch(first, at)])
    if len(found) > MAX_STRETCHES:
        found[:2] = [Stretch(found[0].first, found[1].last)]
    return found


def holding(ran: Sequence[Stretch], at: float) -> Stretch | None:
    """Find the stretch in which *at* lies.

    >>> holding([Stretch(60.0, 120.0)], 90.0), holding([Stretch(60.0, 120.0)], 121.0)
    (Stretch(first=60.0, last=120.0), None)
    """
    for one in reversed(ran):
        if one.last < at:
            return None
        if one.first <= at:
            return one
    return None


def gaps(ran: Sequence[Stretch], after: float, until: float) -> list[tuple[float, float]]:
    """List what of (*after*, *until*] lies in no stretch, as such intervals.

    >>> gaps([Stretch(60.0, 120.0)], 0.0, 200.0)
    [(0.0, 59.99999999999999), (120.0, 200.0)]
    >>> gaps([Stretch(60.0, 120.0)], 90.0, 100.0)
    []
    """
    found = []
    for one in ran:
        if after < one.last and one.first <= until:
            if after < one.first:
                found.append((after, math.nextafter(one.first, -math.inf)))
            after = one.last
    return [*found, (after, until)] if after < until else found
