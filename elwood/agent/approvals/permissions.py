"""What may be done: questions about calls, their answers, and what is permitted for good.

A fold over the calls' entries of the approvals journal; `Book` is the whole journal's.  Nothing
here knows the time: who asks says what it is.
"""

from typing import Literal

import msgspec

from elwood.agent.approvals.grants import (
    STEP_BACK,
    Answered,
    Asked,
    GrantEntry,
    Grants,
    Moved,
)
from elwood.agent.approvals.questions import Question
from elwood.agent.conversation.calls import Ruling
from elwood.agent.conversation.identity import flatten

# Questions that may be open at a time, in the house and in one conversation: an owner who has
# more before them decides nothing with care.
MAX_OPEN, MAX_OPEN_HERE = 100, 10
# Permissions that may stand at a time: beyond, nobody knows what they have permitted.
MAX_STANDING = 500
# Decided questions that are remembered, so that seeking again finds the answer.
MAX_KEPT = 1000
# Characters of a call in words, where it is only named.
GIST = 160
TYPED_LENGTH = 6
# Who the control socket speaks for: it admits only the user who runs Elwood, and root.
CONTROL = "console:control"


class Sought(msgspec.Struct, frozen=True, tag="sought"):
    """The owner is asked *question*; *id* stands on buttons, *code* can be typed.

    No answer within *lasts* seconds means no; of a *held* one, after it was `Shown`.
    """

    id: str
    code: str
    question: Question
    lasts: float
    held: bool = False


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """The owner has the questions *ids* before them, which were held until then."""

    ids: tuple[str, ...]


class Grouped(msgspec.Struct, frozen=True, tag="grouped"):
    """The questions *members* were put to the owner as one; *id* stands on its buttons."""

    id: str
    members: tuple[str, ...]


class Ruled(msgspec.Struct, frozen=True, tag="ruled"):
    """*by* decided the question *id*: the one decision that counts, about *plan*'s hash.

    *number* and *lasts* (seconds) are those of the permission that this gave for good, if any.
    """

    id: str
    ruling: Ruling
    by: str
    plan: str
    number: int = 0
    lasts: float = 0.0


class Trusted(msgspec.Struct, frozen=True, tag="trusted"):
    """*by* trusts the domain *host* for *lasts* seconds, as permission *number*."""

    number: int
    host: str
    by: str
    lasts: float


class Revoked(msgspec.Struct, frozen=True, tag="revoked"):
    """*by* took the permission *number* back."""

    number: int
    by: str


PermissionEntry = Sought | Shown | Grouped | Ruled | Trusted | Revoked
ApprovalEntry = GrantEntry | PermissionEntry


class Case(msgspec.Struct, frozen=True):
    """A question that is before the owner since *at*, Unix time; while it is *held* it is not.

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
    held: bool = False


class Permission(msgspec.Struct, frozen=True):
    """What *by* permitted for good, at a Unix time: *key* is a hash, or a host; *what* in words."""

    at: float
    number: int
    kind: Literal["conversation", "always", "domain"]
    key: str
    session: str
    what: str
    by: str
    lasts: float

    def stands(self, now: float) -> bool:
        """Tell whether it is still good; a clock set back far ends it (CP-35)."""
        return is_fresh(self.lasts, now - self.at)

    def covers(self, question: Question) -> bool:
        """Tell whether it answers *question*: only if such an answer is offered there (TA-14)."""
        match self.kind:
            case "conversation":
                here = self.session == question.session and self.key == question.exact
                return here and "conversation" in question.offered
            case "always":
                return self.key == question.exact and "always" in question.offered
            case "domain":
                host = question.host or ""
                inside = host == self.key or host.endswith(f".{self.key}")
                return inside and "always" in question.offered


class Permissions(msgspec.Struct):
    """What the calls' entries add up to; *numbers* is the newest permission's."""

    cases: dict[str, Case] = {}
    groups: dict[str, tuple[str, ...]] = {}
    permissions: dict[int, Permission] = {}
    numbers: int = 0

    def apply(self, seq: int, at: float, entry: PermissionEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case Sought(id, code, question, lasts, held):
                self.cases[id] = Case(at, id, code, question, lasts, held=held)
            case Shown(ids):
                for case in filter(None, map(self.cases.get, ids)):
                    self.cases[case.id] = msgspec.structs.replace(case, at=at, held=False)
            case Grouped(id, members):
                self.groups[id] = members
            case Ruled():
                self._rule(at, entry)
            case Trusted(number, host, by, lasts):
                self._permit(Permission(at, number, "domain", host, "", host, by, lasts))
            case Revoked(number):
                self.permissions.pop(number, None)

    def _rule(self, at: float, ruled: Ruled) -> None:
        case = self.cases.get(ruled.id)
        if case is None or case.ruling is not None:
            return  # the first decision stands (AP-05)
        question = case.question
        what = gist(question)
        if ruled.number and (ruled.ruling == "conversation" or ruled.ruling == "always"):
            session = question.session if ruled.ruling == "conversation" else ""
            key, kind = question.exact, ruled.ruling
            self._permit(
                Permission(at, ruled.number, kind, key, session, what, ruled.by, ruled.lasts)
            )
        self.cases[ruled.id] = msgspec.structs.replace(
            case,
            question=msgspec.structs.replace(question, subject=question.subject[:GIST]),
            ruling=ruled.ruling,
            by=ruled.by,
            decided_at=at,
        )
        done = [case.id for case in self.cases.values() if case.ruling is not None]
        for id in done[: max(0, len(done) - MAX_KEPT)]:
            del self.cases[id]
        for id, members in list(self.groups.items()):
            if not any(self._is_open(member) for member in members):
                del self.groups[id]

    def _permit(self, permission: Permission) -> None:
        self.numbers = max(self.numbers, permission.number)
        for old in list(self.permissions.values()):
            if permission.at - old.at >= old.lasts:
                del self.permissions[old.number]
        self.permissions[permission.number] = permission

    def _is_open(self, id: str) -> bool:
        case = self.cases.get(id)
        return case is not None and case.ruling is None

    def open(self) -> list[Case]:
        """List the questions without a decision, the oldest first; some may have expired."""
        return [case for case in self.cases.values() if case.ruling is None]

    def of_call(self, session: str, call: str) -> Case | None:
        """Return the newest question about a call."""
        found = None
        for case in self.cases.values():
            if (case.question.session, case.question.call) == (session, call):
                found = case
        return found

    def of_code(self, code: str) -> Case | None:
        """Return the question with *code*: the open one, else the newest."""
        found = None
        for case in self.cases.values():
            if case.code == code and (found is None or found.ruling is not None):
                found = case
        return found

    def standing(self, now: float) -> list[Permission]:
        """List the permissions that are good at *now*, by their numbers."""
        return [p for p in self.permissions.values() if p.stands(now)]

    def covering(self, question: Question, now: float) -> Permission | None:
        """Return a permission given for good that answers *question*."""
        return next((p for p in self.standing(now) if p.covers(question)), None)

    def recent(self, now: float, within: float) -> int:
        """Count the questions of the last *within* seconds, whatever became of them."""
        return sum(0 <= now - case.at < within for case in self.cases.values())

    def full(self, session: str) -> str | None:
        """Say why no further question of *session* can be asked; None if one can."""
        open_ = self.open()
        here = sum(case.question.session == session for case in open_)
        if len(open_) < MAX_OPEN and here < MAX_OPEN_HERE:
            return None
        return f"too many questions wait for the owner already ({here} of this conversation)"


class Book(msgspec.Struct):
    """What the approvals journal adds up to."""

    people: Grants = msgspec.field(default_factory=Grants)
    calls: Permissions = msgspec.field(default_factory=Permissions)

    def apply(self, seq: int, at: float, entry: ApprovalEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case Asked() | Answered() | Moved():
                self.people.apply(seq, at, entry)
            case _:
                self.calls.apply(seq, at, entry)


def is_over(lasts: float, wall: float, steady: float) -> bool:
    """Tell whether a question asked *wall* and *steady* seconds ago, by two clocks, has expired.

    A wall clock set back does not keep it open, one set ahead ends it (AP-04, CP-35).

    >>> is_over(300, 299, 299), is_over(300, -86400, 300), is_over(300, 86400, 1)
    (False, True, True)
    """
    return max(wall, steady) >= lasts


def is_fresh(lasts: float, age: float) -> bool:
    """Tell whether a yes given *age* seconds ago still counts; a clock set back far ends it.

    >>> is_fresh(300, 299), is_fresh(300, 300), is_fresh(300, -86400)
    (True, False, False)
    """
    return -STEP_BACK <= age < lasts


def gist(question: Question) -> str:
    r"""Name a call in one short line.

    >>> from elwood.agent.conversation.route import Route
    >>> gist(Question(session="s", call="c", tool="run", plan="", exact="", subject="ls\n-l",
    ...               why="", route=Route("x"), principal="p"))
    'run ls -l'
    """
    return flatten(f"{question.tool} {question.subject[: 4 * GIST]}", GIST)
