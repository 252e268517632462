"""A conversation in which tools speak, remember and ask, in the whole app."""

import msgspec
import pytest
import trio

from elwood.agent.conversation.message import Completion, Human, Notice
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Received
from elwood.foundation.settings import Paths
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import Home, newest
from tests.journeys.test_memory import equip

CALLS = {
    "send": ("send_message", {"text": "here it is", "files": ["a.txt"]}),
    "ask": ("ask_user", {"question": "Tea?", "options": ["yes", "no"]}),
    "save": ("save_memory", {"key": "tea", "content": "likes tea"}),
    "find": ("search_memory", {"query": "Tea"}),
}


async def thinking(request: ModelRequest) -> Completion:
    """Do what was said if it is one of `CALLS`, and repeat everything else."""
    await trio.lowlevel.checkpoint()
    text = newest(request)
    if isinstance(request.messages[-1], Human) and text in CALLS:
        name, given = CALLS[text]
        return call((f"c{len(request.messages)}", name, msgspec.json.encode(given).decode()))
    return answer(f"re: {text}")


async def test_tools_speak_remember_and_ask(h: Home) -> None:
    h.more_tools = ("save_memory", "search_memory")
    h.think = thinking
    async with h.life() as life:
        paths = life.core.paths
        paths.workspace.mkdir(parents=True, exist_ok=True)
        (paths.workspace / "a.txt").write_bytes(b"bytes")
        for text in CALLS:
            h.fake.say(text)
            await life.settled()
        [question] = [sent for sent in h.fake.sent if sent.buttons]
        for data in ("q:0", "q:1"):
            h.fake.press(data, message=question)
        await life.until(lambda: "yes" in h.fake.texts()[-1])
        await life.settled()
    assert list(h.fake.files.values()) == [("a.txt", b"bytes")]
    said = [text.partition("\n\n")[0] for text in h.fake.texts()]
    assert said[0] == "here it is"
    assert said[1].startswith(f"re: sent as message {OWNER}:")
    assert said[2] == "Tea?"
    assert said[3].startswith("re: asked (1. yes, 2. no)")
    assert said[4] == "re: saved tea"
    assert said[5].endswith("likes tea")
    assert said[6] == "re: [replying to: Tea?]\nyes"
    assert len(said) == 7
    received = [entry for entry in h.entries() if isinstance(entry, Received)]
    assert [entry.untrusted for entry in received] == [False] * 5
    assert (paths.state / "memory" / "tea.md").read_text().endswith("\n\nlikes tea\n")


@pytest.mark.parametrize(
    ("name", "typed"),
    [("knit", "/knit"), ("knit-socks", "/knit_socks"), ("knit-socks", "/Knit-socks")],
)
async def test_a_skill_called_by_its_name_is_used(h: Home, name: str, typed: str) -> None:
    equip(h)
    h.more_tools = ("activate_skill",)
    workspace = h.config().of(Paths).workspace
    folder = workspace / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About wool.\n---\nKnit.")
    async with h.life() as life:
        h.fake.say(f"{typed} for winter")
        await life.settled()
    [request] = h.asked
    notes = [one.text for one in request.messages if isinstance(one, Notice)]
    said = [one.text for one in request.messages if isinstance(one, Human)]
    assert "for winter" in said[-1]
    assert any(f"Use the skill {name}" in text for text in [*said, *notes])
    assert not h.broken()
