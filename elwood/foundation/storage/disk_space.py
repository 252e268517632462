"""How full the disk is, and what that means for us."""

from collections.abc import Mapping

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


def warning(spaces: Mapping[str, Space]) -> str:
    """Say on which disks, by what lies there, is little room; empty while there is enough.

    >>> warning({"the state": Space(92, 8)}), warning({"the state": Space(50, 50)})
    ('more than 90 % of the disk with the state is in use; at 95 % I take no new work', '')
    """
    where = _fuller(spaces, LOW)
    return f"{where}; at {FULL} % I take no new work" if where else ""


def refusal(spaces: Mapping[str, Space]) -> str:
    """Say why no new work is taken; empty if it is.

    >>> refusal({"the state": Space(50, 50), "the workspace": Space(97, 3)}).partition(":")[0]
    'more than 95 % of the disk with the workspace is in use'
    >>> refusal({"the state": Space(92, 8)})
    ''
    """
    where = _fuller(spaces, FULL)
    return f"{where}: I take no new work until there is room again" if where else ""


def _fuller(spaces: Mapping[str, Space], percent: int) -> str:
    names = [name for name, space in spaces.items() if space.percent >= percent]
    return (
        f"more than {percent} % of the disk with {' and '.join(names)} is in use" if names else ""
    )
