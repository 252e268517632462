"""Skills are followed through the gate."""

import json
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, Received, Said, TurnStarted
from elwood.features.skills.store import SkillStore
from elwood.features.skills.tools import tools
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.agent.session.gates import Approver, MemoryLog, gate_for
from tests.features.skills.test_skill_list import put


class Scene(MemoryLog):
    """One session, whose calls pass the real gate; nobody is asked."""

    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir()
        super().__init__()
        self.rounds = 0
        shelf = SkillStore(Root(self.workspace), inline, [tmp_path / "team"])
        self.tools = tools(shelf, inline, lambda path: None)
        self.apply(Received("a", "hello", "me", Route("console"), 0.0))
        self.apply(TurnStarted("t1", ("a",), 1, "hello"))

    async def call(self, tool: str, **given: str) -> CallEnded:
        """Make one call, and return how it ended."""
        gate = gate_for(self, self.tools, approver=Approver())
        self.rounds += 1
        asked = ToolCall(f"c{self.rounds}", tool, json.dumps(given))
        self.apply(Said("t1", Assistant((asked,), "s", "m", msgspec.Raw(b"[]")), Usage()))
        await gate.perform()
        assert self.session.turn is not None
        return self.session.turn.receipts[-1]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_the_instructions_come_with_the_place_and_the_files(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    ended = await scene.call("activate_skill", name="pdf")
    assert ended.outcome == "ok"
    assert ended.text.startswith('<skill name="pdf" version="')
    assert f'directory="{folder}"' in ended.text
    assert "\nDo it well.\n</skill>" in ended.text
    assert ended.label == PRIVATE


async def test_a_second_activation_is_told_and_a_changed_skill_given_again(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    await scene.call("activate_skill", name="pdf")
    assert "active already" in (await scene.call("activate_skill", name="pdf")).text
    text = (folder / "SKILL.md").read_text().replace("well", "better")
    (folder / "SKILL.md").write_text(text)
    assert "Do it better." in (await scene.call("activate_skill", name="pdf")).text
    scene.session.path.clear()
    assert "Do it better." in (await scene.call("activate_skill", name="pdf")).text


async def test_an_unknown_skill_names_the_others_and_one_that_lacks_says_so(scene: Scene) -> None:
    put(scene.workspace / "skills/pdf")
    put(scene.workspace / "skills/web", more='metadata: {requires: "bins: no-such-program"}')
    ended = await scene.call("activate_skill", name="../pdf")
    assert (ended.outcome, "there are: pdf, web" in ended.text) == ("failed", True)
    ended = await scene.call("activate_skill", name="web")
    assert (ended.outcome, "no-such-program" in ended.text) == ("failed", True)


async def test_commands_cannot_reach_a_skill_of_a_package(scene: Scene, tmp_path: Path) -> None:
    put(tmp_path / "team/style")
    ended = await scene.call("activate_skill", name="style")
    assert f'directory="{tmp_path}/team/style"' in ended.text
    assert "its scripts can be read, not run" in ended.text
