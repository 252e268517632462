"""How much may be sent when: sliding windows over the times of what was sent.

The figures are Telegram's (protocols/telegram.md §3 and §8).  Times are seconds of a steady clock.
"""

import attrs

# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6


@attrs.frozen
class Window:
    """At most *limit* events within any *seconds*."""

    limit: int
    seconds: float


@attrs.frozen
class Budget:
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
        return attrs.evolve(self, times=(*recent, now))


@attrs.frozen(kw_only=True)
class Pacing:
    """The send budgets of a Telegram bot.

    *chat* and, in groups, *group* bound the messages of one chat; *previews* its drafts and chat
    actions together; *total* the messages of all chats.
    """

    # One message a second; the vendor lets short bursts pass.
    chat: tuple[Window, ...] = (Window(4, 4.0),)
    group: tuple[Window, ...] = (Window(4, 4.0), Window(20, 60.0))
    previews: tuple[Window, ...] = (Window(20, 5.0), Window(40, 30.0))
    total: tuple[Window, ...] = (Window(30, 1.0),)
    # Seconds between two frames of a draft, between two edits in a group (they count as messages
    # there), and between two chat actions (one is seen for 5 s).
    draft_gap: float = 1.0
    edit_gap: float = 3.0
    typing_gap: float = 4.0


def paced(messages_per_second: int) -> Pacing:
    """Return the vendor's figures with another limit over all chats.

    >>> paced(5).total
    (Window(limit=5, seconds=1.0),)
    """
    return Pacing(total=(Window(messages_per_second, 1.0),))
