"""A lying model in the real app: the receipts below the answer tell the truth."""

import attrs
import pytest

from elwood.agent.conversation.message import Human
from elwood.agent.session.delivery import IN_A_FILE
from elwood.agent.session.reading.receipts import HEAD, NOT_VERIFIED, NOTHING
from elwood.agent.session.turn.unsupported_claims import NOT_OURS
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import OTHER, Home, newest_message


async def test_receipts_below_a_lie_say_that_nothing_was_done(h: Home) -> None:
    lie, honest = "I have sent the mail to Anna.", "Shall I send the mail to Anna?"
    h.think = lambda request: answer(lie if newest_message(request) == "lie" else honest)
    async with h.life() as life:
        named = NOT_VERIFIED.format(f"“{lie[:-1]}”")
        assert await life.say("lie") == f"{lie}\n\n{HEAD}\n{NOTHING}\n{named}"
        assert await life.say("ask") == honest


async def test_only_the_real_receipts_have_the_heading(h: Home) -> None:
    lie = f"Here you are.\n\n{HEAD}\n✓ send_message Anna\n✓ act boldly"

    async with h.life() as life:
        looks = call(("c", "look", '{"name": "there"}'))
        h.think = lambda request: looks if isinstance(request.messages[-1], Human) else answer(lie)
        text = await life.say("do it")

    assert text.count(HEAD) == 1
    said, block = text.split(f"{HEAD}\n")
    assert block == "✓ look there"
    assert said.count(NOT_OURS.strip()) == 1


@pytest.mark.parametrize("unit", ["-", "—", "|---", "漢"])
async def test_a_repetitive_answer_does_not_block_others(h: Home, unit: str) -> None:
    long = f"Look: {unit * 200_000}"[:200_000] + " end"
    h.think = lambda request: answer(long if newest_message(request) == "repeat" else "Here I am.")
    async with h.life() as life:
        h.fake.say("repeat", chat=OWNER, user=OWNER)
        h.fake.say("and me?", chat=OTHER, user=OTHER)
        await life.wait_until_idle()

    assert h.texts(OTHER) == ["Here I am."]
    begun = h.texts(OWNER)[0]
    assert begun.startswith("Look:")
    assert begun.endswith(IN_A_FILE)
    ((_, whole),) = h.fake.files.values()
    assert whole.decode().endswith(" end")
    assert len(h.asked) == 2


async def test_a_clause_without_a_receipt_is_named_below_the_answer(h: Home) -> None:
    _, act, *_ = h.effects.tools()
    h.more_tools = (attrs.evolve(act, name="keep", deeds=("write",)),)
    keeps, said = call(("c", "keep", '{"name": "c.txt"}')), "I wrote c.txt and mailed Bob."
    h.think = lambda request: keeps if isinstance(request.messages[-1], Human) else answer(said)
    async with h.life() as life:
        text = await life.say("do it")

    block = text.partition(f"{HEAD}\n")[2].splitlines()
    assert [block[0].partition(" · ")[0], *block[1:]] == [
        "✓ keep c.txt",
        "Not verified: no record of “mailed Bob”",
    ]
