"""Rate limits.  Times are seconds of a steady clock."""

import msgspec

# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket that holds *size* events and is refilled with *rate* of them a second.

    In any s seconds at most size + s * rate events are allowed.
    """

    rate: float
    size: float
    level: float | None = None
    at: float = 0.0

    def delay(self, now: float, *, leave: int = 0) -> float:
        """Return the seconds until one more event fits, with room for *leave* others.

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
