"""Whether new messages are accepted."""

import msgspec

from elwood.agent.session.restored import Restored


class Admission(msgspec.Struct):
    """Reasons to refuse messages, for all conversations.

    *refusal* is the reason if no new work is accepted; the disk watch sets it. *restored* is set if
    the state was restored from a backup.
    """

    restored: Restored | None = None
    refusal: str = ""
