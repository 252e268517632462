"""Requests to the approvals actor; those about people are in agent/people."""

import msgspec

from elwood.agent.approvals.state import Question
from elwood.agent.conversation.calls import Outcome, OwnerAnswer, Ruling, allows
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import PeopleMail
from elwood.foundation.runtime import Request


class ButtonPressed(Request[CommandResult], frozen=True, kw_only=True):
    """*principal* pressed the button *data* under *message* in *route*.  From an Intake.

    Without a route (an unknown chat) it cannot decide about a call.
    """

    principal: str
    data: str
    route: Route | None = None
    message: str = ""


class Pending(msgspec.Struct, frozen=True):
    """The owner has the question and has not decided."""


class Verdict(msgspec.Struct, frozen=True):
    """The decision about a call, and who made it.

    With `source`, *origins* are trusted now: those of the question, not any that were read later.
    """

    ruling: Ruling
    by: str
    origins: tuple[str, ...] = ()
    why: str = ""

    @property
    def allowed(self) -> bool:
        return allows(self.ruling)


class RequestApproval(Request[Pending | Verdict], frozen=True, kw_only=True):
    """Request approval of a call.  From a gate or a session; repeating it changes nothing.

    The first request asks the owner, unless a standing permission covers it.
    """

    question: Question


class LookUpDecision(Request[Pending | Verdict], frozen=True, kw_only=True):
    """Return the decision about *call* of *session*, which was requested with *plan*.

    From a session whose turn has continued without it.  An unknown decision counts as expired.
    """

    session: str
    call: str
    plan: str


class WithdrawRequests(Request[bool], frozen=True, kw_only=True):
    """Close the questions about calls of *session* that will not run.  False: the disk is full.

    A session sends it before it journals the end, so that no crash leaves an abandoned question
    open.  With *anew* a new conversation begins, which also ends the permissions of the old one.
    May be repeated.
    """

    session: str
    calls: tuple[str, ...]
    anew: bool = False


class DecideRequest(Request[CommandResult], frozen=True, kw_only=True):
    """*by* typed a decision about the question *code*.

    From a session (`/allow`, `/deny`) or the control socket.  It may be the pairing code of a
    person, who gets access, perhaps as a *guest*.
    """

    code: str
    answer: OwnerAnswer
    by: str
    guest: bool = False


class ListApprovals(Request[CommandResult], frozen=True, kw_only=True):
    """List pending questions and standing permissions as text; for owners only.

    Questions in the chat of *route* are repeated there.
    """

    by: str
    route: Route | None = None


class ShowDetails(Request[CommandResult], frozen=True, kw_only=True):
    """Return the details of the open question *code* as text; for owners only."""

    code: str
    by: str


class RevokePermission(Request[CommandResult], frozen=True, kw_only=True):
    number: int
    by: str


class Decided(msgspec.Struct, frozen=True):
    """A call of *session* was decided, or its task cancelled: the session should check again.

    A hint from approvals, or from the scheduler; it may be lost or repeated.
    """

    session: str


class CallReported(msgspec.Struct, frozen=True):
    """An allowed *call* of *session* has ended with *outcome*.

    A hint from a gate; it may be lost.
    """

    session: str
    call: str
    outcome: Outcome


ApprovalsMail = (
    PeopleMail
    | CallReported
    | ButtonPressed
    | RequestApproval
    | LookUpDecision
    | WithdrawRequests
    | DecideRequest
    | ListApprovals
    | ShowDetails
    | RevokePermission
)
