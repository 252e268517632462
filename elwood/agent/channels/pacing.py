"""How much may be sent when.  Times are seconds of a steady clock."""

import msgspec

# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6


class Bucket(msgspec.Struct, frozen=True):
    """Holds a second's worth of events, and is filled with *rate* of them a second.

    What was unused does not get lost within that second: so many may go at once.
    """

    rate: float
    level: float | None = None
    at: float = 0.0

    def delay(self, now: float) -> float:
        """Say in how many seconds one more event fits.

        >>> Bucket(2).delay(0.0), Bucket(2).spend(0.0).spend(0.0).delay(0.25)
        (0.0, 0.25)
        """
        missing = 1.0 - self._filled(now)
        return missing / self.rate if missing > _GRAIN else 0.0

    def spend(self, now: float) -> "Bucket":
        return Bucket(self.rate, self._filled(now) - 1.0, now)

    def _filled(self, now: float) -> float:
        size = max(1.0, self.rate)
        return size if self.level is None else min(size, self.level + (now - self.at) * self.rate)


class Window(msgspec.Struct, frozen=True):
    """At most *limit* events within any *seconds*."""

    limit: int
    seconds: float


class Budget(msgspec.Struct, frozen=True):
    """Several windows over the same events, and the *times* of those that still count."""

    windows: tuple[Window, ...]
    times: tuple[float, ...] = ()

    def delay(self, now: float, *, leave: int = 0) -> float:
        """Say in how many seconds one more event fits, with room for *leave* others beside it.

        >>> Budget((Window(2, 5.0),), (1.0, 2.0)).delay(3.0)
        3.0
        >>> Budget((Window(2, 5.0),), (1.0, 2.0)).delay(6.0)
        0.0
        """
        longest = 0.0
        for window in self.windows:
            room = max(1, window.limit - leave)
            recent = [at for at in self.times if now - at < window.seconds - _GRAIN]
            if len(recent) >= room:
                longest = max(longest, recent[-room] + window.seconds - now)
        return longest

    def spend(self, now: float) -> "Budget":
        """Count an event at *now* and forget those that no window sees any more.

        >>> Budget((Window(2, 5.0),), (1.0, 2.0)).spend(6.5).times
        (2.0, 6.5)
        """
        horizon = max(window.seconds for window in self.windows)
        recent = tuple(at for at in self.times if now - at < horizon)
        return Budget(self.windows, (*recent, now))


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """The send budgets of a Telegram bot, as the vendor names them.

    *chat* and, in groups, *group* bound the messages of one chat; *previews* its drafts and chat
    actions together; *total* is the rate of the messages of all chats.  Previews of all chats
    together have half as much of their own, so that they never hold up a message, and at most
    *all_previews*: when a crowd writes, answers come first.
    """

    # One message a second; the vendor lets short bursts pass.
    chat: tuple[Window, ...] = (Window(4, 4.0),)
    group: tuple[Window, ...] = (Window(4, 4.0), Window(20, 60.0))
    previews: tuple[Window, ...] = (Window(20, 5.0), Window(40, 30.0))
    total: float = 30.0
    all_previews: float = 15.0
    # Seconds between two frames of a draft, between two edits in a group (they count as messages
    # there), and between two chat actions (one is seen for 5 s).
    draft_gap: float = 1.0
    edit_gap: float = 3.0
    typing_gap: float = 4.0
