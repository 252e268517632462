"""Access of people and groups, requests for it, and new ids of groups.

A fold over the approvals journal.  The caller passes the time.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from elwood.agent.channels.questions import is_fresh
from elwood.agent.conversation.inbound import Role
from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import normal_code

# Seconds for which a code is valid; also the least time between two codes for one person (TG-30).
CODE_LASTS = 3600.0
CODE_LENGTH = 8
# Seconds for which the owner may say that a group is to be answered: they may be on holiday.
GROUP_LASTS = 30 * 86400.0
# Maximum of valid codes of people, and so of new codes in an hour.  A further stranger gets no code
# until another code expires: a crowd cannot make the code of somebody else expire.
MAX_OPEN_CODES = 600
# Groups that wait for an answer at a time, of which the oldest lapses for a new one; and how many
# of them one person may have brought us into.
MAX_OPEN_GROUPS, MAX_BROUGHT = 200, 3
# Seconds for which somebody turned away gets no further code.
DENIED_FOR = 30 * 86400.0
# People turned away that are remembered, and people removed; the oldest are forgotten first.
MAX_DENIED = 1000


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

    def is_brought_by(self, id: str) -> bool:
        """Return True if the principal *id* has brought us into this group."""
        return self.by.endswith(f" ({id})")  # names change, and what stands behind them is ours

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
                groups = [code for code, one in self.requests.items() if one.asked.is_group]
                if entry.is_group and len(groups) >= MAX_OPEN_GROUPS:
                    del self.requests[groups[0]]
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

    def seconds_left(self, code: str, now: float) -> float:
        """Return the remaining time of *code*; 0 if it has expired or is decided."""
        request = self.requests.get(code)
        if request is None or not request.is_fresh(now):
            return 0.0
        return request.at + request.asked.lasts - now

    def may_ask(self, principal: str, now: float, *, by: str = "", insists: bool = False) -> bool:
        """Tell whether *principal* gets a code; not if turned away, unless an owner *insists*.

        *by* is who brought us there, if it is a group.
        """
        denied, open_ = self.denied.get(principal), self.open(now)
        if denied is not None and 0 <= now - denied < DENIED_FOR and not insists:
            return False
        if by:
            is_full = sum(one.is_brought_by(by) for one in open_) >= MAX_BROUGHT and not insists
        else:
            is_full = sum(not one.is_group for one in open_) >= MAX_OPEN_CODES
        if is_full:
            return False
        return all(asked.principal != principal for asked in open_)
