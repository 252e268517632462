"""Skills in the system prompt, and those named because a message needs them."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Assistant, Human, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.session.log.entries import Received
from elwood.agent.tools.tool import ToolFailure
from elwood.features.skills.parts import SkillExtension, SkillList
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.store import SkillStore
from elwood.features.skills.tools import read_skill
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.agent.session.scene import ME, ROUTE, World, run_process
from tests.agent.session.test_actor import wake_up
from tests.features.skills.test_skill import manual
from tests.reminders import SKILL

BUDGET = 10_000


def put(folder: Path, body: str = "Body.", more: str = "", **named: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    named = {"name": folder.name, "description": "Fills PDF forms."} | named
    content = manual(more, body=body, **named)
    (folder / "SKILL.md").write_bytes(content)
    return folder


def skills(workspace: Path, *always: str) -> SkillList:
    return SkillList(SkillStore(Root(workspace), inline, SkillSettings()), always)


async def test_usable_skills_are_listed_without_their_bodies(tmp_path: Path) -> None:
    listed = skills(tmp_path)
    assert await listed.text(BUDGET) == ""
    put(tmp_path / "skills/pdf")
    put(tmp_path / "skills/lost", more='metadata: {requires: "bins: no-such-program"}')
    first = await listed.text(BUDGET)
    assert "- pdf: Fills PDF forms." in first
    assert "Body." not in first
    assert "lost" not in first
    put(tmp_path / "skills/pdf", "Other instructions, the same description.")
    assert await listed.text(BUDGET) == first, "the prompt did not change"


async def test_always_skills_are_in_it_unless_they_are_too_long(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    listed = skills(tmp_path, "pdf")
    text = await listed.text(BUDGET)
    assert "\nBody.\n</skill>" in text
    assert "- pdf:" not in text
    put(tmp_path / "skills/pdf", "word " * 5000)
    text = await listed.text(BUDGET)
    assert "word word" not in text
    assert "- pdf:" in text


async def test_a_skill_for_some_chats_is_in_no_prompt(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    shelf = SkillStore(Root(tmp_path), inline, SkillSettings(chats={"pdf": (7,)}))
    assert await SkillList(shelf, ()).text(BUDGET) == ""
    read = partial(read_skill, shelf, inline, lambda path: None, "pdf")
    assert "Body." in await read(Route("telegram", "7"))
    with pytest.raises(ToolFailure, match="available: none"):
        await read(Route("telegram", "8"))


def told(world: World, turn: int = -1) -> list[str]:
    """Return the text added to a message of a turn, without its frame."""
    said = [m for m in world.asked[turn].messages if not isinstance(m, Assistant)]
    last = max(n for n, message in enumerate(said) if isinstance(message, Human))
    texts = [m.text for m in said[last + 1 :] if isinstance(m, Notice)]
    return [text.partition("\n")[0] if text.startswith(SKILL) else text for text in texts]


@pytest.fixture
async def world(tmp_path: Path, virtual_time: None) -> World:
    """The environment of conversations with the skills cook and fill-pdf, of which one is added."""
    world = World(tmp_path)
    shelf = SkillStore(Root(tmp_path / "work"), inline, SkillSettings())
    put(tmp_path / "work/skills/cook", description="Makes meals.")
    put(tmp_path / "work/skills/fill-pdf")
    put(tmp_path / "work/skills/lost-pdf", more='metadata: {requires: "bins: no-such-program"}')
    listed = SkillList(shelf, ())
    await listed.text(BUDGET)
    read = partial(read_skill, shelf, inline, lambda path: None)
    world.extend = lambda house: [lambda log: SkillExtension(log, listed, read, 1)]
    return world


async def test_the_best_skill_is_added_once_and_the_rest_is_named(world: World) -> None:
    """With the tool's label, and again when it is no longer in view."""
    async with run_process(world) as h:
        await h.talk("good morning", "please cook a meal")
        assert [told(world, 0), told(world)] == [[], ["Skills that may fit: cook."]]
        await h.talk("fill the pdf form", "fill the next pdf form")
        [given] = told(world, 2)
        assert given.startswith('<skill name="fill-pdf" version="')
        assert told(world) == []
        assert h.states["s"].taint.label == CLEAN
        await h.talk("/new", "fill that pdf form")
    assert told(world) == [given]


@pytest.mark.parametrize(
    "more",
    [
        {"untrusted": True},
        {"route": Route("chat", private=False)},
        {"bounds": RunBounds("t", fresh=False)},
    ],
    ids=["of somebody else", "in a group", "of a task"],
)
async def test_only_the_owners_own_words_add_a_skill(world: World, more: dict[str, Any]) -> None:
    heard = Received("a", "fill the pdf form", ME.id, ROUTE, 0.0)
    await wake_up(world, msgspec.structs.replace(heard, **more))
    assert told(world) == ["Skills that may fit: fill-pdf."]


@pytest.mark.parametrize("text", ["/fill-pdf now", "/Fill_Pdf@some_bot now"])
async def test_a_skill_called_by_its_name_is_added(world: World, text: str) -> None:
    """A name with a dash is no command, so such a message reaches a turn unchanged."""
    async with run_process(world) as h:
        await h.talk(text, text, "/lost-pdf now")
    [first], [second], third = (told(world, turn) for turn in range(3))
    assert first.startswith('<skill name="fill-pdf"')
    assert second == "Use the skill fill-pdf for this."
    assert third == []


async def test_the_name_of_a_skill_becomes_a_request_to_the_model(world: World) -> None:
    async with run_process(world) as h:
        await h.talk("/cook an egg", "/retry", "/undo", "/burn it")

    assert world.said[:2] == ["re: Use the skill cook: an egg"] * 2
    assert "“Use the skill cook: an egg”" in world.said[2]
    assert world.said[3].startswith("I do not know /burn.")
    assert len(world.asked) == 2


async def test_a_crash_before_the_request_loses_nothing(world: World) -> None:
    heard = Received("a", "/cook an egg", "other", ROUTE, 0.0, untrusted=True)

    assert (await wake_up(world, heard)).taint.label.untrusted  # the message keeps its author
    assert world.said == ["re: Use the skill cook: an egg"]
