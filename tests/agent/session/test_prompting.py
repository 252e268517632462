"""What stands before a conversation changes with the documents and the skills, and only then."""

from pathlib import Path

import msgspec
import trio

from elwood.agent.conversation.message import Prompt
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.turn.prompt import LOOK_EVERY, SystemPrompt
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.files.tools import reading_tools
from elwood.features.skills.parts import SkillExtension, SkillList
from elwood.features.skills.store import SkillStore
from elwood.foundation.runtime import inline
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.storage.files import Root


def put(folder: Path, body: str = "Body.", more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {folder.name}\ndescription: Fills PDF forms.\n{more}\n---\n{body}\n"
    (folder / "SKILL.md").write_text(text)


class Prompting:
    """The system prompt with the list of skills as its only part."""

    def __init__(self, workspace: Path, always: tuple[str, ...], budget: int) -> None:
        root = Root(workspace)
        self._skills = SkillList(SkillStore(root, inline), always)
        tools = reading_tools(WorkspaceFiles(root), inline)
        self._prompt = SystemPrompt(root, inline, tools, budget, Redactor(), [self._skills])

    async def __call__(self) -> Prompt:
        return await self._prompt.now()

    async def expand_skill_command(self, command: str) -> str:
        return await SkillExtension(Seen(False), self._skills).expand(command)

    def suggest(self, message: str, sees: bool) -> str:
        return self._skills.hint(message, Seen(sees))


class Seen(SessionLog):
    """A log in which everything stands, or nothing."""

    def __init__(self, everything: bool) -> None:
        self._everything = everything

    def sees(self, text: str) -> bool:
        return self._everything


def prompting(workspace: Path, *always: str, budget: int = 10_000) -> Prompting:
    return Prompting(workspace, always, budget)


async def test_skills_are_listed_while_there_are_any(
    tmp_path: Path, autojump_clock: object
) -> None:
    now = prompting(tmp_path)

    async def prompt() -> Prompt:
        await trio.sleep(LOOK_EVERY)
        return await now()

    empty = await prompt()
    assert "Skills" not in empty.system
    put(tmp_path / "skills/pdf")
    first = await prompt()
    assert "- pdf: Fills PDF forms." in first.system
    assert "Body." not in first.system
    assert await prompt() is first
    put(tmp_path / "skills/pdf", "Other instructions, the same description.")
    assert (await prompt()).system == first.system, "what the model sees did not change"
    put(tmp_path / "skills/new")
    assert (await prompt()).system != first.system


async def test_turns_that_begin_together_look_once(tmp_path: Path, autojump_clock: object) -> None:
    prompt = prompting(tmp_path)
    first = await prompt()
    put(tmp_path / "skills/pdf")
    assert await prompt() is first
    await trio.sleep(LOOK_EVERY)
    assert await prompt() is not first


async def test_a_skill_whose_needs_are_not_met_is_not_offered(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf", more='metadata: {requires: "bins: no-such-program"}')
    prompt = await prompting(tmp_path)()
    assert "pdf" not in prompt.system


async def test_some_stand_in_it_as_a_whole(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    prompt = prompting(tmp_path, "pdf")
    text = (await prompt()).system
    assert "\nBody.\n</skill>" in text
    assert "- pdf:" not in text
    assert prompt.suggest("please fill the pdf forms", False) == ""


async def test_what_is_too_long_for_that_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf", "word " * 5000)
    prompt = prompting(tmp_path, "pdf")
    text = (await prompt()).system
    assert "word word" not in text
    assert "- pdf:" in text


async def test_a_skill_that_fits_is_suggested_unless_it_is_seen(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    prompt = prompting(tmp_path)
    await prompt()
    said = prompt.suggest("please fill this PDF form", False)
    assert said == "Skills that may fit: pdf."
    assert prompt.suggest("please fill this PDF form", True) == ""
    assert prompt.suggest("good morning", False) == ""


async def test_a_skill_that_is_called_by_its_name_is_named(tmp_path: Path) -> None:
    """A name with a dash is no command, so such a message comes to a turn as it is."""
    put(tmp_path / "skills/fill-pdf")
    put(tmp_path / "skills/lost", more='metadata: {requires: "bins: no-such-program"}')
    prompt = prompting(tmp_path, "fill-pdf")
    await prompt()
    for text in ("/fill-pdf now", "/Fill_Pdf@some_bot now"):
        assert prompt.suggest(text, True) == "Use the skill fill-pdf for this."
        assert await prompt.expand_skill_command(text) == "Use the skill fill-pdf: now"
    assert await prompt.expand_skill_command("/fill-pdf") == "Use the skill fill-pdf."
    for text in ("/fill now", "/lost", "fill-pdf", "/", "", "see /fill-pdf"):
        assert await prompt.expand_skill_command(text) == ""


async def test_the_prompt_can_be_recorded(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf")
    prompt = await prompting(tmp_path)()
    assert msgspec.json.decode(msgspec.json.encode(prompt), type=type(prompt)) == prompt
