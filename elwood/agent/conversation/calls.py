"""What may become of a call of a tool: how it repeats, who allowed it, how it ended."""

from typing import Literal

Effect = Literal["pure", "keyed", "probe", "once"]
# `waiting` is not the end: the call is kept, and runs when the owner allows it.
Outcome = Literal["ok", "failed", "denied", "unknown", "dry run", "waiting"]
# What the owner can answer when asked about a call: this once, for this conversation, always this
# exact thing, this once and trust what was read in this conversation, no.
OwnerAnswer = Literal["once", "conversation", "always", "source", "denied"]
# How a call was decided.  `once`, `conversation` and `always` are the owner's yes; `standing` is
# one given before; `expired` and `withdrawn` mean no as `denied` does.
Ruling = Literal[
    "once", "conversation", "always", "source", "standing", "denied", "expired", "withdrawn"
]


def allows(ruling: Ruling | None) -> bool:
    """Tell whether a call may run that was decided so.

    >>> allows("standing"), allows("withdrawn"), allows(None)
    (True, False, False)
    """
    return ruling not in (None, "denied", "expired", "withdrawn")
