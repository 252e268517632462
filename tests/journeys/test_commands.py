"""Slash commands as people type them and press their buttons, in the whole app."""

import re

import pytest
import trio

from elwood.agent.conversation.message import Completion, Human, Notice
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.settings import ModelSettings
from elwood.agent.session.commands.slash import COMMANDS, EVERYDAY, GROUPS
from elwood.agent.session.log.entries import Compacted, ModelChosen, Replied
from elwood.agent.session.turn.compaction import INSTRUCTIONS
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from tests.agent.session.scripted import answer
from tests.fake_telegram import OWNER
from tests.journeys.home import EPOCH, MODEL, OTHER, Home, Life, newest, obedient
from tests.journeys.test_memory import typed

DEAR = "scripted/dear"
# What each says in a house where nothing has happened, and in one that was used.
SAID = {
    "new": ("A new conversation", "A new conversation"),
    "stop": ("Nothing is running", "Nothing is running"),
    "status": ("thinking with scripted/m", "Today:"),
    "help": ("Write to me as you would to a person", "/help NAME"),
    "undo": ("nothing to take back", "I have taken this back"),
    "retry": ("nothing to try again", "re: one"),
    "branch": ("Nothing was said here yet", "Kept as 2"),
    "sessions": ("→ 1: here, no words yet", "→ 1: here, 3 turns: “one”"),
    "resume": ("no conversation to go back to", "no conversation to go back to"),
    "compact": ("It is short", "It is short"),
    "memory": ("I remember 0 notes", "Newest:\n- tea: green"),
    "tasks": ("There are no tasks", "mail: Look for mail"),
    "skills": ("There are no skills", "There are no skills"),
    "receipts": ("No tool was called", "✓ act rent"),
    "budget": ("This month: 0 tokens", "This month:"),
    "export": ("Nothing was said here yet", "as a file"),
    "approvals": ("Nothing waits for a decision", "Nothing waits for a decision"),
    "allow": ("/allow CODE", "/allow CODE"),
    "deny": ("/deny CODE", "/deny CODE"),
    "trust": ("/trust example.org", "/trust example.org"),
    "tools": ("own: act, crash", "act 1 times"),
    "mcp": ("I have no MCP servers", "I have no MCP servers"),
    "model": ("I think with scripted/m", "I think with scripted/m"),
    "backup": ("There is no backup yet", "There is no backup yet"),
}


async def used(h: Home, life: Life) -> None:
    """Let something of everything have happened."""
    await life.say("one", "call act rent", typed("save_memory", key="tea", content="green"))
    task = Task("mail", "Look for mail", Every(3600.0, EPOCH), prompt="Look.")
    await life.address("timetable").ask(PlanTask(task=task))


@pytest.mark.parametrize("is_used", [False, True])
async def test_every_command_of_the_menu_answers(h: Home, is_used: bool) -> None:
    h.more_tools = ("save_memory",)
    h.think = lambda request: (
        obedient(request) if "save_memory" not in newest(request) else saving(request)
    )
    async with h.life() as life:
        await life.until(lambda: f"chat {OWNER}" in h.fake.menus)
        menu = h.fake.menus[f"chat {OWNER}"]
        if is_used:
            await used(h, life)
        # Those that take something away come last, and before a question of who is left.
        last = ("branch", "retry", "undo", "new")
        for name in (*(one for one in menu if one not in last), *last):
            text = await life.say(f"/{name}")
            if name == "export" and is_used:
                text = h.texts()[-1]
            assert SAID.get(name, ("", ""))[is_used] in text, (name, text)
            assert text, name
            assert "I do not know" not in text, name
            assert len(text) < 2_500, (name, len(text))
    assert not h.broken()


def saving(request: ModelRequest) -> Completion:
    from tests.journeys.test_memory import thinking

    return thinking(request)
