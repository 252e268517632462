"""Slash commands as people type them and press their buttons, in the whole app."""

import re

import pytest
import trio

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Completion, Human, Notice
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Compacted, ModelChosen, Replied
from elwood.agent.session.turn.compaction import INSTRUCTIONS
from elwood.features.memory.messages import Remember
from elwood.features.memory.note import NoteDraft
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from tests.agent.session.scripted import answer
from tests.fake_telegram import OWNER
from tests.journeys.home import EPOCH, MODEL, OTHER, Home, Life, follow_message, newest_message
from tests.journeys.test_memory import thinking, typed
from tests.model_roles import asking

DEAR = "scripted/dear"
# Expected texts of each command in an unused home and in a used one.
SAID = {
    "new": ("This is a new conversation", "This is a new conversation"),
    "stop": ("Nothing is running", "Nothing is running"),
    "status": ("with the model scripted/m", "Today ("),
    "help": ("Write to me as you would to a person", "/help NAME"),
    "undo": ("nothing to take back", "I took back your last message"),
    "retry": ("no message to answer again", "re: replaced tea"),
    "branch": ("no messages to save yet", "Saved as conversation 2"),
    "sessions": ("→ 1: here, no messages yet", "→ 1: here, 3 turns: “one”"),
    "resume": ("There is no other conversation", "There is no other conversation"),
    "compact": ("This conversation is still short", "This conversation is still short"),
    "memory": ("I have no notes yet", "Newest:\n• tea: green"),
    "threads": ("There are no threads", "There are no threads"),
    "search": ("Tell me the words to search for", "/search WORDS"),
    "tasks": ("There are no tasks", "mail: Look for mail"),
    "skills": ("I have no skills yet", "I have no skills yet"),
    "receipts": ("I have not used any tools", "✓ act rent"),
    "budget": ("This month: 0 tokens", "This month:"),
    "export": ("no messages to export yet", "as a file"),
    "approvals": ("No question is waiting for you", "No question is waiting for you"),
    "allow": ("/allow CODE", "/allow CODE"),
    "deny": ("/deny CODE", "/deny CODE"),
    "tools": ("own: act, crash", "act (1)"),
    "model": ("I use scripted/m", "I use scripted/m"),
    "backup": ("There is no backup yet", "There is no backup yet"),
    "settings": ("I have no settings of my own", "I have no settings of my own"),
}


@pytest.fixture
def busy_home(h: Home) -> Home:
    """A home whose model saves notes, summarizes, and follows messages."""
    h.more_tools = ("save_memory",)

    def think(request: ModelRequest) -> Completion:
        if request.prompt.system == INSTRUCTIONS:
            return answer("<summary>They spoke of many words.</summary>")
        saves = newest_message(request).startswith("save_memory")
        return thinking(request) if saves else follow_message(request)

    h.think = think
    return h


async def create_content(life: Life) -> None:
    """Create some content of every kind."""
    await life.say("one", "call act rent", typed("save_memory", key="tea", content="green"))
    task = Task("mail", "Look for mail", Every(3600.0, EPOCH), prompt="Look.")
    await life.address("timetable").ask(PlanTask(task=task))


@pytest.mark.parametrize("is_used", [False, True])
async def test_every_command_of_the_menu_answers(busy_home: Home, is_used: bool) -> None:
    """Answers fit a phone, in an unused home and in a used one."""
    h = busy_home
    async with h.life() as life:
        await life.until(lambda: f"chat {OWNER}" in h.fake.menus)
        menu = h.fake.menus[f"chat {OWNER}"]
        assert SAID.keys() <= menu.keys()
        if is_used:
            await create_content(life)
        # Destructive commands come last.
        last = ("branch", "retry", "undo", "new")
        for name in (*(one for one in menu if one not in last), *last):
            text = await life.say(f"/{name}")
            assert text, name
            assert SAID.get(name, ("", ""))[is_used] in text, (name, text)
            assert len(text) < 2_500, (name, len(text))
            assert menu[name] in await life.say(f"/help {name}")
        assert SAID["help"][0] in await life.say("/start from_a_link")
        assert "Did you mean /model?" in await life.say("/modle")
        tool, status = await life.say("/tool act"), await life.say("/status")
        assert f"Calls in this conversation: {int(is_used)}" in tool
        assert bool(re.search(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d ✓ act rent · #1$", tool)) == is_used
        assert re.search(r"Turns in this chat: \d+; calls: \d+\.", status)
        assert re.search(r"I use \d+\.\d MB of memory\.", status)
        next_task = 'Active tasks: 1. Next: "Look for mail", ' if is_used else "Active tasks: 0."
        assert next_task in status, status
    assert not h.broken_promises()


async def test_a_receipt_opens_by_number_or_button(busy_home: Home) -> None:
    """Only where the owner alone reads; read-only calls have no button."""
    h = busy_home
    async with h.life() as life:
        assert "call act rent" not in await life.say("call look a, look b, act rent")
        answer_ = h.fake.texts(OWNER)[-1]
        assert re.search(r"(?m)^✓ looked at 2 things · \d\d:\d\d #1-2$", answer_), answer_
        assert re.search(r"(?m)^✓ act rent · \d\d:\d\d #3$", answer_), answer_
        data, message = h.fake.button("Receipt 3") or ("", None)
        h.fake.press(data, message=message)
        await life.wait_until_idle()
        assert "3: ✓ act rent" in h.texts()[-1]
        assert 'Arguments:\n{"name": "rent"}' in h.texts()[-1], h.texts()[-1]
        assert "Result:\nacted on rent" in h.texts()[-1]
        assert "1: ✓ look a" in await life.say("/receipts 1")
        await life.say("call look c")
        assert not h.fake.sent[-1].buttons
    assert not h.broken_promises()


async def test_long_lists_have_page_buttons(busy_home: Home) -> None:
    h = busy_home
    async with h.life() as life:
        await life.say("call " + ", ".join(f"act n{number}" for number in range(12)))
        for number in range(8):
            h.fake.say("/new")
            h.fake.say(f"words {number}")
            task = Task(f"t{number}", "Look", Every(3600.0, EPOCH), prompt="Look.")
            await life.address("timetable").ask(PlanTask(task=task))
            note = NoteDraft(f"note-{number}", "green", CLEAN)
            await life.address("memory").ask(Remember(draft=note))
        await life.wait_until_idle()

        for command, newest_, oldest in (
            ("/receipts", "act n11", "act n1"),
            ("/sessions", "→ 9: here", "\n1: closed"),
            ("/tasks", "t0: Look", "t7: Look"),
            ("/memory", "• note-7:", "• note-0:"),
        ):
            first = await life.say(command)
            data, message = h.fake.button("2/2 →") or ("", None)
            h.fake.press(data, message=message)
            await life.wait_until_idle()
            second = h.texts()[-1]
            assert newest_ in first, first
            assert oldest in second, second
            assert newest_ not in second
        # A conversation can be reopened too; a page after the end shows the last page.
        await life.say("/sessions page 99")
        data, message = h.fake.button("/resume 1") or ("", None)
        h.fake.press(data, message=message)
        await life.wait_until_idle()
        assert h.texts()[-1].startswith("Back in conversation 1")
    assert not h.broken_promises()


async def test_another_model_is_used_in_one_conversation_only(busy_home: Home) -> None:
    h = busy_home
    h.made = h.config().replace(asking(MODEL, MODEL, fallbacks=(DEAR,)))
    async with h.life() as life:
        assert DEAR in await life.say("/model")
        data, message = h.fake.button(f"/model {DEAR}") or ("", None)
        h.fake.press(data, message=message)
        await life.wait_until_idle()
        assert h.texts()[-1].startswith(f"From the next answer on, I use {DEAR}")
        for other in ("openai/gpt-5.4", "nonsense"):
            assert f"Which model is {other}?" in await life.say(f"/model {other}")
        life.kill()
    async with h.life() as life:
        await life.say("one")
        assert h.asked[-1].model == "dear"
        assert f"with the model {DEAR}" in await life.say("/status")
        await life.say("hello", chat=OTHER)
        assert h.asked[-1].model == "m"
        await life.say("/model default", "two", "/model dear", "/new", "three")
    assert [request.model for request in h.asked[-2:]] == ["m", "m"]
    chosen = [entry.model for entry in h.entries() if isinstance(entry, ModelChosen)]
    assert chosen == [DEAR, "", DEAR]
    assert not h.broken_promises()


async def test_a_person_can_have_a_conversation_summarized(busy_home: Home) -> None:
    """The running turn is answered before the summary, new messages after it."""
    h = busy_home
    async with h.life() as life:
        await life.say("a " * 2_000, "b " * 2_000)
        h.fake.say("call look last")
        h.fake.say("/compact")
        h.fake.say("after")
        await life.wait_until_idle()
    assert ("look last", "ok") in h.call_outcomes()
    assert any("summarized the older part" in text for text in h.texts())
    order = [e.text[:9] for e in h.entries() if isinstance(e, Replied)]
    assert order[-3:] == ["re: saw l", "I summari", "re: after"]
    messages = h.asked[-1].messages
    assert isinstance(messages[0], Notice)
    assert "They spoke of many words." in messages[0].text
    assert sum(isinstance(one, Human) for one in messages) < 4
    assert sum(isinstance(one, Compacted) for one in h.entries()) == 1
    assert not h.broken_promises()


async def test_a_crash_during_a_summary_loses_nothing(busy_home: Home) -> None:
    """It is made again at the next start, while the chat shows typing."""
    h, obey, slow = busy_home, busy_home.think, trio.Event()

    async def think(request: ModelRequest) -> Completion:
        if request.prompt.system == INSTRUCTIONS and not slow.is_set():
            slow.set()
            await trio.sleep_forever()
        made = obey(request)
        assert isinstance(made, Completion)
        return made

    h.think = think
    async with h.life() as life:
        await life.say("a " * 2_000, "b " * 2_000)
        h.fake.say("/compact")
        await slow.wait()
        seen = len(h.fake.actions)
        await life.until(lambda: len(h.fake.actions) > seen + 1)
        life.kill()
    async with h.life() as life:
        await life.say("three")
    assert sum("summarized the older part" in text for text in h.texts()) == 1
    assert sum(isinstance(one, Compacted) for one in h.entries()) == 1
    assert not h.broken_promises()


async def test_a_failed_summary_keeps_the_whole_conversation(busy_home: Home) -> None:
    h = busy_home
    h.think = lambda request: answer(f"re: {len(request.messages)}")
    async with h.life() as life:
        await life.say("a " * 2_000, "b " * 2_000)
        assert (await life.say("/compact")).startswith("I could not summarize our conversation")
        assert await life.say("three") == "re: 5"
    assert not h.broken_promises()
