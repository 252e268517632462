"""What a person sees during long work, and how they get its outcome."""

from itertools import pairwise

import pytest
import trio

from elwood.agent.conversation.message import Completion, Human, Results
from elwood.agent.models.client import ModelRequest
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.tools.tool import Tool, ToolContext
from elwood.features.telegram.pacing import Pacing
from tests.agent.session.scripted import Named, answer, call, last_message
from tests.fake_telegram import OWNER
from tests.journeys.home import Home


async def work(given: Named, context: ToolContext) -> str:
    await trio.sleep(45)
    return "all pass"


WORK = Tool(
    "work", "Work.", Named, work, risk="read", effect="pure", target=lambda given: given.name
)


def seen(h: Home) -> list[str]:
    """Return the fake's requests, as seen by a person in the chat."""
    shown = []
    for method, given in h.fake.calls:
        if method.startswith(("send", "edit", "delete")):
            shown.append(f"{method} {given.get('text', '')}".removesuffix(" "))
    return shown


def at_work(h: Home) -> None:
    async def think(request: ModelRequest) -> Completion:
        if isinstance(request.messages[-1], Human):
            h.show("Let me run")
            await trio.sleep(1)
            h.show("Let me run the tests now. ")
            await trio.sleep(0.3)
            return call(("c0", "work", '{"name": "make test"}'), text="Let me run the tests now.")
        assert isinstance(last_message(request.messages), Results)
        for words in ("All tests ", "All tests pass. ", "All tests pass. Nothing to mend. "):
            h.show(words)
            await trio.sleep(2)
        return answer("All tests pass. Nothing to mend.")

    h.think, h.more_tools, h.pacing = think, (WORK,), Pacing()


async def test_long_work_is_shown_from_start_to_answer(h: Home) -> None:
    at_work(h)
    async with h.life() as life:
        await life.say("test it")
        await life.until(lambda: h.fake.gone)
    assert {draft for _, draft, _ in h.fake.drafts} == {1000}
    frames = [text for _, _, text in h.fake.drafts]
    assert all(later.startswith(sooner) for sooner, later in pairwise(frames))
    assert frames[-1].startswith("Let me run the tests now.\n\nAll tests pass.")
    assert seen(h)[:4] == [
        "sendChatAction",
        "sendMessageDraft Let me run the tests now.",
        "sendMessage ⏳ work make test · 6 s",
        "sendMessageDraft Let me run the tests now.",
    ]
    assert "editMessageText ⏳ work make test · 42 s" in seen(h)
    line, reply = h.fake.sent
    assert line.params["disable_notification"]
    assert reply.text.startswith("All tests pass. Nothing to mend.")
    assert h.fake.gone == {line.message_id}
    assert not h.broken_promises()


@pytest.mark.parametrize("end", ["stop", "button"])
async def test_the_status_line_is_deleted_with_the_work(h: Home, end: str) -> None:
    """Regardless of how the person ends it."""
    at_work(h)
    async with h.life() as life:
        h.fake.say("test it")
        await life.until(lambda: h.fake.sent)
        await trio.sleep(1)
        if end == "stop":
            await life.say("/stop")
        else:
            chat = {"id": OWNER, "type": "private"}
            h.fake.push({"stopped_message_generation": {"chat": chat, "draft_id": 1000}})
            await life.wait_until_idle()
    assert [text.partition(".")[0] for text in h.texts() if "⏳" not in text] == ["Stopped"]
    assert h.fake.gone == {one.message_id for one in h.fake.sent if "⏳" in one.text}
    assert not h.broken_promises()


async def test_typing_stops_while_a_question_waits(h: Home) -> None:
    h.settings["policy"] = PolicySettings()
    async with h.life() as life:
        h.fake.say("call act boldly")
        await life.until(lambda: any(message.buttons for message in h.fake.sent))
        await trio.sleep(3)
        before = len(h.fake.actions)
        await trio.sleep(20)
        assert len(h.fake.actions) == before
        await life.say("/stop")


async def test_a_long_answer_is_sent_as_a_file(h: Home) -> None:
    long = "\n\n".join(f"Paragraph {number}. " + "word " * 99 + "end." for number in range(60))
    h.think = lambda request: answer(long)
    async with h.life() as life:
        await life.say("tell me all")
    beginning, file = h.fake.sent
    assert beginning.text.startswith("Paragraph 0.")
    assert beginning.text.endswith("The whole answer is in the file below.")
    assert h.fake.files[file.message_id] == ("answer.txt", long.encode())
    assert h.names().count("posted") == 2


async def test_telegram_renders_an_answer_if_allowed(h: Home) -> None:
    h.markdown = True
    async with h.life() as life:
        await life.say("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |", "![x](https://evil.example/)")
    table, picture = h.fake.sent
    assert table.params["rich_message"]["markdown"].startswith("re: # Title")
    assert "rich_message" not in picture.params
