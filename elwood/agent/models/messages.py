import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from elwood.agent.conversation.message import Completion, Message, Prompt
from elwood.agent.conversation.run import Budget
from elwood.agent.models.client import EmbeddingFailed, Shown
from elwood.agent.models.ledger import Spent
from elwood.foundation.log import get_bound
from elwood.foundation.runtime import ActorUnavailable, Request

# Seconds before a deadline (at most a tenth of the time) at which the models actor itself ends a
# call, since it knows why the call failed.
TO_SAY_WHY = 10.0


class BudgetSpent(msgspec.Struct, frozen=True):
    """A hard limit is reached; nothing was sent.  *why* names it and when it resets."""

    why: str


class ModelUnavailable(msgspec.Struct, frozen=True):
    """No model could answer; *why* includes the remedy, if there is one."""

    why: str


class ContextTooLong(msgspec.Struct, frozen=True):
    why: str


class BadHistory(msgspec.Struct, frozen=True):
    why: str


Completed = Completion | BudgetSpent | ModelUnavailable | ContextTooLong | BadHistory


class Delayed(msgspec.Struct, frozen=True):
    """There is no response yet because of *why*; the call is retried."""

    why: str


Progress = Shown | Delayed


class Complete(Request[Completed], frozen=True, kw_only=True):
    """Request one response of the model for *role*.  Abandoning it drops the HTTP request."""

    session: str
    role: str
    prompt: Prompt
    messages: tuple[Message, ...]
    # Receives the whole text so far each time it grows, before it the thoughts, or why there is
    # none; must not wait.
    progress: Callable[[Progress], None] | None = None
    # Overrides the limit of the role.
    max_tokens: int | None = None
    # Ask the role's first model only if there is no other.
    others_first: bool = False
    # Time (Trio's clock) after which an answer is too late: return a reason before it.
    until: float = math.inf
    # The scheduled job, if any, and its budget; also of requests within its turn (a summary).
    job: str = ""
    budget: Budget | None = None
    # Fields for log lines.
    cause: tuple[tuple[str, str], ...] = msgspec.field(default_factory=get_bound)


async def ask_model(
    ask: Callable[[Complete], Awaitable[Completed]], request: Complete, deadline: float
) -> Completed:
    """Return the response to *request*, or why there is none by *deadline* (Trio's clock)."""
    limit = deadline - trio.current_time()
    until = deadline - min(TO_SAY_WHY, limit / 10)
    try:
        with trio.move_on_at(deadline):
            return await ask(msgspec.structs.replace(request, until=until))
    except ActorUnavailable as error:
        return ModelUnavailable(str(error))
    return ModelUnavailable(f"the model did not answer within {limit:.0f} s")


Vector = Sequence[float]


class Embeddings(msgspec.Struct, frozen=True):
    """One vector per text; *tokens* is the service's count, None if it reports none."""

    vectors: Sequence[Vector]
    tokens: int | None = None


class Embed(Request[Embeddings | EmbeddingFailed], frozen=True, kw_only=True):
    """Make a vector of each of *texts*.  From the memory; an abandoned request is also billed."""

    texts: tuple[str, ...]


class Spending(Request[Spent], frozen=True, kw_only=True):
    """Return the cost of *session*, the day and the month so far."""

    session: str


class MayAsk(Request[str], frozen=True, kw_only=True):
    """Return which limit forbids *job* to use a model now; empty if none does."""

    session: str
    job: str
    budget: Budget | None = None


ModelsMail = Complete | Embed | MayAsk | Spending
