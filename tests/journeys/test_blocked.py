"""A person who blocks the bot gets their answers when they are back, and only they do."""

from typing import Any

import pytest
import trio

from elwood.agent.session.delivery import MISSED
from tests.agent.session.scripted import answer
from tests.journeys.home import OTHER, OTHERS, Home

pytestmark = pytest.mark.usefixtures("virtual_time")
SECRET = "The answer is 42."


async def block_during_the_answer(h: Home, life: Any) -> None:
    """Let the second owner ask, and block the bot before the answer."""
    began, may = trio.Event(), trio.Event()

    async def think(_: Any) -> Any:
        began.set()
        await may.wait()
        return answer(SECRET)

    h.think = think
    h.fake.say("what is it?", chat=OTHER, user=OTHER)
    await began.wait()
    h.fake.member(OTHER, "kicked", user=OTHER)
    await life.until(lambda: not h.fake.unconfirmed)
    may.set()
    await life.wait_until_idle()


@pytest.mark.parametrize("back", ["unblocks", "writes"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_the_answer_waits_for_its_person(h: Home, back: str, restarts: bool) -> None:
    async with h.life() as life:
        await block_during_the_answer(h, life)
        assert h.texts(OTHER) == []
        [told] = h.texts()
        assert told.startswith(f"I can no longer send messages to the chat {OTHER}: they blocked")
        assert told.endswith("I send my answers when they are back.")
        if not restarts:
            await come_back(h, life, back)
    if restarts:
        async with h.life() as life:
            await come_back(h, life, back)
    assert [text for text in h.texts(OTHER) if text in (MISSED, SECRET)] == [MISSED, SECRET]
    assert h.fold(OTHERS).missed == {}
    assert len(h.texts()) == 1
    assert h.broken_promises() == []


async def come_back(h: Home, life: Any, how: str) -> None:
    if how == "unblocks":
        h.fake.member(OTHER, "member", user=OTHER)
    else:
        h.fake.blocked.discard(OTHER)
        h.fake.say("/help", chat=OTHER, user=OTHER)
    await life.until(lambda: SECRET in h.texts(OTHER))
    await life.wait_until_idle()


async def test_an_answer_that_waits_survives_a_kill(h: Home) -> None:
    async with h.life() as life:
        await block_during_the_answer(h, life)
        h.kill("before sync posting")
        h.fake.member(OTHER, "member", user=OTHER)
        await life.wait_for_kill()
    async with h.life() as life:
        await life.until(lambda: h.texts(OTHER))
        await life.wait_until_idle()
    assert [text.removeprefix("(again) ") for text in h.texts(OTHER)] == [MISSED, SECRET]
    assert h.broken_promises() == []
