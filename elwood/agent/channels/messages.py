from collections.abc import Callable

import attrs
import msgspec

from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Request
from elwood.foundation.text.markdown import Rich


class Sent(msgspec.Struct, frozen=True):
    """The channel has it, as *message*; empty where nothing can be changed any more."""

    message: str


class Unsure(msgspec.Struct, frozen=True):
    """It may or may not have arrived; sending again must be marked as a repeat.

    *crashed* if the outbox did, perhaps of this very message.
    """

    why: str
    crashed: bool = False


class Unsent(msgspec.Struct, frozen=True):
    """It surely did not arrive, and another try may work."""

    why: str


class Undeliverable(msgspec.Struct, frozen=True):
    """It can never arrive there (blocked, kicked, no such chat).

    It is the *first* reply that does not: more of them say nothing new.
    """

    why: str
    first: bool = False


PostResult = Sent | Unsure | Unsent | Undeliverable


class Button(msgspec.Struct, frozen=True):
    """A button under a message."""

    text: str
    data: str
    """What a press sends to Elwood: at most 64 bytes."""
    command: str = ""
    """What a person types instead, where nothing can be pressed."""


# Bytes of a picture that is shown as one.  Larger ones arrive as files, unchanged.
MAX_PICTURE = 5 << 20
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@attrs.frozen
class Attachment:
    name: str
    data: bytes = attrs.field(repr=False)

    @property
    def is_picture(self) -> bool:
        """Whether it is shown in place, and several of them together, as an album."""
        return len(self.data) <= MAX_PICTURE and self.data.startswith(_PICTURES)


class Post(Request[PostResult], frozen=True, kw_only=True):
    """Send one message.  Who asks owns the delivery: records before and after, asks again.

    *part* must fit the channel already (`splitting.split`).  *repeat* marks it as one that
    may have arrived before.  *files* come with the text, or behind it; with them it may be empty.
    One that *is_reply* is a part of an answer that stands in the log of its conversation.
    *markdown* is the same text for a channel that draws Markdown itself.
    Only when the channel has worked again for *calm* seconds is it sent: what is told of an outage
    may be over by then.
    """

    route: Route
    part: Rich
    files: tuple[Attachment, ...] = ()
    repeat: bool = False
    buttons: tuple[Button, ...] = ()
    is_reply: bool = False
    markdown: str = ""
    calm: float = 0.0


class Edit(Request[PostResult], frozen=True, kw_only=True):
    """Change the *message* that was sent, as `Sent` named it; once more changes nothing more.

    Its text becomes *part*, unless that is None, and its buttons *buttons*.
    """

    route: Route
    message: str
    part: Rich | None = None
    buttons: tuple[Button, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Show `text` as what is being written.  Offered.

    *draft* is one id for each turn, and the next ones are free for what goes beyond one draft.
    *redact* takes secrets out when the text is really shown: most frames never are.
    *is_thought* is what the model thinks before it says anything: most channels have no place for
    that.
    """

    route: Route
    draft: int
    unredacted: str
    redact: Callable[[str], str] = str
    is_thought: bool = False

    @property
    def text(self) -> str:
        return self.redact(self.unredacted)

    def __repr__(self) -> str:
        return f"Draft({self.route}, {self.draft})"


class Typing(msgspec.Struct, frozen=True, kw_only=True):
    """Show that work goes on, and *why* it takes so long, if that is known.  Offered.

    It also keeps alive what is shown of the work already.
    """

    route: Route
    why: str = ""


class React(msgspec.Struct, frozen=True, kw_only=True):
    """Mark a person's *message*, by its name in the channel, as seen.  Offered."""

    route: Route
    message: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Show in a line what runs: *text*.  Offered; it goes when the next message comes."""

    route: Route
    text: str


class Reachable(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing arrives in a chat any more, as *gone* says; empty: something may again.  Told."""

    route: Route
    gone: str = ""


OutboxMail = Post | Edit | Draft | Typing | React | Status | Reachable
