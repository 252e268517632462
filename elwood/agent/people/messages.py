"""Requests to the approvals actor about people: pairing, roles, groups."""

from typing import Literal

import msgspec

from elwood.agent.conversation.inbound import CommandResult, Principal, Role
from elwood.agent.conversation.route import Route
from elwood.agent.people.state import KnownPerson
from elwood.foundation.runtime import Request


class Known(msgspec.Struct, frozen=True):
    """This person, or group, may talk to us; a person as a *role*."""

    role: Role = "member"


class Stranger(msgspec.Struct, frozen=True):
    """Not known.  *code* is set when a pairing code should be shown now (once an hour)."""

    code: str | None


class Meet(Request[Known | Stranger], frozen=True, kw_only=True):
    """May *principal* talk to us?  From an Intake, for people who are not in the configuration.

    *route* is where they wrote, *name* what they call themselves (untrusted).  Without *asks*
    nothing is asked of the owner, and nobody gets a code.  May also be about a group, which was
    *brought* to us by a person.
    """

    principal: str
    name: str
    route: Route
    asks: bool = True
    brought: Principal | None = None


class EndAccess(Request[bool], frozen=True, kw_only=True):
    """We are out of the group *principal*.  From an Intake; may be repeated.  False: no room."""

    principal: str


class ListPeople(Request[tuple[KnownPerson, ...]], frozen=True, kw_only=True):
    """Who was let in, the newest last?"""


class RemovedPeople(Request[frozenset[str]], frozen=True, kw_only=True):
    """Who was let in, and is not any more?  From a session: what they wanted is dropped."""


class ApprovePairing(Request[CommandResult], frozen=True, kw_only=True):
    """The owner approves the pairing *code*, of a *guest* perhaps.  From the control socket."""

    code: str
    guest: bool = False


class ChangeAccess(Request[CommandResult], frozen=True, kw_only=True):
    """*by* gives a *role* to *who*, a principal or a name; None: they are removed.

    From a session (`/people`) or the control socket.
    """

    who: str
    role: Literal["member", "guest"] | None
    by: str


class MoveGroup(Request[None], frozen=True, kw_only=True):
    """The group *old* has the id *new* now, as a principal.  From an Intake; may be repeated."""

    old: str
    new: str


class MovedGroups(Request[dict[str, str]], frozen=True, kw_only=True):
    """All groups whose id has changed: present id → the first one, which names the session."""


PeopleMail = (
    Meet
    | EndAccess
    | ListPeople
    | RemovedPeople
    | ApprovePairing
    | ChangeAccess
    | MoveGroup
    | MovedGroups
)
