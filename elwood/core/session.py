"""A session's log: its entries, what they add up to, and what is left to do.

The log is the truth: this fold over it is all a session knows.  It is also the tree of the
conversation: each entry's parent is the head at the time it was written, and `Rewound` moves the
head, so a branch is a path back to the root.
"""

from typing import Literal

import msgspec

from elwood.core.conversation import Assistant, Prompt, Usage

# Accepted messages that may wait in one session before it answers Busy.
MAX_WAITING = 20
# Ids remembered so that a redelivered message is not taken twice (TG-19).
MAX_SEEN = 10_000
# Starts of the same inputs after which they are given up as poison.
MAX_ATTEMPTS = 3


class Route(msgspec.Struct, frozen=True):
    """Where an answer goes.

    *channel* is the channel's name, *chat* and *topic* its ids; *private* chats may show drafts;
    *reply_to* is the message id that the answer refers to, if that helps the reader.
    """

    channel: str
    chat: int = 0
    topic: int | None = None
    private: bool = True
    reply_to: int | None = None


class Received(msgspec.Struct, frozen=True, tag="received"):
    """A message was accepted.  *id* is unique for ever (``tg:<bot>:<update_id>``).

    *message* names the message in its channel, so that an edit can find it; *edits* is that name
    when this is an edit.  *sent_at* is the sender's time, Unix seconds.
    """

    id: str
    text: str
    principal: str
    route: Route
    sent_at: float
    message: str | None = None
    edits: str | None = None


class TurnStarted(msgspec.Struct, frozen=True, tag="turn"):
    """Work on *inputs* begins, for the *attempt*-th time; *text* is what the model is shown."""

    turn: str
    inputs: tuple[str, ...]
    attempt: int
    text: str


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """Further inputs became part of a running turn."""

    turn: str
    inputs: tuple[str, ...]
    text: str


class Prompted(msgspec.Struct, frozen=True, tag="prompted"):
    """A new epoch: this prompt stands before every message from here on, as sent."""

    prompt: Prompt


class Said(msgspec.Struct, frozen=True, tag="said"):
    """A model's complete response."""

    turn: str
    message: Assistant
    usage: Usage


class Noticed(msgspec.Struct, frozen=True, tag="noticed"):
    """The harness told the model something."""

    turn: str
    text: str


Effect = Literal["pure", "keyed", "probe", "once"]
Outcome = Literal["ok", "failed", "denied", "unknown", "dry run"]


class CallStarted(msgspec.Struct, frozen=True, tag="started"):
    """A tool is about to run: written, and on the disk, before it does anything."""

    turn: str
    call: str
    tool: str
    effect: Effect
    target: str = ""


class CallEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A call has its result.  *target* says in a few words what it was about."""

    turn: str
    call: str
    tool: str
    outcome: Outcome
    text: str
    target: str = ""


class Compacted(msgspec.Struct, frozen=True, tag="compacted"):
    """*summary* stands for everything before the path's entry *upto* (exclusive)."""

    summary: str
    upto: int


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The head of the conversation moved back to the entry *to*; 0 is the root."""

    to: int


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """*inputs* have their answer: *text*, with *footer* made from receipts.

    *turn* is None for a slash command.  *failed* says that the answer is a statement of failure.
    """

    reply: str
    turn: str | None
    inputs: tuple[str, ...]
    route: Route
    text: str
    footer: str = ""
    failed: bool = False


class Posting(msgspec.Struct, frozen=True, tag="posting"):
    """Part *part* of a reply is about to be sent, for the *attempt*-th time."""

    reply: str
    part: int
    attempt: int


class Posted(msgspec.Struct, frozen=True, tag="posted"):
    """Part *part* has arrived, as the channel's message *message*."""

    reply: str
    part: int
    message: str


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A reply is done with: arrived, or *why* it never can."""

    reply: str
    why: str = ""


Entry = (
    Received
    | TurnStarted
    | Joined
    | Prompted
    | Said
    | Noticed
    | CallStarted
    | CallEnded
    | Compacted
    | Rewound
    | Replied
    | Posting
    | Posted
    | Delivered
)
