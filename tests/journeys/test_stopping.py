"""Messages during work: stops, waiting messages, side questions, and edits."""

from typing import Any

import pytest
import trio

from elwood.agent.conversation.message import Assistant, Completion, Notice
from elwood.agent.conversation.settings import Owner
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Received
from tests.fake_telegram import OWNER
from tests.journeys.home import MINE, Home, Life, follow_message


def edit(h: Home, message: Any, text: str, at: int = 5) -> int:
    """Edit a message *at* seconds after it was written."""
    edited = message | {"text": text, "edit_date": message["date"] + at}
    return h.fake.push({"edited_message": edited})


async def test_an_edit_without_a_change_has_no_effect(h: Home) -> None:
    """Telegram reports such an edit when it has added a link preview."""
    async with h.life() as life:
        message = h.fake.message("read https://example.org")
        h.fake.push({"message": message})
        await life.wait_until_idle()
        edit(h, message, "read https://example.org")
        await life.wait_until_idle()
    async with h.life() as life:
        edit(h, message, "read https://example.org")
        await life.wait_until_idle()
        edit(h, message, "read https://example.com", at=9)
        await life.wait_until_idle()
        edit(h, message, "read https://example.org", at=7)  # it arrives late, and twice
        await life.wait_until_idle()

    assert len(h.asked) == len(h.usage_entries()) == 2
    assert [text.splitlines()[0] for text in h.texts()] == [
        "re: read https://example.org",
        "re: [edited] read https://example.com",
    ]
    assert sum(isinstance(entry, Received) for entry in h.entries()) == 2
    assert h.broken_promises() == []


async def begin_turn(h: Home, life: Life, *more: str) -> None:
    """Start a turn that hangs, and send *more* after it."""
    h.effects.hang = trio.Event()
    h.fake.say("call hang")
    await h.effects.hang.wait()
    for text in more:
        h.fake.say(text)
        await life.until(lambda: not h.fake.unconfirmed)


async def press(h: Home, life: Life, words: str) -> None:
    found = h.fake.button(words)
    assert found is not None
    for _ in range(2):  # two presses act once
        h.fake.press(found[0], message=found[1])
    await life.wait_until_idle()


async def test_stop_offers_to_answer_waiting_messages(h: Home) -> None:
    async with h.life() as life:
        await begin_turn(h, life, "and the weather?", "/stop")
        await life.wait_until_idle()
        stopped = h.texts()[-1]
        assert stopped.startswith("Stopped. I was still running “hang”.")
        assert "Not answered yet: “and the weather?”." in stopped
        assert len(h.asked) == 1
    async with h.life() as life:
        await press(h, life, "Answer it now")
        assert h.texts()[-1] == "re: and the weather?"
        assert len(h.asked) == 2
        await life.say("/answer t7")
        assert h.texts()[-1] == "I no longer have that message. Please write it again."
    assert h.broken_promises() == []


@pytest.mark.parametrize(
    "place",
    ["after sync received", "before write replied", "after sync replied", "before write posted"],
)
async def test_each_message_has_one_outcome_after_a_kill_near_a_stop(h: Home, place: str) -> None:
    async with h.life() as life:
        await begin_turn(h, life, "and the weather?")
        h.kill(place)
        h.fake.say("/stop")
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
        await press(h, life, "Answer it now")
    assert h.texts()[-1] == "re: and the weather?"
    assert h.broken_promises() == []


async def test_a_message_during_a_turn_is_marked_as_seen(h: Home) -> None:
    async with h.life() as life:
        await begin_turn(h, life, "and this?", "/status")
        await life.until(lambda: h.fake.reactions)
        h.fake.fault("setMessageReaction", code=429, parameters={"retry_after": 30})
        for text in ("and that?", "and those?"):
            h.fake.say(text)
            await life.until(lambda: not h.fake.unconfirmed)
        await trio.sleep(5)
        h.fake.say("/stop")
        await life.wait_until_idle()
        await life.say("alone")
    assert h.fake.reactions == {(OWNER, 2): "👀"}
    assert h.fake.counts["setMessageReaction error"] == 1  # no further attempt before its end


async def test_the_stop_button_reports_the_stopped_work(h: Home) -> None:
    async with h.life() as life:
        await begin_turn(h, life, "and this?")
        h.kill("after sync received")
        pressed = {"chat": {"id": OWNER, "type": "private"}, "draft_id": 1}
        h.fake.push({"stopped_message_generation": pressed})
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
    [stopped] = h.texts()
    assert stopped.startswith("Stopped. I was still running “hang”.")
    assert "“and this?”" in stopped
    assert h.broken_promises() == []


@pytest.mark.parametrize("stop", ["/stop", "native"])
async def test_a_stop_keeps_the_text_that_was_shown(h: Home, stop: str) -> None:
    begun = trio.Event()

    async def think(request: ModelRequest) -> Completion:
        if len(h.asked) > 1:
            return follow_message(request)
        for text in ("", "Mix 250 g of", "Mix 250 g of flour:\n```\nsift hun"):
            h.show(text)
            await trio.sleep(1)
        begun.set()
        await trio.sleep_forever()
        raise AssertionError

    h.think = think
    async with h.life() as life:
        h.fake.say("how do I bake bread?")
        await begun.wait()
        h.fake.say("and for cake?")
        await life.until(lambda: not h.fake.unconfirmed)
        if stop == "native":
            pressed = {"chat": {"id": OWNER, "type": "private"}, "draft_id": 1}
            h.fake.push({"stopped_message_generation": pressed})
        else:
            h.fake.say(stop)
        await life.wait_until_idle()
        end = "Stopped. I was still writing the answer."
        shown = "Mix 250 g of flour:\n```\nsift"  # the last word may become a secret
        assert h.fake.drafts[-1][2].strip() == shown
        assert h.texts() == [
            f"Mix 250 g of flour:\nsift\n\n{end}\nNot answered yet: “and for cake?”."
        ]
        assert h.fake.button("Answer it now")
        await life.say("go on")
    [said] = [one for one in h.asked[-1].messages if isinstance(one, Assistant)]
    assert said.text == f"{shown}\n\n[My answer ends here. {end}]"
    assert h.broken_promises() == []


async def test_a_kill_leaves_no_status_message(h: Home) -> None:
    async with h.life() as life:
        await begin_turn(h, life)
        await life.until(lambda: h.texts())
        assert h.texts()[0].startswith("⏳ hang · ")
        life.kill()
    async with h.life() as life:
        await life.until(lambda: h.fake.gone == {h.fake.sent[0].message_id})
        await life.wait_until_idle()
        assert not [*(h.state / "telegram").iterdir()]
    assert h.broken_promises() == []


async def test_the_word_stop_stops_only_running_work(h: Home) -> None:
    h.settings["owner"] = Owner(languages=("en", "de"))
    async with h.life() as life:
        assert await life.say("Stop!") == "re: Stop!"
        for word in ("Wait …", "HÖR AUF 🛑"):
            await begin_turn(h, life, "don't stop", "stand", word)
            await life.wait_until_idle()
            stopped = h.texts()[-1]
            assert stopped.startswith("Stopped. I was still running “hang”.")
            assert "“don't stop”, “stand”" in stopped
        # Text that the person did not write is data.
        await begin_turn(h, life)
        passed_on = {"type": "hidden_user", "sender_user_name": "Eve"}
        h.fake.say("stop", forward_origin=passed_on)
        asked = h.fake.show("Stop or wait?", reply_markup=choices("wait"))
        h.fake.press("q:0", message=asked)
        await life.until(lambda: not h.fake.unconfirmed)
        await trio.sleep(5)
        turn = h.fold().turn
        assert turn is not None
        assert len(h.fold().waiting) == 2
        h.fake.say("/stop")
        await life.wait_until_idle()
    assert h.broken_promises() == []


def choices(*labels: str) -> dict[str, Any]:
    keys = [{"text": label, "callback_data": f"q:{n}"} for n, label in enumerate(labels)]
    return {"inline_keyboard": [keys]}


def is_aside(request: ModelRequest) -> bool:
    return any(isinstance(m, Notice) and "side question" in m.text for m in request.messages)


async def test_a_side_question_is_answered_and_not_stored(h: Home) -> None:
    async with h.life() as life:
        await begin_turn(h, life)
        before = len(h.usage_entries())
        h.fake.say("/btw how far are you?")
        await life.until(lambda: h.texts())
        assert h.texts() == ["“how far are you?”\n\nre: how far are you?"]
        aside = h.asked[-1]
        assert is_aside(aside)
        assert "as interrupted: hang" in str(aside.messages)
        turn = h.fold().turn
        assert turn is not None
        assert turn.calls
        assert len(h.usage_entries()) == before + 1
        assert h.usage_entries()[-1].session == MINE
        h.fake.say("/btw call hang")  # no tool runs for it
        await life.until(lambda: len(h.texts()) == 2)
        assert h.texts()[-1].endswith("I cannot answer that without my tools.")
        h.fake.say("/stop")
        await life.wait_until_idle()
        await life.say("hello")
        assert "how far" not in str(h.asked[-1].messages)
        await life.say("/btw")
        assert h.texts()[-1] == "Write your question after the command: /btw how far are you?"
    assert h.broken_promises() == []


async def test_only_one_side_question_runs_and_stop_ends_it(h: Home) -> None:
    async def silent(request: ModelRequest) -> Completion:
        await trio.sleep_forever()
        raise AssertionError

    async with h.life() as life:
        await life.say("hello")
        h.think = silent
        h.fake.say("/btw one")
        await life.until(lambda: len(h.asked) == 2)
        h.fake.say("/btw two")
        await life.until(lambda: len(h.texts()) == 2)
        assert "still answering your last side question" in h.texts()[-1]
        h.fake.say("stop")
        await life.wait_until_idle(seconds=60)
        assert "Nothing else is running." in h.texts()
        assert "“one”\n\nI have no answer to that: it took too long or was stopped." in h.texts()
        h.fake.say("/btw three")
        await life.wait_until_idle()
        assert h.texts()[-1].startswith("“three”\n\nI cannot answer that now: ")
    assert h.broken_promises() == []


@pytest.mark.parametrize("place", ["after sync received", "before write replied", "asked"])
async def test_a_side_question_is_repeated_after_a_kill(h: Home, place: str) -> None:
    def think(request: ModelRequest) -> Completion:
        if place == "asked" and is_aside(request) and len(h.asked) == 2:
            h.disk.die()
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        await begin_turn(h, life)
        h.kill(place)
        h.fake.say("/btw what is it?")
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
        assert "“what is it?”\n\nre: what is it?" in h.texts()
        assert sum(map(is_aside, h.asked)) == (1 if place == "after sync received" else 2)
    assert h.broken_promises() == []
