"""The tool that reads a skill."""

from functools import partial
from pathlib import Path

import pytest

from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import ToolContext, ToolFailure
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.store import SkillStore
from elwood.features.skills.tools import Activate, read_skill, tools
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.features.skills.test_skill_list import put


class Scene:
    """A conversation, which sees the added text until it is cleared."""

    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "work"
        self.told: list[str] = []
        shelf = SkillStore(
            Root(self.workspace), inline, SkillSettings(folders=(tmp_path / "team",))
        )
        [self.tool] = tools(partial(read_skill, shelf, inline, lambda path: None))

    async def activate(self, name: str) -> str:
        context = ToolContext(session="s", route=NOWHERE, now=0.0, sees=self.sees)
        self.told.append(str(await self.tool.run(Activate(name), context)))
        return self.told[-1]

    def sees(self, text: str) -> bool:
        return any(text in one for one in self.told)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "work").mkdir()
    return Scene(tmp_path)


async def test_the_instructions_have_the_folder_and_the_files(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    text = await scene.activate("pdf")
    assert text.startswith('<skill name="pdf" version="')
    assert f'directory="{folder}"' in text
    assert "\nDo it well.\n</skill>" in text


async def test_a_second_activation_is_noted_and_a_changed_skill_repeated(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    await scene.activate("pdf")
    assert "already active" in await scene.activate("pdf")
    text = (folder / "SKILL.md").read_text().replace("well", "better")
    (folder / "SKILL.md").write_text(text)
    assert "Do it better." in await scene.activate("pdf")
    scene.told.clear()
    assert "Do it better." in await scene.activate("pdf")


async def test_an_unknown_or_unusable_skill_is_explained(scene: Scene) -> None:
    put(scene.workspace / "skills/pdf")
    put(scene.workspace / "skills/web", more='metadata: {requires: "bins: no-such-program"}')
    with pytest.raises(ToolFailure, match="available: pdf, web"):
        await scene.activate("../pdf")
    with pytest.raises(ToolFailure, match="no-such-program"):
        await scene.activate("web")


async def test_missing_packages_are_named_and_secrets_are_refused(scene: Scene) -> None:
    put(scene.workspace / "skills/pdf", more="addons: {packages: [sh, no-such-program]}")
    text = await scene.activate("pdf")
    assert "It needs the packages sh, no-such-program; these programs are missing: no-" in text
    put(scene.workspace / "skills/web", more="addons: {env: [TOKEN]}")
    with pytest.raises(ToolFailure, match=r"do not get \(an MCP server may have secrets\): TOKEN"):
        await scene.activate("web")


async def test_commands_cannot_reach_a_skill_of_a_package(scene: Scene, tmp_path: Path) -> None:
    put(tmp_path / "team/style")
    text = await scene.activate("style")
    assert f'directory="{tmp_path}/team/style"' in text
    assert "you can read its scripts, but not run them" in text
