import msgspec

from elwood.agent.approvals.messages import Decided
from elwood.agent.conversation.inbound import Inbound
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.state import RunResult
from elwood.foundation.runtime import Request


class Await(Request[RunResult | None], frozen=True, kw_only=True):
    """Wait until the run with the message *id* has its answer.  From a `RunClient`.

    None: the log has no such run, or the run is too old.
    """

    session: str
    id: str


class StopRun(Request[RunResult | None], frozen=True, kw_only=True):
    """Stop the run with the message *id*, and answer as `Await` does.

    Sent by a `RunClient`. A run that has not begun never begins. *why* becomes part of its answer.
    Repeating this changes nothing.
    """

    session: str
    id: str
    why: str


class Interrupt(msgspec.Struct, frozen=True):
    """Stop the running turn of *session*, a task's.  A hint; repeating it is harmless."""

    session: str


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The person at *route* can be reached again.  A hint to *session*; repeating is harmless."""

    session: str
    route: Route


SessionsMail = Inbound | Await | StopRun | Interrupt | Decided | Returned
