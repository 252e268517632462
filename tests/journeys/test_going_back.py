"""Going back, archive and export in the real app, over restarts and kills."""

import pytest
import trio

from elwood.agent.conversation.message import Human, Message
from elwood.agent.session.settings import SessionSettings
from tests.journeys.home import MINE, Home


def user_messages(h: Home) -> list[str]:
    """Return the user messages of the newest model request."""
    messages: tuple[Message, ...] = tuple(h.asked[-1].messages)
    return [m.text.rsplit("\n", 1)[1].rsplit("] ")[-1] for m in messages if isinstance(m, Human)]


async def test_going_back_and_forth_survives_restarts(h: Home) -> None:
    async with h.life() as life:
        await life.say("one", "two", "/branch Trip", "three", "/undo", "four", "/new")
    async with h.life() as life:
        await life.say("five", "/sessions", "/resume trip", "/retry", "six")

    assert user_messages(h) == ["one", "two", "six"]
    assert "2 Trip: saved" in h.texts()[-4]
    assert not h.broken_promises()


async def test_reset_phrases_begin_a_new_conversation(h: Home) -> None:
    async with h.life() as life:
        for command in ("/archive", "/reset"):
            assert "This is a new conversation." in await life.say("one", command)
        await life.say("two")
        assert user_messages(h) == ["two"]


async def test_a_branch_can_begin_before_the_first_message(h: Home) -> None:
    async with h.life() as life:
        await life.say("one", "two", "three", "/branch 2", "four")
        assert user_messages(h) == ["one", "four"]
        assert h.texts()[-2] == (
            "We continue from before your last 2 messages. The rest is saved: see /sessions."
        )
        await life.say("/branch 9", "/resume 1", "five")
    assert h.texts()[-3] == "This conversation does not have that many messages."
    assert user_messages(h) == ["one", "two", "three", "five"]
    assert not h.broken_promises()


def daily_notes(h: Home) -> str:
    """Return the text of the daily notes."""
    return "".join(path.read_text() for path in (h.folder / "workspace/threads/daily").iterdir())


@pytest.mark.parametrize("pause", [0.0, 10.0])
async def test_retracted_messages_are_not_sent_again(h: Home, pause: float) -> None:
    async with h.life() as life:
        await life.say("apples", "pears", "plums")
        await trio.sleep(pause)
        await life.say("/undo 2")
        await trio.sleep(pause)
    assert "`apples`" in daily_notes(h)
    assert "pears" not in daily_notes(h)
    assert "plums" not in daily_notes(h)
    async with h.life() as life:
        await life.say("/new", "what did I say?", "/retry")

    assert "plums" not in daily_notes(h)
    assert daily_notes(h).count("`what did I say?`") == 1
    sent = str(h.asked[-1].messages)
    assert "apples" in sent
    assert "pears" not in sent
    assert not h.broken_promises()


async def test_an_interrupted_turn_can_be_retracted(h: Home) -> None:
    for place in ("before write resumed", "after write resumed"):
        async with h.life() as life:
            await life.say("apples", "pears")
            h.kill(place)
            h.fake.say("/undo")
            await life.wait_for_kill()
        for _ in range(2):
            async with h.life() as life:
                await life.wait_until_idle()
                await trio.sleep(10)
        assert "`apples`" in daily_notes(h), place
        assert "pears" not in daily_notes(h), place
    assert not h.broken_promises()


async def test_an_idle_conversation_is_archived(h: Home) -> None:
    h.settings["sessions"] = SessionSettings(archive=3600.0)
    async with h.life() as life:
        await life.say("one")
    h.clock_error = -4000.0
    async with h.life() as life:
        await life.say("two", "/resume", "three")

    assert user_messages(h) == ["one", "three"]
    assert [("Our last conversation was idle" in text) for text in h.texts()] == [
        False, True, False, False,
    ]  # fmt: skip


async def test_an_export_is_sent_to_the_chat(h: Home) -> None:
    async with h.life() as life:
        await life.say("hello <b>", "call act x", "/export html")

        ((name, data),) = h.fake.files.values()
        assert name.endswith(".html")
        assert b"hello &lt;b&gt;" in data
        assert "✓ act x".encode() in data
        assert h.texts()[-1] == "Here is the conversation as a file."


async def test_an_interrupted_export_is_repeated_with_a_mark(h: Home) -> None:
    async with h.life() as life:
        await life.say("hello")
        h.kill("before write replied")
        h.fake.say("/export")
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()

    assert len(h.fake.files) == 2
    texts = [m.text for m in h.fake.sent if m.message_id in h.fake.files]
    assert [text.strip() for text in texts] == ["", "(again)"]
    assert not h.broken_promises()


async def test_an_uncertain_export_names_its_path(h: Home) -> None:
    async with h.life() as life:
        await life.say("hello")
        h.fake.fault("sendDocument", "lose")
        await life.say("/export")

        assert h.texts()[-1].startswith("The file may not have arrived here")
        assert f"elwood session export {MINE}" in h.texts()[-1]
