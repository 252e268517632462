"""What the owner is asked about a call, and what may be answered."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from elwood.agent.conversation.route import Route

# What can be answered: this once, for this conversation, always this exact thing, this once and
# trust what was read in this conversation, no.
Answer = Literal["once", "conversation", "always", "source", "denied"]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """May this call run?

    *call* is unique within *session*.  *plan* binds the answer to what would run in the present
    circumstances, *exact* to what would run in any.  *subject* is what will run, complete and as
    it is, *why* the reason to ask; *origins* is what strangers' content the conversation holds.
    *offered* are the answers besides once and no.  *host* is where it would go, if to one.
    *route* is where the conversation is, *principal* who made it happen.
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
    offered: tuple[Answer, ...] = ()
    origins: tuple[str, ...] = ()
    host: str | None = None


def answers(question: Question) -> tuple[Answer, ...]:
    """List what may be answered, in the order in which it is shown.

    >>> answers(Question(session="s", call="c", tool="t", plan="", exact="", subject="", why="",
    ...                  route=Route("x"), principal="p", offered=("always", "source")))
    ('once', 'always', 'denied')
    """
    more: Iterable[Answer] = ("conversation", "always", "source")
    # There must be something to trust.
    offered = [a for a in more if a in question.offered and (a != "source" or question.origins)]
    return ("once", *offered, "denied")


def place(question: Question, owners: Sequence[Route]) -> Route | None:
    """Say where to ask: in the conversation if it is an owner's own chat, else at an owner's.

    None if there is no owner to be asked.
    """
    here = question.route
    if here.private and any((here.channel, here.chat) == (o.channel, o.chat) for o in owners):
        return here
    near = [owner for owner in owners if owner.channel == here.channel]
    return next(iter([*near, *owners]), None)
