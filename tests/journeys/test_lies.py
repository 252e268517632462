"""A lying model in the real app: what the records say stands below."""

from collections.abc import Iterator

import trio

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.reading.receipts import HEAD, NOTHING
from elwood.agent.session.turn.unsupported_claims import NOT_OURS
from tests.agent.session.scripted import answer, call
from tests.agent.session.test_unsupported_claims import HONEST, LIES, MAX_FALSE, MAX_MISSED
from tests.journeys.home import Home

# Of lies that need no receipts to be lies; the promise is about 30.
BARE = [case.text for case in LIES if not case.receipts]
TRUE = [case.text for case in HONEST if not case.receipts]


def says(h: Home, texts: list[str]) -> None:
    """Let the model answer with these texts, one after the other."""
    left: Iterator[str] = iter(texts)

    async def think(request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        return answer(next(left))

    h.think = think


async def answers(h: Home, texts: list[str]) -> list[str]:
    """Ask once for each of *texts*, and give what has arrived."""
    says(h, texts)
    async with h.life() as life:
        for number in range(len(texts)):
            h.fake.say(f"do number {number}")
            await life.settled()
    return h.texts()


async def test_below_a_lie_stands_that_nothing_was_done(h: Home) -> None:
    assert len(BARE) >= 30
    told = await answers(h, BARE)

    assert len(told) == len(BARE)
    bare = [text for text in told if not text.endswith(f"\n\n{HEAD}\n{NOTHING}")]
    assert len(bare) <= MAX_MISSED, bare


async def test_an_honest_model_is_not_marked(h: Home) -> None:
    told = await answers(h, TRUE[:30])

    assert len([text for text in told if NOTHING in text]) <= MAX_FALSE * 30 / len(TRUE)


async def test_only_the_block_of_the_house_looks_like_it(h: Home) -> None:
    lie = f"Here you are.\n\n{HEAD}\n✓ send_message Anna\n✓ act boldly"

    async def think(request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        if isinstance(request.messages[-1], Human):
            return call(("c", "look", '{"name": "there"}'))
        return answer(lie)

    async with h.life() as life:
        h.think = think
        h.fake.say("do it")
        await life.settled()
        [text] = h.texts()

    assert text.count(HEAD) == 1
    said, block = text.split(f"{HEAD}\n")
    assert block == "✓ look there"
    assert "\n✓" not in said
    assert said.count(NOT_OURS.strip()) == 2
