"""How much may be sent when.  Times are seconds of a steady clock."""

import msgspec

# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6


class Bucket(msgspec.Struct, frozen=True):
    """Holds *size* events and is filled with *rate* of them a second: so many may go at once.

    In any s seconds no more than size + s * rate go.
    """

    rate: float
    size: float
    level: float | None = None
    at: float = 0.0

    def delay(self, now: float, *, leave: int = 0) -> float:
        """Say in how many seconds one more event fits, with room for *leave* others beside it.

        >>> Bucket(2, 2).delay(0.0), Bucket(2, 2).spend(0.0).spend(0.0).delay(0.25)
        (0.0, 0.25)
        """
        missing = 1.0 + leave - self._filled(now)
        return missing / self.rate if missing > _GRAIN else 0.0

    def spend(self, now: float) -> "Bucket":
        return Bucket(self.rate, self.size, self._filled(now) - 1.0, now)

    def _filled(self, now: float) -> float:
        if self.level is None:
            return self.size
        return min(self.size, self.level + (now - self.at) * self.rate)
