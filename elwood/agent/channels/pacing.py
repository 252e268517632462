"""Rate limits.  Times are seconds of a steady clock."""

import msgspec

# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket that holds *size* events and is refilled with *rate* of them a second.

    In any s seconds at most size + s * rate events are allowed. More than *size* events together
    wait until they fit, with nothing sent meanwhile.
    """

    rate: float
    size: float
    level: float | None = None
    at: float = 0.0

    def delay(self, now: float, *, count: int = 1, leave: int = 0) -> float:
        """Return the seconds until *count* events fit, with room for *leave* others.

        >>> Bucket(2, 2).delay(0.0), Bucket(2, 2).spend(0.0).spend(0.0).delay(0.25)
        (0.0, 0.25)
        """
        missing = count + leave - self._filled(now, max(self.size, count))
        return missing / self.rate if missing > _GRAIN else 0.0

    def spend(self, now: float, count: int = 1) -> "Bucket":
        return Bucket(self.rate, self.size, self._filled(now, self.size) - count, now)

    def _filled(self, now: float, most: float) -> float:
        if self.level is None:
            return most
        return min(most, self.level + (now - self.at) * self.rate)
