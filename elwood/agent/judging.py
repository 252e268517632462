"""Marks in the model's words what no receipt shows, and what looks like one."""

from collections.abc import Sequence

from elwood.agent.surroundings import Surroundings
from elwood.core.imitation import neutralise
from elwood.core.replay import Session
from elwood.core.session import CallEnded
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
    planned = turn.errand is not None
    if len(text) <= MUCH:
        return _mark(text, receipts, earlier, planned)
    return await house.blocking(lambda: _mark(text, receipts, earlier, planned))


def _mark(
    text: str, receipts: Sequence[CallEnded], earlier: Sequence[CallEnded], planned: bool
) -> str:
    # Making the patterns takes 0.1 s and 5 MB: a start must not wait for them.
    from elwood.core.claims import mark

    return mark(text, receipts, earlier, planned=planned)
