"""What is to be done later, from the words on Telegram to what comes of them."""

import json
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.reading.receipts import HEAD, NOTHING
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import Home, Life, home, newest

TOOLS = ("schedule", "list_tasks", "cancel_task")
MUM = {"title": "call mum", "in_minutes": 1, "remind": "Call mum!"}
STRANGER = 31_337
PROMISE = "I'll remind you in a minute."


def planner(h: Home, *calls: tuple[str, str, str]) -> None:
    """Let the model make *calls* when it is told to plan, and promise it in any case."""

    async def think(request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        return call(*calls) if calls and newest(request) == "plan" else answer(PROMISE)

    h.more_tools, h.think = TOOLS, think


async def press(h: Home, life: Life, words: str, *, user: int = OWNER) -> None:
    """Press the button that shows *words* below the newest message that has it."""
    for message in reversed(h.fake.sent):
        markup = message.params.get("reply_markup") or {"inline_keyboard": []}
        for key in (key for row in markup["inline_keyboard"] for key in row):
            if key["text"] == words:
                h.fake.press(key["callback_data"], user=user, message=message)
                await life.settled()
                return
    pytest.fail(f"no button says {words}")


async def test_a_reminder_is_planned_told_from_the_records_and_comes(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        planner(h, ("c1", "schedule", json.dumps(MUM)))
        async with h.life() as life:
            h.fake.say("plan")
            await life.settled()
            [told] = h.texts()
            assert told.startswith(PROMISE)
            assert NOTHING not in told
            assert "✓ scheduled: call mum, today, " in told
            asked = len(h.asked)
        # The reminder is still planned after a restart, and no model has a part in it.
        async with h.life() as life:
            await life.until(lambda: len(h.texts()) > 1)
            await life.settled()
    assert h.texts()[1:] == ["⏰ Call mum!"]
    assert len(h.asked) == asked


async def test_what_was_never_planned_is_marked(tmp_path: Path, mock_clock: MockClock) -> None:
    async with home(tmp_path, mock_clock) as h:
        planner(h)
        async with h.life() as life:
            h.fake.say("plan")
            await life.settled()
    assert h.texts() == [f"{PROMISE}\n\n{HEAD}\n{NOTHING}"]


async def test_the_owner_pauses_and_resumes_by_buttons(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with home(tmp_path, mock_clock) as h:
        planner(h, ("c1", "schedule", json.dumps(MUM)))
        async with h.life() as life:
            h.fake.say("plan")
            await life.settled()
            h.fake.say("/tasks")
            await life.settled()
            assert h.texts()[-1].startswith("call-mum: call mum\n")
            await press(h, life, "/tasks pause call-mum")
            assert h.texts()[-1] == "call-mum: Paused."
            await press(h, life, "/tasks resume call-mum")
            assert h.texts()[-1] == "call-mum: It goes on."
            await press(h, life, "/tasks pause call-mum")
            await trio.sleep(130)
            assert "⏰ Call mum!" not in h.texts()
            await press(h, life, "/tasks resume call-mum")
            await life.settled()
            said, reminded = sorted(h.texts()[-2:])
            assert said == "call-mum: Its last time has passed: it runs now."
            assert reminded.startswith("⏰ Call mum!")


async def test_only_the_owner_presses(tmp_path: Path, mock_clock: MockClock) -> None:
    async with home(tmp_path, mock_clock) as h:
        planner(h, ("c1", "schedule", json.dumps(MUM)))
        async with h.life() as life:
            h.fake.say("plan")
            await life.settled()
            h.fake.say("/tasks")
            await life.settled()
            told = len(h.texts())
            await press(h, life, "/tasks pause call-mum", user=STRANGER)
            await trio.sleep(130)
            await life.settled()
    assert h.texts()[-1] == "⏰ Call mum!"
    assert [text for text in h.texts()[told:] if "Paused" in text] == []
