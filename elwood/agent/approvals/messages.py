"""Requests to the approvals actor; those about people are in agent/people."""

import msgspec

from elwood.agent.approvals.state import Question
from elwood.agent.conversation.calls import OwnerAnswer, Ruling, allows
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import PeopleMail
from elwood.foundation.runtime import Request


class ButtonPressed(Request[CommandResult], frozen=True, kw_only=True):
    """*principal* pressed the button *data* under *message* in *route*.  From an Intake.

    Without a route nobody knows where: then it answers no question about a call.
    """

    principal: str
    data: str
    route: Route | None = None
    message: str = ""


class Pending(msgspec.Struct, frozen=True):
    """The owner has been asked and has not decided."""


class Verdict(msgspec.Struct, frozen=True):
    """How a call was decided, and by whom; with `source`, the *origins* that are trusted now.

    These are the question's: what was read after it was asked is not among them.
    """

    ruling: Ruling
    by: str
    origins: tuple[str, ...] = ()
    why: str = ""

    @property
    def allowed(self) -> bool:
        return allows(self.ruling)


class RequestApproval(Request[Pending | Verdict], frozen=True, kw_only=True):
    """May this call run?  From a gate or a session; repeating it changes nothing.

    The first time the owner is asked, unless a standing permission covers it.
    """

    question: Question


class LookUpDecision(Request[Pending | Verdict], frozen=True, kw_only=True):
    """What was decided about *call* of *session*, which was asked about with *plan*?

    From a session whose turn has gone on without it.  What is not known any more has expired.
    """

    session: str
    call: str
    plan: str


class WithdrawRequests(Request[bool], frozen=True, kw_only=True):
    """These calls of *session* will not run any more: close their questions.  False: no room.

    From a session, before it writes that down itself, so that no crash leaves a question open
    that nobody waits for.  With *anew* a new conversation begins there: what was permitted for
    the old one ends as well.  May be repeated.
    """

    session: str
    calls: tuple[str, ...]
    anew: bool = False


class DecideRequest(Request[CommandResult], frozen=True, kw_only=True):
    """*by* types a decision about the question *code*.

    From a session (`/allow`, `/deny`) or the control socket.  It may be the code of a person, who
    is let in, perhaps as a *guest*.
    """

    code: str
    answer: OwnerAnswer
    by: str
    guest: bool = False


class ListApprovals(Request[CommandResult], frozen=True, kw_only=True):
    """What waits for a decision and what is permitted for good, in words; for owners only.

    What was asked at *route* is asked there once more.
    """

    by: str
    route: Route | None = None


class ShowDetails(Request[CommandResult], frozen=True, kw_only=True):
    """Return the details of the open question *code*, in words; for owners only."""

    code: str
    by: str


class RevokePermission(Request[CommandResult], frozen=True, kw_only=True):
    number: int
    by: str


class Decided(msgspec.Struct, frozen=True):
    """A call of *session* was decided about, or its task cancelled: to look again is worth while.

    A hint from approvals, or from the scheduler; it may be lost or doubled.
    """

    session: str


ApprovalsMail = (
    PeopleMail
    | ButtonPressed
    | RequestApproval
    | LookUpDecision
    | WithdrawRequests
    | DecideRequest
    | ListApprovals
    | ShowDetails
    | RevokePermission
)
