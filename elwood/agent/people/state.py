"""Access of people and groups, requests for it, and new ids of groups.

A fold over the approvals journal.  The caller passes the time.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from elwood.agent.channels.questions import is_fresh
from elwood.agent.conversation.inbound import Role
from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import normal_code

# Seconds for which a code is valid; also the least time between two codes for one person (TG-30).
CODE_LASTS = 3600.0
CODE_LENGTH = 8
# Seconds for which the owner may decide about a group: they may be on holiday.
GROUP_LASTS = 30 * 86400.0
# Maximum of valid codes of people, and so of new codes in an hour.  A further stranger gets no code
# until another code expires: a crowd cannot make another person's code expire.
MAX_OPEN_CODES = 600
# Maximum of groups that wait for an answer (a new one replaces the oldest), and of those that one
# person added us to.
MAX_OPEN_GROUPS, MAX_BROUGHT = 200, 3
# Seconds for which a denied person gets no new code.
DENIED_FOR = 30 * 86400.0
# Maximum of denied people, and of removed people, that are kept; the oldest are dropped first.
MAX_DENIED = 1000


class AccessRequested(msgspec.Struct, frozen=True, tag="asked"):
    """The stranger *principal*, who uses the name *name*, received *code*.

    Or *principal* is a group of that name, and *by* added us to it.
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
        """Return True if the principal *id* added us to this group."""
        return self.by.endswith(f" ({id})")  # names change, and we write the suffix

    @property
    def lasts(self) -> float:
        """Seconds for which it can be answered."""
        return GROUP_LASTS if self.is_group else CODE_LASTS


class AccessDecided(msgspec.Struct, frozen=True, tag="answered"):
    """*by* decided about *code*; the first decision is final.

    A *guest* may only talk, and their words are not trusted.
    """

    code: str
    approved: bool
    by: str
    guest: bool = False


class AccessEnded(msgspec.Struct, frozen=True, tag="left"):
    """The access of *principal* ended: *by* removed them, or we left that group."""

    principal: str
    by: str = ""


class RoleChanged(msgspec.Struct, frozen=True, tag="role"):
    """*by* changed the role of *principal* to *guest* or member."""

    principal: str
    guest: bool
    by: str


class GroupMoved(msgspec.Struct, frozen=True, tag="moved"):
    """The group *old* has the id *new* now.

    Early journals contain integers, which their channel reads as text.
    """

    old: str | int
    new: str | int


PeopleEntry = AccessRequested | AccessDecided | GroupMoved | AccessEnded | RoleChanged


class AccessRequest(msgspec.Struct, frozen=True):
    """An open request for access, made *at* a Unix time."""

    at: float
    asked: AccessRequested

    def is_fresh(self, now: float) -> bool:
        return is_fresh(self.asked.lasts, now - self.at)


class KnownPerson(msgspec.Struct, frozen=True):
    """A person or group with access *since* a Unix time, 0 if unknown."""

    principal: str
    name: str
    role: Role | Literal["group"]
    since: float
    # The setting that gives the access, or "".
    setting: str = ""


class People(msgspec.Struct):
    """State of the approvals journal about people and groups."""

    # Name by principal, of those with access.
    known: dict[str, str] = msgspec.field(default_factory=dict)
    # Open requests by code.
    requests: dict[str, AccessRequest] = msgspec.field(default_factory=dict)
    # Unix time of a denial, by principal.
    denied: dict[str, float] = msgspec.field(default_factory=dict)
    # First id of a group, by its present id.
    moved: dict[str, str | int] = msgspec.field(default_factory=dict)
    guests: dict[str, None] = msgspec.field(default_factory=dict)
    # Unix time from which they have had access.
    since: dict[str, float] = msgspec.field(default_factory=dict)
    # People who lost access.
    removed: dict[str, None] = msgspec.field(default_factory=dict)

    def apply(self, at: float, entry: PeopleEntry) -> None:
        """Apply one entry, written *at* a Unix time."""
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
        """Return the role of a person with access, or None."""
        if principal not in self.known:
            return None
        return "guest" if principal in self.guests else "member"

    def list_people(
        self, is_group: Callable[[str], bool], allowed: Mapping[str, str]
    ) -> tuple[KnownPerson, ...]:
        """Return everyone with access, the newest last.

        *allowed* are the people and groups of the configuration, each with its setting.
        """
        people = list[KnownPerson]()
        for id in dict.fromkeys((*allowed, *self.known)):
            role = "member" if id in allowed else self.role(id) or "guest"
            about = self.known.get(id, ""), "group" if is_group(id) else role
            people.append(KnownPerson(id, *about, self.since.get(id, 0.0), allowed.get(id, "")))
        return tuple(people)

    def open(self, now: float) -> list[AccessRequested]:
        """Return the requests that can still be answered at *now*, oldest first."""
        return [r.asked for r in self.requests.values() if r.is_fresh(now)]

    def find(self, code: str, now: float) -> AccessRequested | None:
        """Return the open request with *code*, which may be typed in any style, or None."""
        request = self.requests.get(normal_code(code))
        return request.asked if request is not None and request.is_fresh(now) else None

    def seconds_left(self, code: str, now: float) -> float:
        """Return the remaining time of *code*; 0 if it has expired or is decided."""
        request = self.requests.get(code)
        if request is None or not request.is_fresh(now):
            return 0.0
        return request.at + request.asked.lasts - now

    def may_ask(self, principal: str, now: float, *, by: str = "", insists: bool = False) -> bool:
        """Return True if *principal* may get a code; not after a denial, unless an owner *insists*.

        *by* added us to *principal*, if that is a group.
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
