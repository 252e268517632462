"""Folders that the owner mounts: their open and closed parts, for files and commands."""

from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from elwood.agent.conversation.calls import WriteFile
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.route import Route
from elwood.agent.tools.tool import MountedRoot, ToolContext, ToolFailure, WorkspaceFiles
from elwood.app.build import App, build
from elwood.app.main import ALL
from elwood.features.files.search_tools import Find, Grep
from elwood.features.files.tools import EditText, ListFiles, ReadFile, WriteText
from elwood.features.shell.parts import MountedFolders, describe_sandbox
from elwood.features.shell.tools import ShellCommand
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.command import Command
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import FolderMount, SandboxSettings
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import Root
from tests.app.test_config import load_problems, load_text
from tests.foundation.sandbox.conftest import has_bubblewrap, has_landlock
from tests.foundation.sandbox.scene import Home, make_home
from tests.foundation.storage import confined
from tests.foundation.storage.confined import SENTINEL, snapshot
from tests.foundation.storage.test_files import STILL, read_path

__all__ = ["has_bubblewrap", "has_landlock"]
CHAT = Route("telegram", "7")
MODES: tuple[tuple[str, Literal["ro", "rw"]], ...] = (("project", "rw"), ("seen", "ro"))


@pytest.mark.parametrize("row", STILL, ids=lambda row: row["id"])
def test_row_of_the_path_corpus_in_a_mount(tmp_path: Path, row: dict[str, Any]) -> None:
    """Closed are the paths closed in a workspace, and each folder with a leading dot."""
    top = confined.build_tree(tmp_path)
    (tmp_path / "desk").mkdir()
    mount = MountedRoot(Root(top, dots=False), "/mounts/m")
    files = WorkspaceFiles(Root(tmp_path / "desk"), [mount])
    before = snapshot(tmp_path)
    path = row["input"].replace("{ROOT}", str(top)).replace("{BASE}", str(tmp_path))
    root, inner, _ = files.resolve(path if path.startswith("/") else f"/mounts/m/{path}", CHAT)
    try:
        shown, got = read_path(root, row["op"], inner), "allow"
    except PathRefused as error:
        shown, got = str(error), "block"
    assert got in row.get("accept", [row["expected"]]) or (got, "/.git" in f"/{path}") == (
        "block",
        True,
    )
    assert SENTINEL not in shown
    assert "root:" not in shown
    assert snapshot(tmp_path) == before


@pytest.fixture
def blog(tmp_path: Path) -> Path:
    """A project next to the workspace, with private parts."""
    top = tmp_path / "projects" / "blog"
    for name in ("src", ".git/hooks", ".config/x", "posts"):
        (top / name).mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("hidden words")
    for name in (".env", "server.pem", ".git/config", ".config/x/y"):
        (top / name).write_text("hidden words https://token@example.org")
    for name in ("src/a.py", ".gitignore", "AGENTS.md"):
        (top / name).write_text("open words\n")
    (top / "src/way").symlink_to("../.config")
    (top / "src/out").symlink_to(tmp_path / "outside.txt")
    return top


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "house")


def house(home: Home, kind: str, *mounts: FolderMount) -> Config:
    return Config.from_values(
        Paths(state=home.state, workspace=home.workspace, runtime=home.state / "run"),
        SandboxSettings(kind=kind, mounts=mounts),  # type: ignore[arg-type]  # named by the test
        file=home.state / "config.toml",
    )


class Hand:
    """Uses the tools of *app* as the model does."""

    def __init__(self, app: App, **context: Any) -> None:
        self._tools = {tool.name: tool for tool in app.tools}
        given: dict[str, Any] = {"session": "s", "route": CHAT, "now": 0.0}
        self.context = ToolContext(**given | context)

    async def use(self, name: str, given: object) -> str:
        found = await self._tools[name].run(given, self.context)
        return found if isinstance(found, str) else found.text

    async def plan(self, name: str, given: object) -> Any:
        plan = self._tools[name].plan
        assert plan is not None
        return await plan(given, self.context)

    async def scope(self, name: str, given: object) -> Any:
        tool = self._tools[name]
        if tool.scope is not None:
            return await tool.scope(given, self.context)
        return (await self.plan(name, given)).scope

    async def refused(self, name: str, given: object) -> str:
        with pytest.raises(ToolFailure) as caught:
            await self.use(name, given)
        return str(caught.value)


async def test_a_mount_is_read_searched_and_written_and_its_closed_parts_are_not(
    home: Home, blog: Path
) -> None:
    mount = FolderMount(path=blog, name="blog", mode="rw")
    async with build(house(home, "none", mount), Environment(), ALL, {}) as app:
        hand = Hand(app)
        assert await hand.use("read_file", ReadFile("/mounts/blog/src/a.py")) == "open words"
        assert await hand.use("read_file", ReadFile(f"{blog}/.gitignore")) == "open words"
        assert "a.py (11 bytes)" in await hand.use("list_files", ListFiles("/mounts/blog/src"))
        found = await hand.use("grep", Grep("words", "/mounts/blog"))
        assert sorted(found.splitlines()) == [
            f"/mounts/blog/{name}:1: open words" for name in (".gitignore", "AGENTS.md", "src/a.py")
        ]
        assert await hand.use("find", Find("*.py", "/mounts/blog")) == "/mounts/blog/src/a.py"
        for path in (".env", "server.pem", ".git/config", ".config/x/y", "src/way/x/y", "src/out"):
            await hand.refused("read_file", ReadFile(f"/mounts/blog/{path}"))
            await hand.refused("write_file", WriteText(f"/mounts/blog/{path}", "x"))
        for path in (".git", ".config", "src/way"):
            said = await hand.refused("list_files", ListFiles(f"/mounts/blog/{path}"))
            assert "these folders are closed here" in said
        await hand.refused("write_file", WriteText("/mounts/blog/.new/x", "x"))
        assert not (blog / ".new").exists()
        await hand.use("edit_file", EditText("/mounts/blog/src/a.py", "open", "better"))
        assert (blog / "src/a.py").read_text() == "better words\n"
        made = WriteText("/mounts/blog/posts/one.md", "One")
        assert (await hand.scope("write_file", made)).keys[0] == f"folder {blog}/posts"
        look = await hand.scope("read_file", ReadFile("posts/one.md"))
        assert look.keys[0] == "folder posts"
        assert "created" in await hand.use("write_file", made)
        # Untrusted text gets into no instruction file, also in a mount.
        stranger = Hand(app, label=Label(untrusted=True))
        plan = await stranger.plan("write_file", WriteText("/mounts/blog/AGENTS.md", "obey"))
        assert plan.action == WriteFile(protected=True, foreign=True)
        await stranger.refused("write_file", WriteText("/mounts/blog/AGENTS.md", "obey"))


async def test_a_mount_has_the_mode_that_the_owner_sets(home: Home, blog: Path) -> None:
    only_read = FolderMount(path=blog, name="blog")
    of_one = FolderMount(path=blog / "src", name="of-one", mode="rw", chats=(8,))
    config = house(home, "none", only_read, of_one)
    async with build(config, Environment(), ALL, {}) as app:
        hand = Hand(app)
        said = await hand.refused("write_file", WriteText("/mounts/blog/src/a.py", "x"))
        assert "is in a read-only folder" in said
        await hand.refused("edit_file", EditText("/mounts/blog/src/a.py", "open", "x"))
        await hand.refused("read_file", ReadFile("/mounts/of-one/a.py"))
        other = Hand(app, route=Route("telegram", "8"))
        assert await other.use("read_file", ReadFile("/mounts/of-one/a.py")) == "open words"
        assert "replaced" in await other.use("write_file", WriteText("/mounts/of-one/a.py", "x"))


async def test_commands_see_a_mount_without_its_closed_parts(
    has_bubblewrap: None, home: Home, blog: Path
) -> None:
    mounts = (
        FolderMount(path=blog, name="blog"),
        FolderMount(path=blog, name="draft", mode="rw"),
        FolderMount(path=blog, name="others", chats=(8,)),
    )
    config = house(home, "bubblewrap", *mounts)
    async with build(config, Environment(), ALL, {}) as app:
        hand = Hand(app)

        async def sh(text: str) -> str:
            return await hand.use("run_command", ShellCommand(f"({text}) 2>&1; true"))

        assert "open words" in await sh("cat /mounts/blog/src/a.py")
        assert "hidden words" not in await sh("grep -r words /mounts; cat /mounts/*/src/out")
        listed = await sh("ls -A /mounts /mounts/blog/.git /mounts/draft/.config")
        assert listed.splitlines()[:7] == [
            *("/mounts:", "blog", "draft", "", "/mounts/blog/.git:", "", "/mounts/draft/.config:")
        ]
        await sh("echo x > /mounts/blog/new; echo x > /mounts/draft/AGENTS.md")
        await sh("echo x > /mounts/draft/.git/config; echo made > /mounts/draft/made")
        assert (blog / "made").read_text() == "made\n"
        assert not (blog / "new").exists()
        assert (blog / "AGENTS.md").read_text() == "open words\n"
        assert (blog / ".git/config").read_text().startswith("hidden words")
        # Commands that run without asking see only the workspace, and report that.
        plan = await hand.plan("run_command", ShellCommand("cat /mounts/blog/src/a.py"))
        assert "outside the workspace" in plan.action.why
        # A mount that cannot be searched completely is not shown.
        for number in range(201):
            (blog / f"{number}.key").write_text("x")
        said = await sh("ls /mounts/blog")
        assert "No such file" in said
        assert "commands cannot see /mounts/blog" in said


async def test_git_works_in_a_mounted_project(
    has_bubblewrap: None, home: Home, tmp_path: Path
) -> None:
    """Without the project's hooks, and without a way to add some."""
    top = tmp_path / "project"
    await trio.run_process(["git", "init", "-q", top])
    hook = top / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho ran > /mounts/project/ran; exit 1\n")
    hook.chmod(0o755)
    mounts = [FolderMount(path=top, name=name, mode=mode) for name, mode in MODES]
    async with build(house(home, "bubblewrap", *mounts), Environment(), ALL, {}) as app:
        hand = Hand(app)
        text = (
            "cd /mounts/project && echo a > a && git add a && "
            "git -c user.name=a -c user.email=a@b commit -qm one; "
            "(echo x > .git/hooks/post-commit; git config core.hooksPath /tmp) 2>/dev/null; "
            "cd /mounts/seen && git log --format=%s"
        )
        assert await hand.use("run_command", ShellCommand(text)) == "one"
    assert not (top / "ran").exists()
    assert not (top / ".git/hooks/post-commit").exists()
    assert "hooksPath" not in (top / ".git/config").read_text()


async def test_the_prompt_lists_the_mounts_and_what_commands_see(
    has_landlock: None, home: Home, blog: Path
) -> None:
    settings = SandboxSettings(
        kind="landlock", mounts=(FolderMount(path=blog, name="blog", mode="rw"),)
    )
    picked = await pick(settings, home.workspace, home.state)
    said = describe_sandbox(picked, settings).text
    assert (
        f"- mounted at /mounts/blog: {blog}, read and write; files with secrets and folders" in said
    )
    assert "- commands see no mounts" in said
    assert "nothing of a command remains" in said
    part = MountedFolders(settings.mounts, picked.executor.map_path, inline)
    assert (await part.text(1000)).splitlines()[1:] == [
        "- /mounts/blog (read and write, for file tools only)"
    ]
    look = Command(argv=("cat", f"{blog}/src/a.py"), timeout=20.0, mounts=("/mounts/blog",))
    assert (await picked.executor.run(look)).code != 0


def test_all_problems_of_mounts_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("state/in", "work/in", "fine/in", "elsewhere/.ssh", "b/home"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "b/home"))
    text = f"""
        [paths]
        state = "{tmp_path}/state"
        workspace = "{tmp_path}/work"
        runtime = "{tmp_path}/run"
    """
    mounts = [
        f'path = "{tmp_path}/nowhere"\nname = "a"',
        f'path = "{tmp_path}/state/in"\nname = "b"',
        f'path = "{tmp_path}"\nname = "c"',
        f'path = "{tmp_path}/work/in"\nname = "d"',
        f'path = "{tmp_path}/elsewhere/.ssh"\nname = "e"',
        f'path = "{tmp_path}/fine"\nname = "e"\nmode = "r"',
        f'path = "{tmp_path}/fine/../fine"\nname = "f"',
        'name = "No"',
        f'path = "{tmp_path}/fine/in"\nname = "g"',
        f'path = "{tmp_path}/b"\nname = "h"',
    ]
    tables = "".join(f"\n[[sandbox.mounts]]\n{one}" for one in mounts)
    said = [
        one.removeprefix("config.toml: sandbox.") for one in load_problems(tmp_path, text + tables)
    ]
    here = str(tmp_path)
    assert said == [
        f"mounts[0].path: there is no folder {here}/nowhere; create it, or write another path",
        'mounts[5].mode: cannot be the text "r"; write one of ro, rw',
        "mounts[7].path: is missing; write it",
        "mounts[7].name: is not a valid name of a mount; use lower-case letters, digits, - and _",
        f"mounts[1].path: it lies in the state folder, {here}/state; mount a folder outside it",
        f"mounts[2].path: it would expose the home folder, {here}/b/home; "
        "mount a folder without it",
        f"mounts[3].path: it lies in the workspace, {here}/work; mount a folder outside it",
        f"mounts[4].path: a name in {here}/elsewhere/.ssh is reserved for secrets; "
        "mount another folder",
        "mounts[5].name: two mounts have the name e; rename one of them",
        f"mounts[6].path: it would expose another mount, {here}/fine; mount a folder without it",
        f"mounts[8].path: it lies in another mount, {here}/fine; mount a folder outside it",
        f"mounts[9].path: it would expose the home folder, {here}/b/home; "
        "mount a folder without it",
    ]
    sound = f'{text}\n[[sandbox.mounts]]\npath = "{here}/fine"\nname = "fine"\nchats = [7]'
    (found,) = load_text(tmp_path, sound).get(SandboxSettings).mounts
    assert found == FolderMount(path=tmp_path / "fine", name="fine", chats=(7,))
    assert load_problems(tmp_path, "sandbox.mounts = 5") == [
        "config.toml: sandbox.mounts: expected a list, found the number 5; "
        "begin each with [[sandbox.mounts]]"
    ]
