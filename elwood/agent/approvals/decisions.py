"""Decisions about requests for approval: the entries to write, and the answer.

Pure.  The actor writes the entries, then sends the answer.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

import msgspec

from elwood.agent.approvals.messages import Pending, Verdict
from elwood.agent.approvals.prompt_text import (
    MAX_ARGUMENTS,
    MAX_SHOWN,
    RULINGS,
    describe_trust,
    overview,
)
from elwood.agent.approvals.state import (
    MAX_STANDING,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequest,
    ApprovalState,
    Permission,
    PermissionEntry,
    PermissionRevoked,
    Question,
    answers,
    gist,
    permission_of,
)
from elwood.agent.channels.questions import is_fresh
from elwood.agent.conversation.calls import OwnerAnswer, Ruling, allows
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import Route
from elwood.agent.people.state import AccessEnded, KnownPerson
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import shorten

T_co = TypeVar("T_co", covariant=True)

EXPIRED = CommandResult("This question has expired or is already decided.", ok=False)
FULL = CommandResult(
    f"There are {MAX_STANDING} permissions already. Revoke some (/approvals), or allow it once.",
    ok=False,
)
DISK_FULL = "the disk is full, so the question could not be recorded"


class Step(msgspec.Struct, Generic[T_co], frozen=True):
    """Entries to write in one line, and the answer to send afterwards."""

    answer: T_co
    entries: tuple[ApprovalEntry, ...] = ()


def close(request: ApprovalRequest, ruling: Ruling, by: str = "") -> ApprovalDecided:
    """Build the entry that closes *request* without a permission."""
    return ApprovalDecided(request.id, ruling, by, request.question.plan)


def find_decision(
    state: ApprovalState, question: Question, now: float
) -> Step[Verdict | Pending | None]:
    """Return the decision about *question*; None if it must go to the owner.

    A yes that is older than the maximum age of a request does not count (CP-13); a no does.
    """
    request = state.of_call(question.session, question.call)
    closed: tuple[PermissionEntry, ...] = ()
    waiting: ApprovalRequest | None = None
    if request is not None:
        same = request.question.plan == question.plan
        if request.ruling is None and request.is_over(now):
            closed = (close(request, "expired"),)
            if same:
                return Step(Verdict("expired", ""), closed)
        elif request.ruling is None and same:
            waiting = request
        elif request.ruling is None:  # the answer would be about a different plan (AP-07)
            closed = (close(request, "withdrawn"),)
        elif same and not _is_stale(request, now):
            return Step(_verdict(request))
    standing = state.find_permission(question, now)
    if standing is not None:
        by = _describe_permission(standing)
        if waiting is not None:
            closed = (close(waiting, "standing", by),)
        return Step(Verdict("standing", by), closed)
    return Step(Pending()) if waiting is not None else Step(None, closed)


def redact_question(question: Question, redact: Callable[[str], str]) -> Question:
    """Remove secrets from all texts of *question* that people read."""
    replace, scope = msgspec.structs.replace, question.scope
    if scope is not None:
        scope = replace(scope, words=redact(scope.words), covers=redact(scope.covers))
    subject, why = redact(question.subject), redact(question.why)
    arguments = shorten(redact(question.arguments), MAX_ARGUMENTS)
    asks = redact(question.asks)
    return replace(question, subject=subject, why=why, scope=scope, asks=asks, arguments=arguments)


def why_not_asked(state: ApprovalState, question: Question, place: Route | None) -> str | None:
    """Return why *question* cannot be sent to *place*; None if it can."""
    if place is None:
        return "there is no one to ask: no chat of an owner is configured"
    size = len(escape_invisible(question.subject))
    if size > MAX_SHOWN:
        return f"the question has {size} characters; the owner can be shown at most {MAX_SHOWN}"
    return state.full(question.session)


def look_up(
    state: ApprovalState, session: str, call: str, plan: str, now: float
) -> Pending | Verdict:
    """Return the decision about a call; an unknown or stale one counts as expired."""
    request = state.of_call(session, call)
    if request is None or request.question.plan != plan:
        return Verdict("expired", "")
    if request.ruling is None:
        return Verdict("expired", "") if request.is_over(now) else Pending()
    return Verdict("expired", "") if _is_stale(request, now) else _verdict(request)


def withdraw(
    state: ApprovalState, session: str, calls: Collection[str], anew: bool, now: float
) -> tuple[PermissionEntry, ...]:
    """Close the open requests about *calls*; if *anew*, revoke the conversation's permissions."""
    open_ = [request for request in state.open() if request.question.session == session]
    ended = [p for p in state.valid_permissions(now) if anew and p.session == session]
    return (
        *(PermissionRevoked(p.number, "a new conversation") for p in ended),
        *(close(request, "withdrawn") for request in open_ if request.question.call in calls),
    )


def decide_request(
    state: ApprovalState,
    request: ApprovalRequest,
    answer: OwnerAnswer,
    by: str,
    now: float,
    lasts: float,
) -> Step[CommandResult]:
    """Decide about one request; a standing permission is valid for *lasts* seconds."""
    what = gist(request.question)
    if request.ruling is not None:
        return _refuse(f"Already decided ({RULINGS[request.ruling]}): {what}")
    if request.is_over(now):
        return _refuse(
            f"This question has expired, so I will not do it: {what}", close(request, "expired")
        )
    offered = answers(request.question)
    if answer not in offered:
        return _refuse(f"You can answer this question only with: {', '.join(offered)}.")
    decided = close(request, answer, by)
    covered: tuple[ApprovalDecided, ...] = ()
    if answer in ("conversation", "always"):
        if len(state.valid_permissions(now)) >= MAX_STANDING:
            return Step(FULL)
        decided = ApprovalDecided(
            request.id, answer, by, request.question.plan, state.numbers + 1, lasts
        )
        permission = permission_of(decided, request.question, now)
        assert permission is not None
        what = permission.what
        others = [other for other in state.open() if other.id != request.id]
        covered = _decide_covered(others, permission, now)
    trust = f" {describe_trust(request.question)}" if answer == "source" else ""
    text = f"{RULINGS[answer].capitalize()}: {what}{trust and f'.{trust}'}"
    return Step(CommandResult(text, ok=True), (decided, *covered))


def revoke(state: ApprovalState, number: int, by: str, now: float) -> Step[CommandResult]:
    if number not in {p.number for p in state.valid_permissions(now)}:
        return _refuse(
            f"There is no permission {number}. List them with /approvals, or elwood approve."
        )
    text = f"Permission {number} is revoked."
    return Step(CommandResult(text, ok=True), (PermissionRevoked(number, by),))


def remove(state: ApprovalState, person: KnownPerson, by: str, now: float) -> Step[CommandResult]:
    """End the access of *person*, their open requests and the permissions they caused."""
    who = person.principal
    asked = [one for one in state.open() if one.question.principal == who]
    given = [p for p in state.valid_permissions(now) if p.principal == who]
    text = f"{person.name or 'Someone'} ({who}) can no longer talk to me."
    if asked:
        text += f" I took back {len(asked)} of my questions."
    if given:
        what = "; ".join(f"{p.number} ({p.what})" for p in given)
        text += f" Permissions that they had caused are revoked: {what}."
    entries: tuple[ApprovalEntry, ...] = (
        AccessEnded(who, by),
        *(close(one, "withdrawn", by) for one in asked),
        *(PermissionRevoked(p.number, by) for p in given),
    )
    return Step(CommandResult(text, ok=True), entries)


def list_all(state: ApprovalState, now: float) -> CommandResult:
    open_ = [request for request in state.open() if not request.is_over(now)]
    return CommandResult(overview(open_, state.valid_permissions(now)), ok=True)


def _decide_covered(
    open_: Iterable[ApprovalRequest], permission: Permission, now: float
) -> tuple[ApprovalDecided, ...]:
    """Close the open requests that a new permission covers."""
    return tuple(
        close(request, "standing", _describe_permission(permission))
        for request in open_
        if permission.covers(request.question) and not request.is_over(now)
    )


def _describe_permission(permission: Permission) -> str:
    return f"permission {permission.number} of {permission.by}"


def _is_stale(request: ApprovalRequest, now: float) -> bool:
    return allows(request.ruling) and not is_fresh(request.lasts, now - request.decided_at)


def _verdict(request: ApprovalRequest) -> Verdict:
    assert request.ruling is not None
    origins = request.question.origins if request.ruling == "source" else ()
    return Verdict(request.ruling, request.by, origins)


def _refuse(text: str, *entries: PermissionEntry) -> Step[CommandResult]:
    return Step(CommandResult(text, ok=False), entries)
