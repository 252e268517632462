"""What is sent to people."""

import attrs

from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Request
from elwood.foundation.text.markdown import Rich


@attrs.frozen
class Sent:
    """The channel has it, as *message*."""

    message: str


@attrs.frozen
class Unsure:
    """It may or may not have arrived; sending again must be marked as a repeat."""

    why: str


@attrs.frozen
class Unsent:
    """It surely did not arrive, and another try may work."""

    why: str


@attrs.frozen
class Undeliverable:
    """It can never arrive there (blocked, kicked, no such chat)."""

    why: str


@attrs.frozen
class Button:
    """A button under a message; *data* is an id of ours, at most 64 bytes."""

    text: str
    data: str


@attrs.frozen
class Attachment:
    """A file that goes along with a message, called *name*."""

    name: str
    data: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Post(Request[Sent | Unsure | Unsent | Undeliverable]):
    """Send one message.  Who asks owns the delivery: records before and after, asks again.

    *part* must fit the channel already (`core.splitting.split`).  *repeat* marks it as one that
    may have arrived before.  *files* come with the text, or behind it; with them it may be empty.
    """

    route: Route
    part: Rich
    files: tuple[Attachment, ...] = ()
    repeat: bool = False
    buttons: tuple[Button, ...] = ()
    silent: bool = False


@attrs.frozen(kw_only=True)
class Draft:
    """Show *text* as what is being written.  Offered; only ever grows within one *draft* id."""

    route: Route
    draft: int
    text: str


@attrs.frozen(kw_only=True)
class Typing:
    """Show that work goes on.  Offered."""

    route: Route


OutboxMail = Post | Draft | Typing
