"""A message on its way to a session, and what became of it."""

import attrs

from elwood.agent.conversation.identity import Principal
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import TaskRun
from elwood.foundation.runtime import Request


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
