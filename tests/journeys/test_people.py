"""People: admission, changes by the owner, and requests of removed people."""

from argparse import Namespace
from collections.abc import Awaitable

import pytest
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Replied
from elwood.agent.session.reading.cli import show
from tests.fake_telegram import OWNER
from tests.journeys.home import Home, Life, follow_message, newest_message
from tests.journeys.test_approval_journeys import (
    LATE,
    questions,
    require_approval,
    wait_for_question,
)
from tests.journeys.test_groups import BO, GROUP, admit, say

THEIRS = f"tg-{BO}"
# The request that the model thinks about forever.
LONG = ("think long", "and then?")


def button_labels(h: Home, chat: int = OWNER) -> dict[str, str]:
    """Return the labels and data of the buttons below the newest message."""
    newest = [message for message in h.fake.sent if message.chat == chat][-1]
    rows = newest.params.get("reply_markup", {}).get("inline_keyboard", [])
    return {button["text"]: button["callback_data"] for row in rows for button in row}


async def press_button(h: Home, life: Life, label: str) -> str:
    """Let the owner press the button with that label; return the new texts."""
    newest = [message for message in h.fake.sent if message.chat == OWNER][-1]
    before = len(h.texts())
    h.fake.press(button_labels(h)[label], message=newest)
    await life.until(lambda: len(h.texts()) > before)
    return h.texts()[-1]


async def type_message(h: Home, life: Life, text: str) -> str:
    """Let the owner type a message; return the new texts, while others are busy."""
    before = len(h.texts())
    h.fake.say(text)
    await life.until(lambda: len(h.texts()) > before)
    return h.texts()[-1]


async def keep_busy(h: Home, life: Life) -> None:
    """Admit Bo, let a call of theirs need approval, and let them write more."""

    def think(request: ModelRequest) -> Completion | Awaitable[Completion]:
        return forever() if newest_message(request) in LONG else follow_message(request)

    h.think = think
    await admit(h, life, BO)
    h.fake.say("call act boldly", chat=BO, user=BO)
    await wait_for_question(h, life)
    await trio.sleep(LATE)
    h.fake.say("think long", chat=BO, user=BO)
    await life.until(lambda: newest_message(h.asked[-1]) == "think long")
    h.fake.say("and then?", chat=BO, user=BO)
    await life.until(lambda: newest_message(h.asked[-1]) == "and then?")


async def forever() -> Completion:
    await trio.sleep_forever()
    raise AssertionError("unreachable")


def dropped_calls(h: Home) -> list[Replied]:
    return [e for e in h.entries(THEIRS) if isinstance(e, Replied) and e.text.startswith("Dropped")]


async def test_a_removed_person_is_a_stranger_again(
    h: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    require_approval(h)
    async with h.life() as life:
        await keep_busy(h, life)
        told = len(h.texts(BO))
        assert (await type_message(h, life, "/people")).endswith(
            f"• Ann (tg:{BO}): member, since 2026-05-28"
        )
        assert (
            await press_button(h, life, f"Ann (tg:{BO})")
            == f"Ann (tg:{BO}): member, since 2026-05-28"
        )
        assert await press_button(h, life, "Make Ann a guest") == f"Ann (tg:{BO}) is a guest now."
        await type_message(h, life, f"/people tg:{BO}")
        assert list(button_labels(h)) == ["Make Ann a member", "Remove Ann"]
        assert (await press_button(h, life, "Remove Ann")).startswith(
            f"Really remove Ann (tg:{BO})?"
        )
        assert h.fold(THEIRS).turn is not None, "nothing has happened yet"
        assert await press_button(h, life, "Yes, remove Ann") == (
            f"Ann (tg:{BO}) can no longer talk to me. I took back 1 of my questions."
        )
        await life.wait_until_idle()
        [reply] = dropped_calls(h)
        assert (len(reply.inputs), reply.quiet) == (2, True)
        assert questions(h)[0].buttons == []
        assert h.effects.done == []
        assert len(h.texts(BO)) == told
        assert await type_message(h, life, "/people") == "Only you may talk to me."
        h.fake.say("hello?", chat=BO, user=BO)
        await life.until(lambda: len(h.texts(BO)) > told)
        assert h.texts(BO)[-1].startswith("I do not know you yet.")
    assert not h.broken_promises()
    for turn in (None, 2):
        show(h.config(), Namespace(session=THEIRS, turn=turn, json=False))
    seen = capsys.readouterr().out
    assert seen.count("failed") == 1
    assert seen.count("Dropped: the person who asked for it no longer has access.") == 1


@pytest.mark.parametrize(
    ("place", "file"),
    [
        ("before write left", "approvals.jsonl"),
        ("after sync left", "approvals.jsonl"),
        ("before write replied", f"{THEIRS}.jsonl"),
        ("after sync replied", f"{THEIRS}.jsonl"),
    ],
)
async def test_requests_of_a_removed_person_have_one_outcome_after_a_kill(
    place: str, file: str, h: Home
) -> None:
    require_approval(h)
    async with h.life() as life:
        await keep_busy(h, life)
        told = len(h.texts(BO))
        h.kill(place, file=file)
        h.fake.say(f"/people remove tg:{BO} yes")
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle(1200)
        assert sum(len(reply.inputs) for reply in dropped_calls(h)) == 2
        assert len(h.texts(BO)) == told
        assert h.effects.done == []
    assert not h.broken_promises()


async def test_a_removed_person_is_an_ordinary_group_member(h: Home) -> None:
    h.groups = (GROUP,)
    async with h.life() as life:
        await admit(h, life, BO)
        await life.say(f"/people remove tg:{BO} yes")
        say(h, "hello", BO)
        await life.wait_until_idle()
        assert len(h.texts(GROUP)) == 1
        await trio.sleep(1)
    assert not h.broken_promises()
