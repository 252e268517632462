"""Marks in the model's words what no receipt shows, and what looks like one."""

from elwood.agent.surroundings import Surroundings
from elwood.core.claims import mark
from elwood.core.imitation import neutralise
from elwood.core.replay import Session
from elwood.core.turns import Turn

# Characters of an answer from which judging it might hold up everybody else for a moment.
MUCH = 4_000


async def judged(text: str, turn: Turn, state: Session, house: Surroundings) -> str:
    """Judge an answer by the receipts.

    Our own statements pass too: they claim nothing, and may have the model's words before them.
    """
    receipts = list(turn.receipts)
    earlier = [past.receipt for past in state.receipts]
    text = neutralise(house.strip(text))
    if len(text) <= MUCH:
        return mark(text, receipts, earlier, planned=turn.errand is not None)
    return await house.blocking(
        lambda: mark(text, receipts, earlier, planned=turn.errand is not None)
    )
