"""What was asked and answered, and what is permitted for good.

A fold over the approvals journal.  Nothing here knows the time: who asks says what it is.
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
from elwood.foundation.text.lines import cut, one_line

# Questions that may be open at a time, in Elwood and in one conversation: an owner who has
# more before them decides nothing with care (AP-21).
MAX_OPEN, MAX_OPEN_HERE = 100, 5
# Permissions that may stand at a time: beyond, nobody knows what they have permitted.
MAX_STANDING = 500
# Decided questions that are remembered, so that seeking again finds the answer.
MAX_KEPT = 1000
# Characters of a call in words, where it is only named.
GIST = 160
TYPED_LENGTH = 6
# Who the control socket speaks for: it admits only the user who runs Elwood, and root.
CONTROL = "console:control"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """May this call run?

    *call* is unique within *session*.  *plan* binds the answer to what would run in the present
    circumstances, *exact* to what would run in any.  *subject* is what will run, complete and as
    it is, *why* the reason to ask; *origins* is what strangers' content the conversation holds.
    *offered* are the answers besides once and no.
    *route* is where the conversation is, *principal* who made it happen.  *scope* is what an
    answer for the conversation or for good permits; without one that is *exact*.  *asks* says in a
    few words of ours what is to be done, *arguments* are the call's, as the model gave them.
    *message* is the id of the message that it all began with.
    """

    session: str
    call: str
    tool: str
    plan: str
    exact: str
    subject: str
    why: str
    route: Route
    principal: str
    offered: tuple[OwnerAnswer, ...] = ()
    origins: tuple[str, ...] = ()
    scope: ApprovalScope | None = None
    asks: str = ""
    arguments: str = ""
    message: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """What a permission may be for that covers this; the first is what it would permit."""
        return (*(self.scope.keys if self.scope is not None else ()), self.exact)


def answers(question: Question) -> tuple[OwnerAnswer, ...]:
    """List what may be answered, in the order in which it is shown.

    >>> answers(Question(session="s", call="c", tool="t", plan="", exact="", subject="", why="",
    ...                  route=Route("x"), principal="p", offered=("always", "source")))
    ('once', 'always', 'denied')
    """
    more: Iterable[OwnerAnswer] = ("conversation", "always", "source")
    # There must be something to trust.
    offered = [a for a in more if a in question.offered and (a != "source" or question.origins)]
    return ("once", *offered, "denied")


def where_to_ask(question: Question, owners: Sequence[Route]) -> Route | None:
    """Say where to ask: in the conversation if it is an owner's own chat, else at an owner's.

    None if there is no owner to be asked.
    """
    here = question.route
    if here.private and any(map(here.is_same_chat, owners)):
        return here
    near = [owner for owner in owners if owner.channel == here.channel]
    return next(iter([*near, *owners]), None)


class ApprovalRequested(msgspec.Struct, frozen=True, tag="sought"):
    """The owner is asked *question*; *id* stands on buttons, *code* can be typed.

    No answer within *lasts* seconds means no.
    """

    id: str
    code: str
    question: Question
    lasts: float


class ApprovalDecided(msgspec.Struct, frozen=True, tag="ruled"):
    """*by* decided the question *id*: the one decision that counts, about *plan*'s hash.

    *number* and *lasts* (seconds) are those of the permission that this gave for good, if any.
    """

    id: str
    ruling: Ruling
    by: str
    plan: str
    number: int = 0
    lasts: float = 0.0


class PermissionRevoked(msgspec.Struct, frozen=True, tag="revoked"):
    """*by* took the permission *number* back."""

    number: int
    by: str


PermissionEntry = ApprovalRequested | ApprovalDecided | PermissionRevoked
ApprovalEntry = PeopleEntry | PermissionEntry | QuestionEntry


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A question that was asked *at* a Unix time.

    *ruling* is None while it is open; of a decided one the subject is cut to its gist.
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
        """Tell whether its time is up by the wall clock; a steady one ends it as well (AP-04)."""
        return now - self.at >= self.lasts


class Permission(msgspec.Struct, frozen=True):
    """What *by* permitted for good, at a Unix time: *key* is a hash; *what* in words.

    *principal* made the call happen that it was given for, if there was one.
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

    def stands(self, now: float) -> bool:
        """Tell whether it is still good; a clock set back far ends it (CP-35)."""
        return is_fresh(self.lasts, now - self.at)

    def covers(self, question: Question) -> bool:
        """Tell whether it answers *question*: only if such an answer is offered there (TA-14)."""
        match self.kind:
            case "conversation":
                here = self.session == question.session and self.key in question.keys
                return here and "conversation" in question.offered
            case "always":
                return self.key in question.keys and "always" in question.offered


class ApprovalState(msgspec.Struct):
    """What the calls' entries add up to; *numbers* is the newest permission's."""

    requests: dict[str, ApprovalRequest] = {}
    permissions: dict[int, Permission] = {}
    numbers: int = 0

    def apply(self, at: float, entry: PermissionEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
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
            return  # the first decision stands (AP-05)
        question = request.question
        if (permission := permission_of(decided, question, at)) is not None:
            self._permit(permission)
        self.requests[decided.id] = msgspec.structs.replace(
            request,
            question=msgspec.structs.replace(question, subject=cut(question.subject, GIST)),
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
        """List the questions without a decision, the oldest first; some may have expired."""
        return [request for request in self.requests.values() if request.ruling is None]

    def of_call(self, session: str, call: str) -> ApprovalRequest | None:
        """Return the newest question about a call."""
        found = None
        for request in self.requests.values():
            if (request.question.session, request.question.call) == (session, call):
                found = request
        return found

    def of_code(self, code: str) -> ApprovalRequest | None:
        """Return the question with *code*, which no other has while it is remembered."""
        return next((one for one in self.requests.values() if one.code == code), None)

    def standing(self, now: float) -> list[Permission]:
        """List the permissions that are good at *now*, by their numbers."""
        return [p for p in self.permissions.values() if p.stands(now)]

    def covering(self, question: Question, now: float) -> Permission | None:
        return next((p for p in self.standing(now) if p.covers(question)), None)

    def full(self, session: str) -> str | None:
        """Say why no further question of *session* can be asked; None if one can."""
        open_ = self.open()
        here = sum(request.question.session == session for request in open_)
        if len(open_) < MAX_OPEN and here < MAX_OPEN_HERE:
            return None
        return f"too many questions wait for the owner already ({here} of this conversation)"


def permission_of(decided: ApprovalDecided, question: Question, at: float) -> Permission | None:
    """Return what a decision about *question* permits for good from *at* on, if anything."""
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
        what=permitted(question),
        by=decided.by,
        lasts=decided.lasts,
        principal=question.principal,
    )


class ApprovalBook(msgspec.Struct):
    """What the approvals journal adds up to.

    *messages* are those that still have buttons, by the ids and codes of what they ask.
    """

    people: People = msgspec.field(default_factory=People)
    calls: ApprovalState = msgspec.field(default_factory=ApprovalState)
    messages: dict[str, QuestionMessage] = {}

    def apply(self, seq: int, at: float, entry: ApprovalEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
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
    r"""Name a call in one short line.

    >>> gist(Question(session="s", call="c", tool="run", plan="", exact="", subject="ls\n-l",
    ...               why="", route=Route("x"), principal="p"))
    'run ls -l'
    """
    return one_line(f"{question.tool} {question.subject[: 4 * GIST]}", GIST)


def permitted(question: Question) -> str:
    """Name in one short line what an answer for the conversation, or for good, permits."""
    if (scope := question.scope) is None:
        return gist(question)
    where = "" if question.route.private else f", in {question.session}"
    return f"{one_line(scope.words, GIST)}{scope.note}{where}"
