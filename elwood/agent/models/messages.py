import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from elwood.agent.conversation.message import Completion, Message, Prompt
from elwood.agent.conversation.run import Budget
from elwood.agent.models.client import EmbeddingFailed, Shown
from elwood.agent.models.ledger import Spent
from elwood.foundation.log import bound
from elwood.foundation.runtime import ActorUnavailable, Request

# Seconds before a deadline (at most a tenth of the time) at which the models actor ends a call by
# itself: it knows what the call failed of.
TO_SAY_WHY = 10.0


class BudgetSpent(msgspec.Struct, frozen=True):
    """A hard limit is reached; nothing was sent.  *why* names it and says when it resets."""

    why: str


class ModelUnavailable(msgspec.Struct, frozen=True):
    """No model could answer; *why* says what to do, if a person can do anything."""

    why: str


class ContextTooLong(msgspec.Struct, frozen=True):
    why: str


class BadHistory(msgspec.Struct, frozen=True):
    why: str


Completed = Completion | BudgetSpent | ModelUnavailable | ContextTooLong | BadHistory


class Delayed(msgspec.Struct, frozen=True):
    """There is no response yet, and *why*; it is tried again."""

    why: str


Progress = Shown | Delayed


class Complete(Request[Completed], frozen=True, kw_only=True):
    """One response of the model for *role*.  From a turn; abandoning it drops the HTTP request.

    *progress* gets the text so far, as a whole, each time there is more, and before that why there
    is none yet, or the thoughts; it must not wait.  *max_tokens* overrides the limit of the role.
     With *others_first* its first model is asked only if it has no other.
    *until* (Trio's clock) is when an answer comes too late: better a reason
    before it than silence.  *job* is the scheduled job that it is asked for, if any, and *budget*
    what that may spend; what is asked within its turn, such as a summary, carries both.  *cause* is
    what log lines name.
    """

    session: str
    role: str
    prompt: Prompt
    messages: tuple[Message, ...]
    progress: Callable[[Progress], None] | None = None
    max_tokens: int | None = None
    others_first: bool = False
    until: float = math.inf
    job: str = ""
    budget: Budget | None = None
    cause: tuple[tuple[str, str], ...] = msgspec.field(default_factory=bound)


async def ask_model(
    ask: Callable[[Complete], Awaitable[Completed]], request: Complete, deadline: float
) -> Completed:
    """Return the response to *request*, or why there is none until *deadline* (Trio's clock)."""
    limit = deadline - trio.current_time()
    until = deadline - min(TO_SAY_WHY, limit / 10)
    try:
        with trio.move_on_at(deadline):
            return await ask(msgspec.structs.replace(request, until=until))
    except ActorUnavailable as error:
        return ModelUnavailable(str(error))
    return ModelUnavailable(f"the model gave no answer within {limit:.0f} s")


Vector = Sequence[float]


class Embeddings(msgspec.Struct, frozen=True):
    """One vector per text; *tokens* is what the service counted, None if it did not say."""

    vectors: Sequence[Vector]
    tokens: int | None = None


class Embed(Request[Embeddings | EmbeddingFailed], frozen=True, kw_only=True):
    """Make a vector of each of *texts*.  From the memory; what is abandoned is paid for as well."""

    texts: tuple[str, ...]


class Spending(Request[Spent], frozen=True, kw_only=True):
    """What *session*, the day and the month have cost so far."""

    session: str


class MayAsk(Request[str], frozen=True, kw_only=True):
    """Why *job* may not ask a model now, as a limit is reached; empty if it may."""

    session: str
    job: str
    budget: Budget | None = None


ModelsMail = Complete | Embed | MayAsk | Spending
