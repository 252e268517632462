"""A message on its way to a session, and what became of it."""

import attrs
import msgspec

from elwood.agent.conversation.identity import Principal
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import TaskRun
from elwood.foundation.runtime import Request


class Taken(msgspec.Struct, frozen=True):
    """The message stands in the session's log; it will have exactly one outcome."""


class Busy(msgspec.Struct, frozen=True):
    """Too much is waiting; the message was not taken."""

    waiting: int


class Refused(msgspec.Struct, frozen=True):
    """The session cannot take anything; *why* is for the person who wrote."""

    why: str


class NotNow(msgspec.Struct, frozen=True):
    """The message could not be written down (disk full): the channel must keep it and ask again.

    The sender is told *why* once (CP-30).
    """

    why: str


Reception = Taken | Busy | Refused | NotNow


@attrs.frozen(kw_only=True)
class Inbound(Request[Reception]):
    """A message for *session*.  From an Intake; repeating it with the same *id* changes nothing.

    *message* names it within its channel, *edits* the message it is an edit of; *quote* is the
    text it replies to; *untrusted* says that the words are not the sender's own (forwarded).
    *sent_at* is the sender's clock, Unix seconds.  *errand* bounds the run of a task.
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
    untrusted: bool = False
    errand: TaskRun | None = None
