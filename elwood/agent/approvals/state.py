"""Who was let in, what was asked and answered, and what is permitted for good.

A fold over the approvals journal.  Nothing here knows the time: who asks says what it is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from elwood.agent.conversation.calls import ApprovalScope, OwnerAnswer, Ruling
from elwood.agent.conversation.inbound import Role
from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import normal_code
from elwood.foundation.text.lines import cut, one_line

# Seconds for which a code is valid; also the least time between two codes for one person (TG-30).
CODE_LASTS = 3600.0
CODE_LENGTH = 8
# Seconds for which the owner may say that a group is to be answered: they may be on holiday.
GROUP_LASTS = 30 * 86400.0
# Codes that strangers can make us write: at most so many at once, and in each hour after that.
NEW_CODES = 600
# People who wait for an answer at a time: as many as can have got a code within the hour for which
# it counts, so that nobody's lapses for the sake of another's.
MAX_OPEN_CODES = 2 * NEW_CODES
# Groups that wait for an answer at a time, of which the oldest lapses for a new one; and how many
# of them one person may have brought us into.
MAX_OPEN_GROUPS, MAX_BROUGHT = 200, 3
# Seconds for which somebody turned away gets no further code.
DENIED_FOR = 30 * 86400.0
# People turned away that are remembered, and people removed; the oldest are forgotten first.
MAX_DENIED = 1000
# Seconds by which the clock may step back without making anything expire (CP-35).
STEP_BACK = 60.0

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


# --- who may talk to us --------------------------------------------------------------------------


class AccessRequested(msgspec.Struct, frozen=True, tag="asked"):
    """A stranger, *principal*, calling themselves *name*, was given *code*.

    Or *principal* is a group of that name, into which *by* has brought us.
    """

    code: str
    principal: str
    name: str
    route: Route
    by: str = ""

    @property
    def is_group(self) -> bool:
        return bool(self.by)

    @property
    def lasts(self) -> float:
        """Seconds for which it can be answered."""
        return GROUP_LASTS if self.is_group else CODE_LASTS


class AccessDecided(msgspec.Struct, frozen=True, tag="answered"):
    """*by* decided about *code*: the one decision that counts.

    A *guest* may talk, and no more: their words are not trusted.
    """

    code: str
    approved: bool
    by: str
    guest: bool = False


class AccessEnded(msgspec.Struct, frozen=True, tag="left"):
    """The yes to *principal* holds no more: *by* removed them; or we are out of that group."""

    principal: str
    by: str = ""


class RoleChanged(msgspec.Struct, frozen=True, tag="role"):
    """*by* made *principal*, who was let in, a *guest*, or a member."""

    principal: str
    guest: bool
    by: str


class GroupMoved(msgspec.Struct, frozen=True, tag="moved"):
    """The group *old* has the id *new* now.

    Early journals hold integers, which the channel that had them understands as text.
    """

    old: str | int
    new: str | int


PeopleEntry = AccessRequested | AccessDecided | GroupMoved | AccessEnded | RoleChanged


class AccessRequest(msgspec.Struct, frozen=True):
    """A request for access made *at* a Unix time, with nothing decided yet."""

    at: float
    asked: AccessRequested
    shown: bool = False

    def is_fresh(self, now: float) -> bool:
        return is_fresh(self.asked.lasts, now - self.at)


class KnownPerson(msgspec.Struct, frozen=True):
    """Somebody, or a group, who was let in: *since* a Unix time, 0 if that is not known."""

    principal: str
    name: str
    role: Role | Literal["group"]
    since: float


class People(msgspec.Struct):
    """What the log of approvals adds up to: who was let in, groups among them.

    *since* is when, in Unix time; *removed* are people who were let in, and are not any more.
    """

    known: dict[str, str] = msgspec.field(default_factory=dict)
    requests: dict[str, AccessRequest] = msgspec.field(default_factory=dict)
    denied: dict[str, float] = msgspec.field(default_factory=dict)
    moved: dict[str, str | int] = msgspec.field(default_factory=dict)
    guests: dict[str, None] = msgspec.field(default_factory=dict)
    since: dict[str, float] = msgspec.field(default_factory=dict)
    removed: dict[str, None] = msgspec.field(default_factory=dict)

    def apply(self, at: float, entry: PeopleEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case AccessRequested():
                for code in [code for code, one in self.requests.items() if not one.is_fresh(at)]:
                    del self.requests[code]
                alike = [c for c, r in self.requests.items() if r.asked.is_group == entry.is_group]
                if len(alike) >= (MAX_OPEN_GROUPS if entry.is_group else MAX_OPEN_CODES):
                    del self.requests[alike[0]]
                self.requests[entry.code] = AccessRequest(at, entry)
            case AccessDecided():
                request = self.requests.pop(entry.code, None)
                if request is None:
                    return
                principal = request.asked.principal
                if entry.approved:
                    self.known[principal] = request.asked.name
                    self.since[principal] = at
                    self.denied.pop(principal, None)
                    self.removed.pop(principal, None)
                    self._set_guest(principal, entry.guest)
                else:
                    self.denied[principal] = at
                    while len(self.denied) > MAX_DENIED:
                        del self.denied[next(iter(self.denied))]
            case RoleChanged(principal, guest):
                self._set_guest(principal, guest)
            case GroupMoved():
                self.moved[str(entry.new)] = self.moved.get(str(entry.old), str(entry.old))
            case AccessEnded(principal, by):
                self.known.pop(principal, None)
                self.since.pop(principal, None)
                self.guests.pop(principal, None)
                if by:
                    self.removed[principal] = None
                    while len(self.removed) > MAX_DENIED:
                        del self.removed[next(iter(self.removed))]

    def _set_guest(self, principal: str, guest: bool) -> None:
        self.guests.pop(principal, None)
        if guest:
            self.guests[principal] = None

    def role(self, principal: str) -> Role | None:
        """Say what somebody is who was let in; None if they were not."""
        if principal not in self.known:
            return None
        return "guest" if principal in self.guests else "member"

    def listed(self, is_group: Callable[[str], bool]) -> tuple[KnownPerson, ...]:
        """List who was let in, the newest last."""
        return tuple(
            KnownPerson(
                id,
                name,
                "group" if is_group(id) else self.role(id) or "guest",
                self.since.get(id, 0.0),
            )
            for id, name in self.known.items()
        )

    def open(self, now: float) -> list[AccessRequested]:
        """List the requests that can still be answered at *now*, oldest first."""
        return [r.asked for r in self.requests.values() if r.is_fresh(now)]

    def find(self, code: str, now: float) -> AccessRequested | None:
        """Return the open request with *code*, however people type it, if there is one."""
        request = self.requests.get(normal_code(code))
        return request.asked if request is not None and request.is_fresh(now) else None

    def may_ask(self, principal: str, now: float, *, by: str = "", insists: bool = False) -> bool:
        """Tell whether *principal* gets a code; not if turned away, unless an owner *insists*.

        *by* is who brought us there, if it is a group.
        """
        denied, open_ = self.denied.get(principal), self.open(now)
        if denied is not None and 0 <= now - denied < DENIED_FOR and not insists:
            return False
        # Names change, and what stands behind them is ours.
        brought = [one for one in open_ if by and one.by.endswith(f" ({by})")]
        if len(brought) >= MAX_BROUGHT and not insists:
            return False
        return all(asked.principal != principal for asked in open_)


# --- what may be done ----------------------------------------------------------------------------


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


class RequestsShown(msgspec.Struct, frozen=True, tag="shown"):
    """The questions *ids* (of strangers: their codes) were shown, with buttons, as *message*.

    Without one nothing can be changed there any more; those of early versions are without.
    """

    ids: tuple[str, ...]
    message: str = ""
    route: Route | None = None


class RequestSettled(msgspec.Struct, frozen=True, tag="settled"):
    """The *message* that asked *id* has no buttons any more, or cannot be changed."""

    id: str
    message: str


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
ApprovalEntry = PeopleEntry | PermissionEntry | RequestsShown | RequestSettled


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


class QuestionMessage(msgspec.Struct, frozen=True):
    """A message with buttons, as its channel named it."""

    route: Route
    message: str


class ApprovalBook(msgspec.Struct):
    """What the approvals journal adds up to.

    *messages* are those that still have buttons, by the ids and codes of what they ask.
    """

    people: People = msgspec.field(default_factory=People)
    calls: ApprovalState = msgspec.field(default_factory=ApprovalState)
    messages: dict[str, QuestionMessage] = {}

    def apply(self, seq: int, at: float, entry: ApprovalEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case AccessRequested() | AccessDecided() | GroupMoved() | AccessEnded() | RoleChanged():
                self.people.apply(at, entry)
            case RequestsShown(ids, message, route):
                for id in ids:
                    if (met := self.people.requests.get(id)) is not None:
                        self.people.requests[id] = msgspec.structs.replace(met, shown=True)
                    if route is not None:
                        self.messages[id] = QuestionMessage(route, message)
                while len(self.messages) > MAX_KEPT:
                    del self.messages[next(iter(self.messages))]
            case RequestSettled(id, message):
                if (known := self.messages.get(id)) is not None and known.message == message:
                    del self.messages[id]
            case _:
                self.calls.apply(at, entry)


def is_fresh(lasts: float, age: float) -> bool:
    """Tell whether a yes given *age* seconds ago still counts; a clock set back far ends it.

    >>> is_fresh(300, 299), is_fresh(300, 300), is_fresh(300, -86400)
    (True, False, False)
    """
    return -STEP_BACK <= age < lasts


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
