"""Whether messages can be taken in."""

import msgspec

from elwood.agent.session.restored import Restored


class Admission(msgspec.Struct):
    """What stands against taking messages in, for all conversations alike.

    *refusal* says why no new work is taken, if none is: whoever watches over the disk sets it.
    *restored* is there if the state came out of a backup.
    """

    restored: Restored | None = None
    refusal: str = ""
