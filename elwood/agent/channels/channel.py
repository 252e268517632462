"""A way to talk with people, as the house sees it."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.route import Route
from elwood.agent.session.messages import SessionsMail
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Address, Mailbox


@attrs.frozen(kw_only=True)
class Doors:
    """What an intake may use of the house.

    *up* is to be set when it listens, *stop* when the house should end; *quiet* waits until no
    session has anything left to do, *failed* says whether the newest answer of one is a failure.
    """

    outside: Environment
    sessions: Address[SessionsMail]
    approvals: Address[ApprovalsMail]
    outbox: Address[OutboxMail]
    quiet: Callable[[], Awaitable[None]]
    failed: Callable[[str], bool]
    up: trio.Event
    stop: trio.Event


Body = Callable[[Mailbox[None]], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Channel:
    """A way to talk with people: its outbox, and its intake, made when the house stands.

    *owner* are the places where the owner is told what goes wrong, *owners* who may decide.
    *serves* says which sessions can be answered here: the others sleep on, whatever they owe.
    *files* says that the files of a message arrive with it.  *session* names the conversation that
    lives at a route, if it is one person's.
    """

    name: str
    outbox: Callable[[Mailbox[OutboxMail]], Awaitable[None]]
    intake: Callable[[Doors], Body]
    owner: tuple[Route, ...] = ()
    owners: frozenset[str] = frozenset()
    serves: Callable[[str], bool]
    session: Callable[[Route], str | None] = lambda route: None
    files: bool = False
