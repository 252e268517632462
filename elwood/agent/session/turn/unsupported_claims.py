"""Marks in the model's words what no receipt shows, and what looks like one."""

from collections.abc import Sequence

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.turn.imitation import neutralise
from elwood.agent.session.turn.surroundings import Surroundings

# Characters of an answer from which judging it might hold up everybody else for a moment.
MUCH = 4_000


async def judged(text: str, turn: Turn, state: Session, house: Surroundings) -> str:
    """Judge an answer by the receipts.

    Our own statements pass too: they claim nothing, and may have the model's words before them.
    """
    receipts = list(turn.receipts)
    earlier = [past.receipt for past in state.receipts]
    text = neutralise(house.redact(text))
    planned = turn.errand is not None
    if len(text) <= MUCH:
        return _mark(text, receipts, earlier, planned)
    return await house.blocking(lambda: _mark(text, receipts, earlier, planned))


def _mark(
    text: str, receipts: Sequence[CallEnded], earlier: Sequence[CallEnded], planned: bool
) -> str:
    # Making the patterns takes 0.1 s and 5 MB: a start must not wait for them.
    from elwood.agent.session.turn.claims import mark

    return mark(text, receipts, earlier, planned=planned)
