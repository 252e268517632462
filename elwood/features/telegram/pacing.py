"""How much a Telegram bot may send when."""

import msgspec

from elwood.agent.channels.pacing import Bucket


def per_second(most: float) -> Bucket:
    """Return a bucket that lets at most *most* events go in any second, the first one included.

    A sixth of them may go together.

    >>> bucket = per_second(30)
    >>> bucket.size + bucket.rate
    30.0
    """
    size = max(1.0, most / 6)
    return Bucket(max(most - size, most / 2), size)


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """The send budgets of a Telegram bot, within what the vendor names.

    *chat* and, in groups, *group* bound the messages of one chat; *previews* its drafts and chat
    actions together; *total* is how many messages all chats may have in a second.  Previews of all
    chats together have half as much of their own, so that they never hold up a message, and at
    most *all_previews*: when a crowd writes, answers come first.
    """

    # One message a second; the vendor lets short bursts pass.
    chat: Bucket = Bucket(1, 4)
    # The vendor allows 20 a minute.
    group: Bucket = Bucket(0.25, 5)
    # 20 in five seconds, and 40 in thirty.
    previews: Bucket = Bucket(1, 10)
    total: float = 30.0
    all_previews: float = 15.0
    # Seconds between two frames of a draft, between two edits in a group (they count as messages),
    # between two chat actions (one is seen for 5 s), and two edits of what runs.
    draft_gap: float = 1.0
    edit_gap: float = 3.0
    typing_gap: float = 4.0
    status_gap: float = 5.0
