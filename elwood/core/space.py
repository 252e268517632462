"""How full the disk is, and what that means for us."""

import msgspec

# Per cent in use: from the first on the owner is told, from the second on no new work is taken.
LOW, FULL = 90, 95


class Space(msgspec.Struct, frozen=True):
    """Bytes of a file system that are in use, and that we could still write."""

    used: int
    free: int

    @property
    def percent(self) -> float:
        """How much is in use, as df(1) reckons: what only root could write is no room.

        >>> Space(30, 10).percent, Space(0, 0).percent
        (75.0, 0.0)
        """
        return 100 * self.used / max(1, self.used + self.free)


def warning(space: Space) -> str:
    """Say that there is little room; empty while there is enough.

    >>> warning(Space(92, 8)), warning(Space(50, 50))
    ('more than 90 % of the disk is in use; at 95 % I take no new work', '')
    """
    if space.percent < LOW:
        return ""
    return f"more than {LOW} % of the disk is in use; at {FULL} % I take no new work"


def refusal(space: Space) -> str:
    """Say why no new work is taken; empty if it is.

    >>> refusal(Space(97, 3))
    'more than 95 % of the disk is in use: I take no new work until there is room again'
    >>> refusal(Space(92, 8))
    ''
    """
    if space.percent < FULL:
        return ""
    return f"more than {FULL} % of the disk is in use: I take no new work until there is room again"
