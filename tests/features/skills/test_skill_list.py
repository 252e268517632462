"""Skills in the system prompt, and those that are named because a message asks for them."""

from pathlib import Path

import pytest

from elwood.agent.conversation.message import Notice
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.features.skills.parts import SkillExtension, SkillList
from elwood.features.skills.store import SkillStore
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.agent.session.scene import ROUTE, World, house
from tests.agent.session.test_actor import wake_up
from tests.features.skills.test_skill import manual

BUDGET = 10_000


def put(folder: Path, body: str = "Body.", more: str = "", **named: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    named = {"name": folder.name, "description": "Fills PDF forms."} | named
    content = manual(more, body=body, **named)
    (folder / "SKILL.md").write_bytes(content)
    return folder


def skills(workspace: Path, *always: str) -> SkillList:
    return SkillList(SkillStore(Root(workspace), inline), always)


class Seen(SessionLog):
    """A log in which everything stands, or nothing."""

    def __init__(self, everything: bool) -> None:
        self._everything = everything

    def sees(self, text: str) -> bool:
        return self._everything


NOTHING, EVERYTHING = Seen(False), Seen(True)


async def test_what_can_be_used_is_listed_without_its_body(tmp_path: Path) -> None:
    listed = skills(tmp_path)
    assert await listed.text(BUDGET) == ""
    put(tmp_path / "skills/pdf")
    put(tmp_path / "skills/lost", more='metadata: {requires: "bins: no-such-program"}')
    first = await listed.text(BUDGET)
    assert "- pdf: Fills PDF forms." in first
    assert "Body." not in first
    assert "lost" not in first
    put(tmp_path / "skills/pdf", "Other instructions, the same description.")
    assert await listed.text(BUDGET) == first, "what the model sees did not change"


async def test_some_stand_in_it_as_a_whole_unless_they_are_too_long(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    listed = skills(tmp_path, "pdf")
    text = await listed.text(BUDGET)
    assert "\nBody.\n</skill>" in text
    assert "- pdf:" not in text
    assert SkillExtension(NOTHING, listed).hint("please fill the pdf forms") == ""
    put(tmp_path / "skills/pdf", "word " * 5000)
    text = await listed.text(BUDGET)
    assert "word word" not in text
    assert "- pdf:" in text


async def test_a_skill_that_fits_is_suggested_unless_it_is_seen(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    listed = skills(tmp_path)
    await listed.text(BUDGET)
    assert (
        SkillExtension(NOTHING, listed).hint("please fill this PDF form")
        == "Skills that may fit: pdf."
    )
    assert SkillExtension(EVERYTHING, listed).hint("please fill this PDF form") == ""
    assert SkillExtension(NOTHING, listed).hint("good morning") == ""


async def test_the_model_is_told_what_fits(world: World) -> None:
    async with house(world) as h:
        await h.talk("please cook these pdf forms")

    assert world.asked[-1].messages[-1] == Notice("Skills that may fit: cook.")


@pytest.mark.parametrize("text", ["/fill-pdf now", "/Fill_Pdf@some_bot now"])
async def test_a_skill_that_is_called_by_its_name_is_named(tmp_path: Path, text: str) -> None:
    """A name with a dash is no command, so such a message comes to a turn as it is."""
    put(tmp_path / "skills/fill-pdf")
    put(tmp_path / "skills/lost", more='metadata: {requires: "bins: no-such-program"}')
    listed = skills(tmp_path, "fill-pdf")
    await listed.text(BUDGET)
    extension = SkillExtension(EVERYTHING, listed)
    assert extension.hint(text) == "Use the skill fill-pdf for this."
    assert await extension.expand(text) == "Use the skill fill-pdf: now"
    assert await extension.expand("/fill-pdf") == "Use the skill fill-pdf."
    for other in ("/fill now", "/lost", "fill-pdf", "/", "", "see /fill-pdf"):
        assert await extension.expand(other) == ""


@pytest.fixture
async def world(tmp_path: Path, virtual_time: None) -> World:
    """What surrounds conversations that know the skill cook."""
    world = World(tmp_path)
    put(tmp_path / "work/skills/cook")
    listed = skills(tmp_path / "work")
    await listed.text(BUDGET)
    world.extend = lambda house: [lambda log: SkillExtension(log, listed)]
    return world


async def test_the_name_of_a_skill_goes_to_the_model_in_words(world: World) -> None:
    async with house(world) as h:
        await h.talk("/cook an egg", "/retry", "/undo", "/burn it")

    assert world.said[:2] == ["re: Use the skill cook: an egg"] * 2
    assert "“Use the skill cook: an egg”" in world.said[2]
    assert world.said[3].startswith("I do not know /burn.")
    assert len(world.asked) == 2


async def test_a_crash_before_it_is_put_into_words_loses_nothing(world: World) -> None:
    heard = Received("a", "/cook an egg", "other", ROUTE, 0.0, untrusted=True)

    assert (await wake_up(world, heard)).taint.label.untrusted  # whose words they are stays
    assert world.said == ["re: Use the skill cook: an egg"]
