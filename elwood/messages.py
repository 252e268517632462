"""Every message that passes between actors: the protocol of the house.

Grouped by the actor that receives them.  Whatever may wait goes to a lower step only; upwards go
hints, by `offer` (architecture §5).
"""

import math
from typing import Literal

import attrs
import trio

from elwood.core.budget import Spent
from elwood.core.conversation import Completion, Message, Prompt
from elwood.core.identity import Principal
from elwood.core.markdown import Rich
from elwood.core.session import Route
from elwood.runtime import Request

# --- sessions -----------------------------------------------------------------------------------


@attrs.frozen
class Taken:
    """The message stands in the session's log; it will have exactly one outcome."""


@attrs.frozen
class Busy:
    """Too much is waiting; the message was not taken."""

    waiting: int


@attrs.frozen
class Refused:
    """The session cannot take anything; *why* is for the person who wrote."""

    why: str


@attrs.frozen
class NotNow:
    """The message could not be written down (disk full): the channel must keep it and ask again.

    The sender is told *why* once (CP-30).
    """

    why: str


Reception = Taken | Busy | Refused | NotNow


@attrs.frozen(kw_only=True)
class Inbound(Request[Reception]):
    """A message for *session*.  From an Intake; repeating it with the same *id* changes nothing.

    *message* names it within its channel, *edits* the message it is an edit of; *quote* is the
    text it replies to.  *sent_at* is the sender's clock, Unix seconds.
    """

    session: str
    id: str
    principal: Principal
    route: Route
    text: str
    sent_at: float
    message: str | None = None
    edits: str | None = None
    quote: str | None = None


@attrs.frozen
class Interrupt:
    """Stop the running turn of *session* (a stop button).  A hint; repeating it is harmless."""

    session: str


SessionsMail = Inbound | Interrupt


# --- models -------------------------------------------------------------------------------------


@attrs.frozen
class BudgetSpent:
    """A hard limit is reached; nothing was sent.  *why* names it and says when it resets."""

    why: str


@attrs.frozen
class ModelUnavailable:
    """No model could answer.

    *permanent* ones last until a person acts (key revoked, spend limit); *why* says what to do.
    """

    why: str
    permanent: bool = False


@attrs.frozen
class ContextTooLong:
    """The history does not fit the model; send less."""

    why: str


@attrs.frozen
class BadHistory:
    """The provider rejects the history itself.  *problem* says which mending may help."""

    problem: Literal["pairing", "thinking", "image", "tools", "other"]
    why: str


Completed = Completion | BudgetSpent | ModelUnavailable | ContextTooLong | BadHistory


@attrs.frozen(kw_only=True)
class Complete(Request[Completed]):
    """One response of the model for *role*.  From a turn; abandoning it drops the HTTP request.

    *progress* gets the text so far, as a whole, each time there is more; what does not fit is
    dropped.  *max_tokens* overrides the configured limit.  *no_thinking* leaves old thinking out.
    *until* (Trio's clock) is when an answer comes too late: better a reason before it than silence.
    """

    session: str
    role: str
    prompt: Prompt
    messages: tuple[Message, ...]
    progress: trio.MemorySendChannel[str] | None = None
    max_tokens: int | None = None
    no_thinking: bool = False
    until: float = math.inf


@attrs.frozen(kw_only=True)
class Spending(Request[Spent]):
    """What *session* and the day have cost so far, and their limits."""

    session: str


ModelsMail = Complete | Spending


# --- approvals ----------------------------------------------------------------------------------


@attrs.frozen
class Known:
    """This person may talk to us."""


@attrs.frozen
class Stranger:
    """Not known.  *code* is set when a pairing code should be shown now (once an hour)."""

    code: str | None


@attrs.frozen(kw_only=True)
class Meet(Request[Known | Stranger]):
    """May *principal* talk to us?  From an Intake, for people who are not in the configuration.

    *route* is where they wrote, *name* what they call themselves (untrusted).
    """

    principal: str
    name: str
    route: Route


@attrs.frozen
class Settled:
    """What a press or a command decided, in words for the person who did it."""

    text: str
    ok: bool


@attrs.frozen(kw_only=True)
class Pressed(Request[Settled]):
    """*principal* pressed the button *data*.  From an Intake."""

    principal: str
    data: str


@attrs.frozen(kw_only=True)
class Pair(Request[Settled]):
    """The owner approves the pairing *code*.  From the control socket."""

    code: str


@attrs.frozen(kw_only=True)
class Migrate(Request[None]):
    """The group *old* is now *new* (supergroup upgrade).  From an Intake; may be repeated."""

    old: int
    new: int


@attrs.frozen(kw_only=True)
class Migrations(Request[dict[int, int]]):
    """All chats that moved: present id → the id their session was named after."""


ApprovalsMail = Meet | Pressed | Pair | Migrate | Migrations


# --- outbox -------------------------------------------------------------------------------------


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


@attrs.frozen(kw_only=True)
class Post(Request[Sent | Unsure | Unsent | Undeliverable]):
    """Send one message.  Who asks owns the delivery: records before and after, asks again.

    *part* must fit the channel already (`core.splitting.split`).  *repeat* marks it as one that
    may have arrived before.
    """

    route: Route
    part: Rich
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
