"""Makes room in a conversation: has a cheap model sum up what is left out."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from elwood.agent.conversation.message import Completion, Human, Prompt
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.agent.session.log.entries import Compacted, Node
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.compaction import (
    INSTRUCTIONS,
    ContextLimits,
    Cut,
    Summary,
    Unfit,
    judge,
    plan,
    request,
    without_summary,
)
from elwood.foundation.runtime import ActorUnavailable

ROLE = "summarizer"
# Seconds for a summary: what a cheap model needs for 150,000 tokens, three times over.  The person
# waits for it.
DEADLINE = 120.0
# Tokens of the answer for one of the summary: some models think first.
ROOM_TO_THINK = 3
PROMPT = Prompt(INSTRUCTIONS)

Ask = Callable[[Complete], Awaitable[Completed]]


async def make_room(
    id_: str, session: Session, ask: Ask, context: int | None
) -> Compacted | BudgetSpent | None:
    """Find what is to be left out so that the conversation fits *context* tokens; None if nothing.

    Without *context* it must become less than it is: the model says that it does not fit.  If no
    summary can be had, the entry says why, and holds what an earlier one said.
    """
    turn = session.turn
    assert turn is not None
    limits = partial(ContextLimits, prompt=session.prompt_tokens, ratio=session.calibration.ratio)
    if context is None:
        context = int(limits(context=0).size(sum(node.tokens for node in session.path)))
    given = limits(context=context)
    match plan(session.path, given, turn.start):
        case Cut(at):
            old = [node for node in session.path if node.seq < at]
            made = await _summary(id_, ask, old, given.summary)
            match made:
                case Summary(text):
                    return Compacted(text, at)
                case Unfit(why):
                    return Compacted(without_summary(old), at, why)
            return made
    return None


async def _summary(
    id_: str, ask: Ask, old: Sequence[Node], most: int
) -> Summary | Unfit | BudgetSpent:
    replaced = sum(node.tokens for node in old)
    now = trio.current_time()
    limit = min(DEADLINE, (trio.current_effective_deadline() - now) / 2)
    wanted = Complete(
        session=id_,
        role=ROLE,
        prompt=PROMPT,
        messages=(Human(request(old, min(most, replaced))),),
        max_tokens=ROOM_TO_THINK * most,
        until=now + 0.9 * limit,  # so that they say what it failed of
    )
    completed: Completed | None = None
    try:
        with trio.move_on_at(now + limit):
            completed = await ask(wanted)
    except ActorUnavailable as error:
        return Unfit(str(error))
    match completed:
        case Completion():
            return judge(completed, replaced, most)
        case BudgetSpent():
            return completed  # nothing else can be asked either: better to lose nothing
        case ModelUnavailable(why) | ContextTooLong(why) | BadHistory(_, why):
            return Unfit(why)
        case None:
            return Unfit(f"the model gave none within {limit:.0f} s")
