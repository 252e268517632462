"""A conversation that exceeds its limit, in the whole app."""

import pytest
import trio

from elwood.agent.conversation.message import Completion, Notice
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Compacted, Replied, Said
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.compaction import INSTRUCTIONS
from tests.agent.session.scripted import answer
from tests.journeys.home import MODEL, Home, Think, follow_message
from tests.model_roles import asking

LONG = "some words that fill the room " * 12
SMALL = "scripted/small"


def set_small_limit(h: Home, sum_up: Think) -> None:
    """Set a small limit, and let another model make the summaries."""
    h.settings["turn"] = TurnSettings(context_tokens=2000)
    models = asking(MODEL, SMALL)
    h.made = h.config().replace(models)

    h.think = lambda request: (sum_up if is_summary(request) else follow_message)(request)


def is_summary(request: ModelRequest) -> bool:
    return request.prompt.system == INSTRUCTIONS


def summaries(h: Home) -> list[ModelRequest]:
    return [request for request in h.asked if is_summary(request)]


def cuts(h: Home) -> list[Compacted]:
    return [entry for entry in h.entries() if isinstance(entry, Compacted)]


def good(request: ModelRequest) -> Completion:
    return answer("<summary>They repeat each other.</summary>")


async def silent(request: ModelRequest) -> Completion:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_small_model_summarizes_and_is_charged(h: Home) -> None:
    set_small_limit(h, good)
    async with h.life() as life:
        while not cuts(h):
            await life.say(LONG)
    assert [request.model for request in summaries(h)] == ["small"]
    charged = [entry.model for entry in h.usage_entries()]
    assert charged.count(SMALL) == 1
    assert charged.count(MODEL) == sum(isinstance(e, Said) for e in h.entries())
    first = h.asked[-1].messages[0]
    assert isinstance(first, Notice)
    assert "They repeat each other." in first.text
    assert not any("⚠" in text for text in h.texts())
    assert h.broken_promises() == []


async def test_stop_ends_a_summary(h: Home) -> None:
    set_small_limit(h, silent)
    async with h.life() as life:
        while not summaries(h):
            h.fake.say(LONG)
            await life.until(lambda: summaries(h) or is_quiet(h))
        h.fake.say("/stop")
        await life.wait_until_idle(seconds=60)
        assert h.texts()[-1].startswith("Stopped.")
        assert cuts(h) == []
        set_small_limit(h, good)
        await life.say("go on")
    assert len(cuts(h)) == 1
    assert h.texts()[-1] == "re: go on"
    assert h.broken_promises() == []


@pytest.mark.parametrize(
    ("place", "asked", "made"),
    [
        ("before write compacted", 2, 1),  # CP-24: not written: requested again
        ("torn write compacted", 2, 1),
        ("after sync compacted", 1, 1),  # CP-25: written: never requested again
    ],
)
async def test_cp_24_25_a_crash_costs_at_most_one_summary_call(
    h: Home, place: str, asked: int, made: int
) -> None:
    set_small_limit(h, good)
    h.kill(place)
    async with h.life() as life:
        while not life.was_killed:
            h.fake.say(LONG)
            await life.until(lambda: life.over.is_set() or is_quiet(h))
    before = h.fold()
    async with h.life() as life:
        await life.wait_until_idle()
    assert (len(summaries(h)), len(cuts(h))) == (asked, made)
    if asked == 2:
        assert summaries(h)[0] == summaries(h)[1]
        assert isinstance(before, Session)
        assert len(before.path) > len(h.fold().path)
    assert len(h.texts()) == sum(isinstance(e, Replied) for e in h.entries())
    assert h.broken_promises() == []


def is_quiet(h: Home) -> bool:
    return bool(h.sessions) and h.fold().is_idle and not h.fake.unconfirmed


async def test_two_bad_summaries_fall_back_to_the_main_model(h: Home) -> None:
    def slipping(request: ModelRequest) -> Completion:
        return good(request) if request.model == "m" else answer("They repeat each other.")

    set_small_limit(h, slipping)
    async with h.life() as life:
        while not cuts(h):
            await life.say(LONG)
    assert [request.model for request in summaries(h)] == ["small", "small", "m"]
    assert [entry.why for entry in cuts(h)] == [""]
    assert h.broken_promises() == []
