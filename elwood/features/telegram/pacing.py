"""Send budgets of a Telegram bot."""

import msgspec

from elwood.agent.channels.pacing import Bucket


def per_second(most: float) -> Bucket:
    """Return a bucket for at most *most* events in any second, including the first second.

    A sixth of them may be one burst.

    >>> bucket = per_second(30)
    >>> bucket.size + bucket.rate
    30.0
    """
    size = max(1.0, most / 6)
    return Bucket(max(most - size, most / 2), size)


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """The send budgets of a Telegram bot, within the vendor's limits.

    Previews of all chats have a separate budget, half of *total* and at most *all_previews*, so
    they never delay a message.
    """

    # Messages of a private chat: one a second; the vendor permits short bursts.
    chat: Bucket = Bucket(1, 4)
    # Messages of a group: the vendor allows 20 a minute.
    group: Bucket = Bucket(0.25, 5)
    # Drafts and chat actions of one chat: 20 in five seconds, and 40 in thirty.
    previews: Bucket = Bucket(1, 10)
    # Messages a second in all chats.
    total: float = 30.0
    all_previews: float = 15.0
    # Seconds between two frames of a draft.
    draft_gap: float = 1.0
    # Seconds between two edits in a group, which count as messages.
    edit_gap: float = 3.0
    # Seconds between two chat actions, which are visible for 5 s.
    typing_gap: float = 4.0
    # Seconds between two edits of the status line.
    status_gap: float = 5.0
