from collections.abc import Callable

import attrs
import msgspec

from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Request
from elwood.foundation.text.markdown import Rich


class Sent(msgspec.Struct, frozen=True):
    """The channel has it, as *message*; empty if it cannot be changed later."""

    message: str


class Unsure(msgspec.Struct, frozen=True):
    """It may or may not have arrived; sending it again must be marked as a repeat.

    *crashed*: the outbox crashed, perhaps because of this message.
    """

    why: str
    crashed: bool = False


class Unsent(msgspec.Struct, frozen=True):
    """It surely did not arrive; another attempt may work."""

    why: str


class Undeliverable(msgspec.Struct, frozen=True):
    """It can never arrive there (blocked, kicked, no such chat).

    *first*: this is the first such reply; later ones need no new notice. *away*: the chat refuses
    messages until its person is back.
    """

    why: str
    first: bool = False
    away: bool = False


PostResult = Sent | Unsure | Unsent | Undeliverable


class Button(msgspec.Struct, frozen=True):
    """A button under a message."""

    text: str
    data: str
    """Data that a press sends to Elwood: at most 64 bytes."""
    command: str = ""
    """Command to type instead, if buttons cannot be pressed."""


# Maximum bytes of a picture that is shown.  Larger ones are sent as files, unchanged.
MAX_PICTURE = 5 << 20
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@attrs.frozen
class Attachment:
    name: str
    data: bytes = attrs.field(repr=False)

    @property
    def is_picture(self) -> bool:
        """Whether it is shown in the chat, several of them as an album."""
        return len(self.data) <= MAX_PICTURE and self.data.startswith(_PICTURES)


class Post(Request[PostResult], frozen=True, kw_only=True):
    """Send one message.  The caller owns the delivery: it records and retries it."""

    route: Route
    # Must fit the channel already (`splitting.split`).
    part: Rich
    # Sent with the text or after it; with files the text may be empty.
    files: tuple[Attachment, ...] = ()
    # Mark it as a message that may already have arrived.
    repeat: bool = False
    buttons: tuple[Button, ...] = ()
    # It is part of an answer that is in the log of its conversation.
    is_reply: bool = False
    # The reply for a channel that draws Markdown (`Channel.to_markdown`), and its records apart.
    markdown: str = ""
    records: str = ""
    # Send it only after the channel has worked for so many seconds: an outage may be over by then.
    calm: float = 0.0


class Edit(Request[PostResult], frozen=True, kw_only=True):
    """Edit a sent *message*, as identified by `Sent`; may be repeated.

    Its text becomes *part*, or stays if that is None; its buttons become *buttons*.
    """

    route: Route
    message: str
    part: Rich | None = None
    buttons: tuple[Button, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Show `text` as a draft.  Offered."""

    route: Route
    # Id of the turn's draft; the following ids are for text that does not fit into one draft.
    draft: int
    unredacted: str
    # Removes secrets; called only if the text is shown, since most frames are not.
    redact: Callable[[str], str] = str
    # The text is a thought of the model: most channels do not show those.
    is_thought: bool = False
    # The text is about this call: the change of a file or the end of output; also rarely shown.
    step: str = ""

    @property
    def text(self) -> str:
        return self.redact(self.unredacted)

    def __repr__(self) -> str:
        return f"Draft({self.route}, {self.draft})"


class Typing(msgspec.Struct, frozen=True, kw_only=True):
    """Show that work continues, and *why* it takes long, if known.  Offered.

    It also keeps the present display of the work alive.
    """

    route: Route
    why: str = ""


class React(msgspec.Struct, frozen=True, kw_only=True):
    """Mark a person's *message*, by its id in the channel, as seen.  Offered."""

    route: Route
    message: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Show *text*, one line about running work, until the next message.  Offered."""

    route: Route
    text: str


class Reachable(msgspec.Struct, frozen=True, kw_only=True):
    """A chat became unreachable because of *gone*; empty: it is reachable again.  Sent."""

    route: Route
    gone: str = ""


OutboxMail = Post | Edit | Draft | Typing | React | Status | Reachable
