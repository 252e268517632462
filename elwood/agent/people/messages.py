"""Requests to the approvals actor about people: pairing, roles, groups."""

from typing import Literal

import msgspec

from elwood.agent.conversation.inbound import CommandResult, Principal, Role
from elwood.agent.conversation.route import Route
from elwood.agent.people.state import KnownPerson
from elwood.foundation.runtime import Request


class Known(msgspec.Struct, frozen=True):
    """This person or group may talk to us; a person has a *role*."""

    role: Role = "member"


class Stranger(msgspec.Struct, frozen=True):
    """Unknown.  *code* is set if a pairing code must be shown now (once an hour)."""

    code: str | None


class Meet(Request[Known | Stranger], frozen=True, kw_only=True):
    """Check the access of *principal*, who is not in the configuration.  From an Intake."""

    principal: str
    # The name that they chose (untrusted).
    name: str
    # Where they wrote.
    route: Route
    # False: do not ask the owner and create no code.
    asks: bool = True
    # The person who added us to the group; None if *principal* is a person.
    brought: Principal | None = None


class EndAccess(Request[bool], frozen=True, kw_only=True):
    """We left the group *principal*.  From an Intake; may be repeated.  False: the disk is full."""

    principal: str


class ListPeople(Request[tuple[KnownPerson, ...]], frozen=True, kw_only=True):
    """List the people with access, the newest last."""


class RemovedPeople(Request[frozenset[str]], frozen=True, kw_only=True):
    """List the people who lost access.  From a session, which drops their requests."""


class ApprovePairing(Request[CommandResult], frozen=True, kw_only=True):
    """The owner approves the pairing *code*, perhaps as a *guest*.  From the control socket."""

    code: str
    guest: bool = False


class ChangeAccess(Request[CommandResult], frozen=True, kw_only=True):
    """*by* gives a *role* to *who*, a principal or a name; with None they lose access.

    From a session (`/people`) or the control socket.
    """

    who: str
    role: Literal["member", "guest"] | None
    by: str


class MoveGroup(Request[None], frozen=True, kw_only=True):
    """The group *old* has the principal *new* now.  From an Intake; may be repeated."""

    old: str
    new: str


class MovedGroups(Request[dict[str, str]], frozen=True, kw_only=True):
    """Map the present id of each moved group to its first one, which names the session."""


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
