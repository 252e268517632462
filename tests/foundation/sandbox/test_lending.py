"""Folders with skills outside of the workspace: commands can read them and nothing else."""

from pathlib import Path

import pytest

from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import ToolContext, ToolFailure
from elwood.app.build import build
from elwood.app.main import ALL
from elwood.features.files.tools import ListFiles, ReadFile
from elwood.features.shell.tools import ShellCommand
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.tools import Activate
from elwood.foundation.environment import Environment
from elwood.foundation.sandbox.command import Command, Executor
from elwood.foundation.sandbox.layout import MountedFolder, choose_mounts
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths
from tests.foundation.sandbox.scene import Home, choose_backend

SCRIPT = '#!/bin/sh\necho ran with $1\ncat "$(dirname "$0")/words.txt"\n'


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """Create a folder with one skill, next to a file that must stay hidden."""
    (tmp_path / "outside.txt").write_text("outside words")
    skill = tmp_path / "team" / "style"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: style\ndescription: Write well.\n---\nDo.\n")
    (skill / "scripts" / "run.sh").write_text(SCRIPT)
    (skill / "scripts" / "run.sh").chmod(0o755)
    (skill / "scripts" / "words.txt").write_text("good words\n")
    (skill / "link.txt").symlink_to(tmp_path / "outside.txt")
    (skill / "up").symlink_to("../..")
    (skill / ".env").write_text("hidden words")
    (skill / ".ssh").mkdir()
    (skill / ".ssh" / "id").write_text("hidden words")
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)  # for the user in a container
    return tmp_path / "team"


async def run_shell(executor: Executor, text: str) -> tuple[int | None, str]:
    outcome = await executor.run(Command(argv=("/bin/sh", "-c", text), timeout=20.0))
    return outcome.code, outcome.output.decode()


async def test_scripts_run_and_see_nothing_else(
    rung: tuple[str, str], home: Home, team: Path, tmp_path: Path
) -> None:
    executor = await choose_backend(rung[0], home, rung[1], [team])
    place = executor.map_path(team / "style")
    assert place is not None
    assert await run_shell(executor, f"{place}/scripts/run.sh 7") == (0, "ran with 7\ngood words\n")
    if rung[0] == "direct":
        return  # no isolation
    for text in (
        f"cat {place}/link.txt",
        f"cat {place}/up/outside.txt",
        f"cat {place}/../../outside.txt",
        f"cat {tmp_path}/outside.txt",
        f"echo x > {place}/new",
        f"echo x >> {place}/scripts/run.sh",
        f"rm -f {place}/scripts/run.sh",
        f"chmod 777 {place}/scripts/run.sh",
        f"mv {place} {place}2",
    ):
        if text.startswith("chmod") and rung[0] == "landlock":
            continue  # Landlock does not protect it, and reports that
        code, said = await run_shell(executor, text)
        assert code != 0, text
        assert "words" not in said
    _, said = await run_shell(executor, f"cat {place}/.env {place}/.ssh/id; ls /skills /root")
    assert ("hidden words" in said) is (rung[0] == "landlock")
    assert (team / "style/scripts/run.sh").read_text() == SCRIPT


async def test_a_missing_folder_blocks_no_command(
    rung: tuple[str, str], home: Home, tmp_path: Path
) -> None:
    executor = await choose_backend(rung[0], home, rung[1], [tmp_path / "gone"])
    assert await run_shell(executor, "echo here") == (0, "here\n")


def test_protected_folders_are_not_mounted(tmp_path: Path) -> None:
    work, state, home = (tmp_path / name for name in ("a/work", "b/state", "c/home"))
    for path in (work, state, home):
        path.mkdir(parents=True)
    (tmp_path / "link").symlink_to(state)
    (tmp_path / "fine").symlink_to(home / "skills")
    (home / "skills").mkdir()
    wrong = [tmp_path, *(tmp_path / name for name in ("a", "b", "c", "b/state/x", "link"))]
    folders = [*wrong, work / "more", tmp_path / "fine", Path("/")]
    lent, refused = choose_mounts(folders, work, state, home)
    assert lent == (MountedFolder(home / "skills", "/skills/8"),)
    assert len(refused) == len(wrong) + 1
    assert "it would expose the home folder" in refused[3]
    assert "it would expose the state folder" in refused[4]


async def test_a_script_of_a_configured_folder_runs(
    has_bubblewrap: None, home: Home, team: Path, tmp_path: Path
) -> None:
    """The model gets a path; with this path it runs the script, reads it, and lists the folder."""
    config = Config.from_values(
        Paths(state=home.state, workspace=home.workspace, runtime=tmp_path / "run"),
        SandboxSettings(kind="bubblewrap"),
        SkillSettings(folders=(team,)),
        file=tmp_path / "config.toml",
    )
    async with build(config, Environment(), ALL, {}) as app:
        tools = {tool.name: tool for tool in app.tools}
        context = ToolContext(session="s", route=NOWHERE, now=0.0)

        async def run(name: str, given: object) -> str:
            return str(await tools[name].run(given, context))

        async def read(path: str | Path) -> str:
            return await run("read_file", ReadFile(str(path)))

        plan = tools["run_command"].plan
        assert plan is not None
        said = await run("activate_skill", Activate("style"))
        assert 'directory="/skills/1/style"' in said
        command = ShellCommand("/skills/1/style/scripts/run.sh 7")
        before = await plan(command, context)
        printed, _, note = (await run("run_command", command)).partition("\n(")
        assert printed == "ran with 7\ngood words"
        assert note.startswith("hidden from commands, and excluded from commits: /skills/1/style/.")
        for place in ("/skills/1", team):
            assert await read(f"{place}/style/scripts/words.txt") == "good words"
        assert "run.sh (" in await run("list_files", ListFiles("/skills/1/style/scripts"))
        (home.workspace / "own.txt").write_text("own words")
        assert await read("/workspace/own.txt") == "own words"
        for path in (
            "/skills/1/style/link.txt",
            "/skills/1/style/up/outside.txt",
            "/skills/1/../outside.txt",
            "/skills/1/style/.env",
            "/skills/2/style/SKILL.md",
            "/skills",
            f"{tmp_path}/outside.txt",
            f"{team}2/outside.txt",
        ):
            with pytest.raises(ToolFailure):
                await read(path)
        # The approval covers this script, not another one with its name.
        (team / "style/scripts/run.sh").write_text("#!/bin/sh\necho another\n")
        after = await plan(command, context)
        assert before.subject == after.subject
        assert before.facts != after.facts
