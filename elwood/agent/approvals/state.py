"""State of the approval questions and the standing permissions.

A fold over the approvals journal.  The caller passes the time.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from elwood.agent.channels.questions import (
    QuestionEntry,
    QuestionMessage,
    RequestSettled,
    RequestsShown,
    is_fresh,
)
from elwood.agent.conversation.calls import ApprovalScope, OwnerAnswer, Ruling
from elwood.agent.conversation.route import Route
from elwood.agent.people.state import People, PeopleEntry
from elwood.foundation.text.lines import one_line, shorten

# Maximum of open questions, in Elwood and in one conversation: an owner with more of them
# cannot decide with care (AP-21).
MAX_OPEN, MAX_OPEN_HERE = 100, 5
# Maximum of standing permissions: with more the owner loses track of them.
MAX_STANDING = 500
# Decided questions that are kept, so that a repeated request finds the answer.
MAX_KEPT = 1000
# Maximum characters of a call in a one-line description.
GIST = 160
TYPED_LENGTH = 6
# Principal of the control socket, which admits only the user who runs Elwood, and root.
CONTROL = "console:control"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the owner: may this call run?"""

    session: str
    # Id of the call, unique within the session.
    call: str
    tool: str
    # Hash of the call in the present circumstances, to which the answer is bound.
    plan: str
    # Hash of the call in any circumstances.
    exact: str
    # What will run, complete and unchanged.
    subject: str
    # The reason to ask.
    why: str
    # The place of the conversation.
    route: Route
    # The person or task that caused the call.
    principal: str
    # Answers that are allowed in addition to once and no.
    offered: tuple[OwnerAnswer, ...] = ()
    # Origins of untrusted content in the conversation.
    origins: tuple[str, ...] = ()
    # What a permission would cover; None: exactly this call.
    scope: ApprovalScope | None = None
    # Elwood's short description of the action.
    asks: str = ""
    # The arguments of the call, as the model gave them.
    arguments: str = ""
    # Id of the message that started the turn.
    message: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of permissions that cover this; a new permission gets the first one."""
        return (*(self.scope.keys if self.scope is not None else ()), self.exact)


def answers(question: Question) -> tuple[OwnerAnswer, ...]:
    """Return the possible answers, in the order of the buttons.

    >>> answers(Question(session="s", call="c", tool="t", plan="", exact="", subject="", why="",
    ...                  route=Route("x"), principal="p", offered=("always", "source")))
    ('once', 'always', 'denied')
    """
    more: Iterable[OwnerAnswer] = ("conversation", "always", "source")
    # "source" needs an origin to trust.
    offered = [a for a in more if a in question.offered and (a != "source" or question.origins)]
    return ("once", *offered, "denied")


def where_to_ask(question: Question, owners: Sequence[Route]) -> Route | None:
    """Return the owner's own chat in which to ask: this conversation if possible.

    Return None if no owner can be reached.
    """
    here = question.route
    if here.private and any(map(here.is_same_chat, owners)):
        return here
    near = [owner for owner in owners if owner.channel == here.channel]
    return next(iter([*near, *owners]), None)


class ApprovalRequested(msgspec.Struct, frozen=True, tag="sought"):
    """The owner got *question*; no answer within *lasts* seconds means no.

    Buttons carry *id*; the owner can type *code*.
    """

    id: str
    code: str
    question: Question
    lasts: float


class ApprovalDecided(msgspec.Struct, frozen=True, tag="ruled"):
    """*by* decided the question *id* about the hash *plan*; the first decision is final.

    *number* and *lasts* (seconds) belong to the standing permission that this gave, if any.
    """

    id: str
    ruling: Ruling
    by: str
    plan: str
    number: int = 0
    lasts: float = 0.0


class PermissionRevoked(msgspec.Struct, frozen=True, tag="revoked"):
    """*by* revoked the permission *number*."""

    number: int
    by: str


PermissionEntry = ApprovalRequested | ApprovalDecided | PermissionRevoked
ApprovalEntry = PeopleEntry | PermissionEntry | QuestionEntry


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A question, asked *at* a Unix time.

    *ruling* is None while it is open.  The subject of a decided question is shortened.
    """

    at: float
    id: str
    code: str
    question: Question
    lasts: float
    ruling: Ruling | None = None
    by: str = ""
    decided_at: float = 0.0

    def is_over(self, now: float) -> bool:
        """Return True if it has expired by the wall clock; a steady clock also ends it (AP-04)."""
        return now - self.at >= self.lasts


class Permission(msgspec.Struct, frozen=True):
    """A standing permission, given by *by* at a Unix time.

    *key* is a hash, *what* the description.  *principal* caused the call, if any did.
    """

    at: float
    number: int
    kind: Literal["conversation", "always"]
    key: str
    session: str
    what: str
    by: str
    lasts: float
    principal: str = ""

    def is_valid(self, now: float) -> bool:
        """Return True if it is valid.  A clock that was set far back ends it (CP-35)."""
        return is_fresh(self.lasts, now - self.at)

    def covers(self, question: Question) -> bool:
        """Return True if it answers *question*: only if that answer is offered there (TA-14)."""
        match self.kind:
            case "conversation":
                here = self.session == question.session and self.key in question.keys
                return here and "conversation" in question.offered
            case "always":
                return self.key in question.keys and "always" in question.offered


class ApprovalState(msgspec.Struct):
    """State of the entries about calls; *numbers* is the number of the newest permission."""

    requests: dict[str, ApprovalRequest] = {}
    permissions: dict[int, Permission] = {}
    numbers: int = 0

    def apply(self, at: float, entry: PermissionEntry) -> None:
        """Apply one entry, written *at* a Unix time."""
        match entry:
            case ApprovalRequested(id, code, question, lasts):
                self.requests[id] = ApprovalRequest(at, id, code, question, lasts)
            case ApprovalDecided():
                self._decide(at, entry)
            case PermissionRevoked(number):
                self.permissions.pop(number, None)

    def _decide(self, at: float, decided: ApprovalDecided) -> None:
        request = self.requests.get(decided.id)
        if request is None or request.ruling is not None:
            return  # the first decision is final (AP-05)
        question = request.question
        if (permission := permission_of(decided, question, at)) is not None:
            self._permit(permission)
        self.requests[decided.id] = msgspec.structs.replace(
            request,
            question=msgspec.structs.replace(question, subject=shorten(question.subject, GIST)),
            ruling=decided.ruling,
            by=decided.by,
            decided_at=at,
        )
        done = [request.id for request in self.requests.values() if request.ruling is not None]
        for id in done[: max(0, len(done) - MAX_KEPT)]:
            del self.requests[id]

    def _permit(self, permission: Permission) -> None:
        self.numbers = max(self.numbers, permission.number)
        for old in list(self.permissions.values()):
            if permission.at - old.at >= old.lasts:
                del self.permissions[old.number]
        self.permissions[permission.number] = permission

    def is_open(self, id: str) -> bool:
        request = self.requests.get(id)
        return request is not None and request.ruling is None

    def open(self) -> list[ApprovalRequest]:
        """Return the questions without a decision, the oldest first; some may have expired."""
        return [request for request in self.requests.values() if request.ruling is None]

    def of_call(self, session: str, call: str) -> ApprovalRequest | None:
        """Return the newest question about a call, if any."""
        newest = None
        for request in self.requests.values():
            if (request.question.session, request.question.call) == (session, call):
                newest = request
        return newest

    def of_code(self, code: str) -> ApprovalRequest | None:
        """Return the question with *code*; codes of kept questions are unique."""
        return next((one for one in self.requests.values() if one.code == code), None)

    def valid_permissions(self, now: float) -> list[Permission]:
        """Return the permissions that are valid at *now*, by number."""
        return [p for p in self.permissions.values() if p.is_valid(now)]

    def find_permission(self, question: Question, now: float) -> Permission | None:
        return next((p for p in self.valid_permissions(now) if p.covers(question)), None)

    def full(self, session: str) -> str | None:
        """Return why *session* may not ask another question; None if it may."""
        open_ = self.open()
        here = sum(request.question.session == session for request in open_)
        if len(open_) < MAX_OPEN and here < MAX_OPEN_HERE:
            return None
        return f"too many questions already wait for the owner ({here} from this conversation)"


def permission_of(decided: ApprovalDecided, question: Question, at: float) -> Permission | None:
    """Return the standing permission that a decision about *question* gives, if any."""
    ruling = decided.ruling
    if not decided.number or (ruling != "conversation" and ruling != "always"):
        return None
    session = question.session if ruling == "conversation" else ""
    return Permission(
        at=at,
        number=decided.number,
        kind=ruling,
        key=question.keys[0],
        session=session,
        what=describe_permission(question),
        by=decided.by,
        lasts=decided.lasts,
        principal=question.principal,
    )


class ApprovalBook(msgspec.Struct):
    """State of the approvals journal.

    *messages* are those that still have buttons, by the ids and codes of their questions.
    """

    people: People = msgspec.field(default_factory=People)
    calls: ApprovalState = msgspec.field(default_factory=ApprovalState)
    messages: dict[str, QuestionMessage] = {}

    def apply(self, seq: int, at: float, entry: ApprovalEntry) -> None:
        """Apply one entry, written *at* a Unix time."""
        if isinstance(entry, PeopleEntry):
            self.people.apply(at, entry)
            return
        match entry:
            case RequestsShown(ids, message, route):
                if route is not None:
                    self.messages |= dict.fromkeys(ids, QuestionMessage(route, message))
                while len(self.messages) > MAX_KEPT:
                    del self.messages[next(iter(self.messages))]
            case RequestSettled(id, message):
                if (known := self.messages.get(id)) is not None and known.message == message:
                    del self.messages[id]
            case _:
                self.calls.apply(at, entry)


def gist(question: Question) -> str:
    r"""Describe a call in one short line.

    >>> gist(Question(session="s", call="c", tool="run", plan="", exact="", subject="ls\n-l",
    ...               why="", route=Route("x"), principal="p"))
    'run ls -l'
    """
    return one_line(f"{question.tool} {question.subject[: 4 * GIST]}", GIST)


def describe_permission(question: Question) -> str:
    """Describe in one short line the coverage of a standing permission."""
    if (scope := question.scope) is None:
        return gist(question)
    where = "" if question.route.private else f", in {question.session}"
    return f"{one_line(scope.words, GIST)}{scope.note}{where}"
