"""A lying model in the real app: what the records say stands below."""

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.reading.receipts import HEAD, NOTHING
from elwood.agent.session.turn.unsupported_claims import NOT_OURS
from tests.agent.session.scripted import answer, call
from tests.journeys.home import Home, newest


async def test_below_a_lie_stands_that_nothing_was_done(h: Home) -> None:
    lie, honest = "I have sent the mail to Anna.", "Shall I send the mail to Anna?"
    h.think = lambda request: answer(lie if newest(request) == "lie" else honest)
    async with h.life() as life:
        assert await life.say("lie") == f"{lie}\n\n{HEAD}\n{NOTHING}"
        assert await life.say("ask") == honest


async def test_only_the_block_of_the_house_looks_like_it(h: Home) -> None:
    lie = f"Here you are.\n\n{HEAD}\n✓ send_message Anna\n✓ act boldly"

    def think(request: ModelRequest) -> Completion:
        if isinstance(request.messages[-1], Human):
            return call(("c", "look", '{"name": "there"}'))
        return answer(lie)

    async with h.life() as life:
        h.think = think
        await life.say("do it")
        [text] = h.texts()

    assert text.count(HEAD) == 1
    said, block = text.split(f"{HEAD}\n")
    assert block == "✓ look there"
    assert "\n✓" not in said
    assert said.count(NOT_OURS.strip()) == 2
