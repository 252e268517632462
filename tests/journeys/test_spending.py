"""Spending as the owner sees it: /budget, the warning, and the stop."""

from collections.abc import Sequence

import attrs
import msgspec
import pytest
import trio

from elwood.agent.conversation.message import Completion, Usage
from elwood.agent.models.client import ModelFailure, ModelRequest
from elwood.agent.models.messages import Embeddings
from elwood.agent.models.routing import Fault
from elwood.agent.models.settings import Limits
from elwood.features.memory.actor import PAUSE
from elwood.features.memory.messages import Recall
from elwood.foundation.runtime.actor_table import REPEATED
from elwood.foundation.storage.journal import Verified, verify
from tests.hashed_vectors import hashed
from tests.journeys.home import MINE, Home, follow_message
from tests.journeys.test_memory import equip, typed


def answer_expensively(request: ModelRequest) -> Completion:
    """Answer at such a cost that the limits far exceed the reservation for a call."""
    return msgspec.structs.replace(follow_message(request), usage=Usage(20_000, 10_000))


async def test_the_owner_is_warned_once_before_the_limit_applies(h: Home) -> None:
    h.think, h.settings["limits"] = answer_expensively, Limits(day_tokens=45_000)
    for text in ("one", "two"):
        async with h.life() as life:
            await life.say(text)
    async with h.life() as life:
        await life.say("three")
    warnings = [text for text in h.texts() if "of the daily limit of" in text or "used up" in text]
    assert len(warnings) == 2, h.texts()
    assert "daily limit of 45,000 tokens" in warnings[0]
    assert "/budget shows the details" in warnings[0]
    assert warnings[1].startswith("The daily limit of 45,000 tokens is used up. It resets at")
    assert h.broken_promises() == []


async def test_slash_new_resets_the_limit_of_a_conversation(h: Home) -> None:
    h.think, h.settings["limits"] = answer_expensively, Limits(session_tokens=30_000, warn=0)
    async with h.life() as life:
        await life.say("one", "two", "/new", "three")
    async with h.life() as life:
        await life.say("four", "/new", "five", "/budget")
    answers = h.texts()
    assert "Start a new conversation with /new" in answers[1]
    assert answers[3] == "re: three"
    assert "limit of 30,000 tokens for this conversation is used up" in answers[4]
    assert answers[6] == "re: five"
    here, others = answers[7].split("Other conversations")
    assert "30,000 of 30,000 tokens" in here
    assert f"{MINE} (2)" in others
    assert h.broken_promises() == []


def flip_bit(h: Home, line: int) -> bytes:
    """Flip a bit in the middle of a line of the usage journal; return the new content."""
    path = h.state / "usage.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = len(lines[line]) // 2
    lines[line] = lines[line][:at] + bytes([lines[line][at] ^ 1]) + lines[line][at + 1 :]
    path.write_bytes(b"".join(lines))
    return path.read_bytes()


@pytest.mark.parametrize("line", [0, 1])
async def test_limits_apply_after_the_usage_journal_is_damaged(h: Home, line: int) -> None:
    """It is set aside and its valid part still counts; the owner gets one notice."""
    h.think, h.settings["limits"] = answer_expensively, Limits(session_tokens=75_000, warn=0)
    async with h.life() as life:
        await life.say("one", "two", "three")
    damaged = flip_bit(h, line)
    for text in ("four", "five"):
        async with h.life() as life:
            await life.say(text)
    answers = h.texts()
    [told] = [text for text in answers if "usage.jsonl" in text]
    assert "is damaged" in told
    [aside] = h.state.glob("usage.jsonl.damaged-*")
    assert aside.name in told
    assert aside.read_bytes() == damaged
    assert "re: four" in answers
    assert "limit of 75,000 tokens for this conversation is used up" in answers[-1]
    assert isinstance(verify(h.state / "usage.jsonl"), Verified)
    assert h.broken_promises() == []


@pytest.mark.parametrize("place", ["before rename usage.jsonl", "after rename usage.jsonl"])
async def test_limits_survive_a_kill_during_the_repair(h: Home, place: str) -> None:
    h.think, h.settings["limits"] = answer_expensively, Limits(session_tokens=60_000, warn=0)
    async with h.life() as life:
        await life.say("one", "two")
    with (h.state / "usage.jsonl").open("ab") as file:
        file.write(b"{}\n{}\n")
    h.kill(place)
    async with h.life() as life:
        await life.wait_for_kill()
    async with h.life() as life:
        await life.say("three")
    assert "limit of 60,000 tokens for this conversation is used up" in h.texts()[-1]
    assert h.broken_promises() == []


MODEL = "local/bge"


@attrs.define
class Counting:
    """An embedder that may report its token count."""

    tokens: int | None
    asked: list[str] = attrs.field(factory=list)
    model: str = MODEL

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        await trio.lowlevel.checkpoint()
        self.asked += texts
        return Embeddings([hashed(text) for text in texts], self.tokens)


@pytest.mark.parametrize(("counted", "is_guess"), [(40, False), (None, True)])
async def test_embeddings_are_charged_and_shown(
    h: Home, counted: int | None, is_guess: bool
) -> None:
    h.embedder = Counting(counted)
    equip(h)
    async with h.life() as life:
        await life.say(typed("save_memory", key="tea", content="Green tea is liked."))
        await trio.sleep(5.0)
        await life.say("/budget")
    entries = [entry for entry in h.usage_entries() if entry.model == MODEL]
    assert entries
    for entry in entries:
        assert (entry.session, entry.job, entry.estimated) == ("", "", is_guess)
        assert entry.input == (counted or entry.input) > 0
    assert "bge" in h.texts()[-1]


async def test_notes_are_found_by_words_at_the_limit(h: Home) -> None:
    h.embedder = embedder = Counting(40)
    equip(h)
    async with h.life() as life:
        await life.say(typed("save_memory", key="tea", content="Green tea is liked."))
        await trio.sleep(5.0)
    asked = len(embedder.asked)
    assert asked
    h.settings["limits"] = Limits(day_tokens=1)
    async with h.life() as life:
        for _ in range(REPEATED):
            found = await life.address("memory").ask(Recall(query="tea", limit=5))
            assert found[0].key == "tea"
            await trio.sleep(PAUSE + 1)
        stuck = [one.what for one in life.core.table.stuck()]
    assert len(embedder.asked) == asked
    assert any("daily limit of 1 tokens is used up" in what for what in stuck)
    assert any("search notes by words only" in what for what in stuck), stuck


async def test_the_person_is_told_after_three_failures(h: Home) -> None:
    failures = [ModelFailure("scripted", Fault("cut", "in the middle")) for _ in range(3)]

    def think(request: ModelRequest) -> Completion:
        if failures:
            raise failures.pop()
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        await life.say("hello")
    shown = [text for text in h.texts() if text.startswith("⏳ ")]
    assert any("in the middle; trying again" in text for text in shown), h.fake.calls
    assert h.texts()[-1] == "re: hello"
    assert h.broken_promises() == []
