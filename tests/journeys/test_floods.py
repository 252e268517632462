"""Floods of messages: people are answered in order, and Telegram's limits are respected."""

import itertools
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Received
from elwood.features.telegram.pacing import Pacing
from tests.agent.session.scripted import answer
from tests.fake_telegram import OWNER
from tests.journeys.home import MINE, OTHER, OTHERS, Home, newest_message
from tests.telegram_rules import Rates

pytestmark = pytest.mark.usefixtures("virtual_time")
GROUP = -100500
STRANGERS = range(2000, 2048)
EACH = 10


@pytest.fixture
def paced_home(h: Home) -> Home:
    """A home with the real rate limits, at a Telegram that counts."""
    h.pacing = Pacing()
    h.fake.rates = Rates()
    h.groups = (GROUP,)
    return h


async def flood(h: Home, numbers: Iterator[int]) -> None:
    """Let fifty people write ten messages each, in turns, before the first poll."""
    for _ in range(EACH):
        number = next(numbers)
        for person in (OWNER, OTHER, *STRANGERS):
            h.fake.say(f"word {number}", chat=person, user=person)
    await h.fake.until(lambda: not h.fake.unconfirmed)


def count_tasks() -> int:
    """Count the tasks, without those of the fake servers: one for each open connection."""
    left, count = [trio.lowlevel.current_root_task()], 0
    while left:
        task = left.pop()
        count += task is not None and not task.name.startswith("tests.fake_http")
        left += [
            child for one in (task.child_nurseries if task else ()) for child in one.child_tasks
        ]
    return count


async def test_owners_are_answered_in_a_flood_of_strangers(paced_home: Home) -> None:
    h, numbers = paced_home, itertools.count()
    async with h.life() as life:
        await life.say("hello")
        await flood(h, numbers)
        await trio.sleep(300)
        tasks = count_tasks()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await flood(h, numbers)
        await trio.sleep(300)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert count_tasks() <= tasks
    assert sorted(h.sessions) == [MINE, OTHERS]
    for session in (MINE, OTHERS):
        said = [one.text for one in h.entries(session) if isinstance(one, Received)]
        assert [text for text in said if text != "hello"] == [
            f"word {number}" for number in range(2 * EACH)
        ]
    assert len(h.asked) <= 4 * EACH + 1  # none of a stranger
    told = Counter(message.chat for message in h.fake.sent)
    assert all(told[stranger] <= 1 for stranger in STRANGERS)
    assert grown < 1 << 20  # including the memory of the fakes


async def test_a_busy_hour_causes_no_flood_wait(
    paced_home: Home, pytestconfig: pytest.Config
) -> None:
    h, chance = paced_home, Random(1)

    async def think(request: ModelRequest) -> Completion:
        """Stream for a while, with pauses, and sometimes over several messages."""
        text = f"re: {newest_message(request)}"
        for _ in range(chance.randrange(40)):
            await trio.sleep(chance.choice([0.05, 0.3, 3.0]))
            text += " and so on" * chance.choice([1, 1, 60])
            h.show(text)
        return answer(text)

    async def write(chat: int, user: int, until: float) -> None:
        mention = [{"type": "mention", "offset": 0, "length": 11}]
        for number in itertools.count():
            if trio.current_time() > until:
                return
            h.fake.say(f"@elwood_bot {number}", chat=chat, user=user, entities=mention)
            await trio.sleep(chance.expovariate(1 / 15))

    h.think = think
    async with h.life():
        until = trio.current_time() + 60 * pytestconfig.getoption("--busy-minutes")
        async with trio.open_nursery() as nursery:
            for chat, user in ((OWNER, OWNER), (OTHER, OTHER), (GROUP, OWNER)):
                nursery.start_soon(write, chat, user, until)
        await trio.sleep(600)
    assert h.fake.drafts
    assert h.fake.actions
    assert {message.chat for message in h.fake.sent} == {OWNER, OTHER, GROUP}
    assert not [key for key in h.fake.counts if "429" in key]
