"""Learning in the whole app: a repeated fact becomes a note if the owner agrees."""

import json
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.settings import SessionSettings
from elwood.features.memory.learning import PROMPT
from elwood.features.memory.note import parse
from elwood.features.memory.settings import LearningSettings
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import SentMessage
from tests.features.memory.store_alone import holding
from tests.journeys.home import Home, newest_message
from tests.journeys.test_memory import equip, thinking, typed

QUIET = LearningSettings().quiet + 30
STRANGER = {"type": "hidden_user", "sender_user_name": "Eve", "date": 1}
BIRTHDAY = "The sister's birthday is 4 May, zanzibar."


class Watching:
    """Answers people as `thinking` does, and the observer with *facts* or with the text *raw*."""

    def __init__(self, h: Home, **settings: object) -> None:
        self.facts: list[tuple[str, str]] = []
        self.raw = ""
        self.passes: list[ModelRequest] = []
        equip(h)
        h.think = self.think
        h.settings["learning"] = LearningSettings(**settings)  # type: ignore[arg-type]
        h.settings["sessions"] = SessionSettings(archive=30 * 86_400.0)

    def think(self, request: ModelRequest) -> Completion:
        if request.prompt.system != PROMPT.system:
            name, _, given = newest_message(request).partition(" ")
            if name == "ask_user" and isinstance(request.messages[-1], Human):
                return call(("c1", name, given))
            return thinking(request)
        self.passes.append(request)
        facts = [{"kind": "fact", "key": key, "text": text} for key, text in self.facts]
        return answer(self.raw or json.dumps({"facts": facts}))

    def sees(self, key: str, text: str) -> None:
        self.facts = [(key, text)]


async def spend_day(h: Home, *texts: str) -> None:
    """Send a message, be idle, and continue on another day in another process."""
    async with h.life() as life:
        await life.say(*texts)
        await trio.sleep(QUIET)
    await trio.sleep(86_400)


def questions(h: Home) -> list[SentMessage]:
    return [sent for sent in h.fake.sent if sent.buttons and "/receipts" not in sent.buttons[0]]


def notes(h: Home) -> dict[str, str]:
    """Return the saved notes, without pending ones."""
    found = [parse(path.stem, path.read_text()) for path in (h.state / "memory").glob("*.md")]
    return {note.key: note.text for note in found if note.status == "active"}


def pending_facts(h: Home) -> list[Path]:
    return [*(h.state / "memory").glob("seen-*.md")]


async def test_a_suggestion_is_asked_once_and_saved_by_a_press(h: Home) -> None:
    Watching(h).sees("sister-birthday", BIRTHDAY)
    for day in range(4):
        await spend_day(h, f"({day}) My sister has her birthday on 4 May!")
    assert not notes(h)
    [question] = questions(h)
    assert BIRTHDAY in question.text
    async with h.life() as life:
        assert "zanzibar" in await life.say("/memory pending")
        # A fact that was only observed is no note; the daily notes mention the message.
        found = await life.say("/memory search birthday")
        assert all(part.startswith("threads/daily/") for part in found.split("\n\n"))
        assert "sister-birthday" not in found
        keep, _ = question.buttons
        assert h.fake.button("Remember it") == (keep, question)
        h.fake.press(keep, message=question)
        await life.until(lambda: notes(h) == {"sister-birthday": BIRTHDAY})
        await life.wait_until_idle()
        assert not pending_facts(h)
        assert "label: trusted" in (h.state / "memory" / "sister-birthday.md").read_text()
        assert await life.say("/memory undo") == "Removed: sister-birthday."
        assert not notes(h)
    assert not h.broken_promises()


async def test_forgotten_facts_are_not_learned_again_under_any_name(h: Home) -> None:
    watching = Watching(h, mode="auto", threshold=2)
    watching.sees("party", BIRTHDAY)
    save = typed("save_memory", key="sister-birthday", content=BIRTHDAY)
    await spend_day(h, save)
    assert len(pending_facts(h)) == 1
    watching.facts = []
    async with h.life() as life:
        h.fake.say(typed("forget_memory", keys=["sister-birthday"]))
        await life.until(lambda: questions(h))
        [question] = questions(h)
        h.fake.press(question.button("o"), message=question)
        await life.until(lambda: ("forget_memory sister-birthday", "ok") in h.call_outcomes())
        await life.wait_until_idle()
        # Its observations are gone too; the message is only in the log.
        await trio.sleep(3.0)
        assert all(name.startswith("sessions/") for name in holding(h.state, "zanzibar"))
        assert holding(h.folder / "workspace", "zanzibar") == []
    for key, text in (("party", BIRTHDAY), ("sister-birthday", "On 4 May, she says.")):
        watching.sees(key, text)
        await spend_day(h, f"The 4th of May, says {key}!")
    assert len(watching.passes) == 3
    assert not notes(h)
    assert not pending_facts(h)


async def test_untrusted_facts_wait_for_the_owner(h: Home) -> None:
    watching = Watching(h, mode="auto", threshold=2)
    watching.sees("bank", "The bank account is 4711.")
    for day in range(2):
        async with h.life() as life:
            await life.say(f"My account is 4711 ({day})", forward_origin=STRANGER)
            await trio.sleep(QUIET)
        await trio.sleep(86_400)
    assert not notes(h)
    assert not questions(h)
    assert len(pending_facts(h)) == 2
    watching.facts = []
    before = len(h.asked)
    await spend_day(h, "/memory pending", "/new", "What is my bank account?")
    assert any("may contain strangers' words" in text for text in h.texts())
    assert len(h.asked) > before
    assert "4711" not in repr(h.asked[before:])


async def test_only_the_owner_lists_and_decides_pending_facts(h: Home) -> None:
    Watching(h).sees("tea", "Likes tea.")
    await spend_day(h, "I like tea")
    async with h.life() as life:
        assert "Likes tea" not in await life.say("/memory pending", forward_origin=STRANGER)


async def test_an_answer_to_the_model_is_not_a_command(h: Home) -> None:
    """Otherwise a model steered by strangers could make the owner confirm a fact."""
    Watching(h).sees("tea", "Likes tea.")
    await spend_day(h, "I like tea")
    async with h.life() as life:
        code = (await life.say("/memory pending")).split(":")[0]
        option = json.dumps([f"/memory keep {code}", "no"])
        h.fake.say(f'ask_user {{"question": "Weather?", "options": {option}}}')
        await life.until(lambda: questions(h))
        await life.wait_until_idle()
        [question] = questions(h)
        h.fake.press(question.buttons[0], message=question)
        await life.until(lambda: "replying to: Weather?" in h.texts()[-1])
        assert not notes(h)


@pytest.mark.parametrize("mode", ["suggest", "auto"])
async def test_retracted_messages_remove_their_facts(h: Home, mode: str) -> None:
    watching = Watching(h, mode=mode, threshold=1)
    async with h.life() as life:
        watching.sees("tea", "They like green tea, zanzibar.")
        await life.say("I like green tea")
        await trio.sleep(QUIET)
        watching.sees("sister-birthday", BIRTHDAY)
        await life.say("her birthday is 4 May")
        await trio.sleep(QUIET)
        found = [*(h.state / "memory").glob("*.md")]
        assert len(found) == 2

        await life.say("/undo")

        [left] = (h.state / "memory").glob("*.md")
        assert "green tea" in left.read_text()
        assert "4 May" not in await life.say("/memory pending")
        # If the message is repeated, it can be learned again.
        await life.say("her birthday is 4 May, really")
        await trio.sleep(QUIET)
        assert len([*(h.state / "memory").glob("*.md")]) == 2


async def test_a_correction_is_applied_and_a_button_takes_it_back(h: Home) -> None:
    fact = {"kind": "correction", "key": "party", "text": "The party is on the 5th."}
    watching = Watching(h)
    async with h.life() as life:
        await life.say(typed("save_memory", key="party", content="The party is on the 4th."))
        watching.raw = json.dumps({"facts": [fact]})
        await life.say("no, it is the 5th")
        await trio.sleep(QUIET)
        await life.wait_until_idle()
        assert notes(h) == {"party": fact["text"]}
        told = h.fake.sent[-1]
        assert told.text == (
            "You said: “The party is on the 5th.”\n"
            "I corrected my note. It said: “The party is on the 4th.”"
        )
        [undo] = told.buttons
        watching.raw = ""
        await life.say(typed("save_memory", key="tea", content="Green"))  # newer: it stays
        h.fake.press(undo, message=told)
        await life.until(lambda: notes(h)["party"] == "The party is on the 4th.")
        await life.wait_until_idle()
        assert notes(h).keys() == {"party", "tea"}
        assert h.texts()[-1] == "Restored: party."
