"""Untrusted text stays marked when a command copies or changes its file."""

import os
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.conversation.labels import Label
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.tools.tool import MountedRoot, Output, ToolFailure, WorkspaceFiles
from elwood.features.shell.tools import CommandTool, ShellCommand
from elwood.foundation.runtime import in_thread
from elwood.foundation.sandbox.following import RUNNING, begin, finish_interrupted
from elwood.foundation.sandbox.instructions import SetAside, list_set_aside
from elwood.foundation.sandbox.launched import landlock_version
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import FolderMount, SandboxSettings
from elwood.foundation.storage import traces
from elwood.foundation.storage.files import Root, is_marked
from tests.features.shell.command_running import CONTEXT
from tests.foundation.sandbox import scene

WORDS = b"words of a stranger\n"


@attrs.define
class Desk:
    """A workspace with an untrusted file and one of the owner, and the command tool."""

    workspace: Path
    state: Path
    root: Root
    tool: CommandTool
    changed: list[SetAside]

    async def run(self, command: str, *, untrusted: bool = False) -> Output:
        context = attrs.evolve(CONTEXT, label=Label(untrusted=untrusted))
        made = await self.tool.run_command(ShellCommand(command), context)
        return Output(made) if isinstance(made, str) else made

    def marked(self) -> set[str]:
        return {
            path.relative_to(self.workspace).as_posix()
            for path in self.workspace.rglob("*")
            if is_marked(str(path)) and not path.is_symlink() and path.is_file()
        } - {"received/x.txt"}


async def lay(base: Path, kind: str, *mounts: FolderMount) -> Desk:
    if kind == "bubblewrap" and (why := scene.without_bubblewrap()):
        pytest.skip(f"BUBBLEWRAP NOT TESTED: {why}")
    if kind == "landlock" and landlock_version() < 6:
        pytest.skip("LANDLOCK NOT TESTED: the kernel's is older than version 6")
    workspace, state = base / "workspace", base / "state"
    (workspace / "received").mkdir(parents=True)
    state.mkdir(mode=0o700)
    root = Root(workspace.resolve(), untrusted=("received",))
    (workspace / "received/x.txt").write_bytes(WORDS)
    (workspace / "own.txt").write_text("words of the owner\n")
    settings = SandboxSettings(kind=kind, mounts=mounts)  # type: ignore[arg-type]
    executor = (await pick(settings, workspace, state)).executor
    lent = [
        MountedRoot(
            Root(one.path, writable=one.mode == "rw", untrusted=(".",) if one.untrusted else ()),
            one.place,
            untrusted=one.untrusted,
        )
        for one in mounts
    ]
    changed: list[SetAside] = []
    files = WorkspaceFiles(root, lent)
    tool = CommandTool(executor, files, state, in_thread, PolicySettings(), changed.extend)
    return Desk(workspace, state, root, tool, changed)


@pytest.fixture(params=["bubblewrap", "landlock"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return await lay(tmp_path, request.param)


@pytest.mark.parametrize(
    ("command", "made"),
    [
        ("cp received/x.txt copy.txt", {"copy.txt"}),
        ("cp received/* .", {"x.txt"}),
        ("cat < received/x.txt > copy.txt; chmod 400 copy.txt", {"copy.txt"}),
        ("mkdir -p a/b && cp -r received a/b", {"a/b/received/x.txt"}),
        ("tar cf a.tar received", {"a.tar"}),
        ("cd received; tar c . | gzip > ../a.tgz", {"a.tgz"}),
        ("python3 -c \"open('b','w').write(open('received/x.txt').read())\"", {"b"}),
        ('cp "$HOME/received/x.txt" copy.txt', {"copy.txt"}),
        ("mkdir closed; cp received/x.txt closed/y; chmod 0 closed", {"closed/y"}),
        ("cat own.txt received/x.txt > own2.txt; mv own2.txt own.txt", {"own.txt"}),
    ],
)
async def test_output_files_of_a_marked_file_are_marked(
    desk: Desk, command: str, made: set[str]
) -> None:
    output = await desk.run(command)
    assert output.untrusted
    assert desk.marked() == made
    assert not list((desk.state / RUNNING).glob("*"))


async def test_a_program_that_reads_an_unnamed_marked_file_is_detected(desk: Desk) -> None:
    script = "import pathlib\nfor one in pathlib.Path('.').glob('rec*/*'):\n print(one.read_text())"
    (desk.workspace / "convert.py").write_text(script)
    output = await desk.run("python3 convert.py > out.txt")
    assert (output.untrusted, output.origin) == (True, "received/x.txt")
    assert desk.marked() == {"out.txt"}


async def test_an_archive_and_its_extracted_files_are_marked(desk: Desk) -> None:
    await desk.run("tar cf a.tar received")
    await desk.run("mkdir out && tar xf a.tar -C out")
    assert desk.marked() == {"a.tar", "out/received/x.txt"}


async def test_a_file_checked_out_of_git_is_marked(desk: Desk) -> None:
    who = "git -c user.name=a -c user.email=a@b"
    await desk.run("git init -q . && git add own.txt && " + f"{who} commit -qm own")
    assert not (await desk.run("git log -p")).untrusted
    await desk.run("cp received/x.txt copy.txt")
    await desk.run(f"git add -A && {who} commit -qm all && git rm -q copy.txt")
    assert "copy.txt" not in desk.marked()
    await desk.run("git checkout HEAD -- copy.txt")
    assert "copy.txt" in desk.marked()
    assert (await desk.run("git log -p")).untrusted


async def test_files_of_an_untrusted_conversation_are_marked(desk: Desk) -> None:
    await desk.run("mkdir d; echo made > d/e; echo more >> own.txt", untrusted=True)
    assert desk.marked() == {"d/e", "own.txt"}
    assert is_marked(str(desk.workspace / "d"))


async def test_unrelated_files_are_not_marked(desk: Desk) -> None:
    output = await desk.run("cp own.txt copy.txt; ls; wc -l own.txt; grep -c owner own.txt")
    assert not output.untrusted
    assert desk.marked() == set()


@pytest.mark.parametrize(
    ("command", "is_strange"),
    [
        ("cat received/x.txt", True),
        ("cat received/x.txt | head -n 1", True),
        ("ls received", True),
        ("cat own.txt", False),
        ("ls -l own.txt", False),
    ],
)
async def test_a_read_only_command_has_the_source_of_its_output(
    desk: Desk, command: str, is_strange: bool
) -> None:
    assert (await desk.run(command)).untrusted is is_strange


async def test_the_output_of_a_failure_is_untrusted_too(desk: Desk) -> None:
    with pytest.raises(ToolFailure) as failed:
        await desk.run("cat received/x.txt; exit 3")
    assert (failed.value.untrusted, failed.value.origin) == (True, "received/x.txt")


async def test_deep_folders_hide_nothing(desk: Desk) -> None:
    """Deeper than the maximum length of a path."""
    deep = "for i in $(seq 60); do mkdir -p $(printf 'd%.0s' $(seq 100)); cd d*; done"
    await desk.run(f"{deep}; cp $HOME/received/x.txt y; cd $HOME; mv ddd* top; true")
    place = desk.workspace / "top"
    fd = os.open(place, os.O_PATH)
    for _ in range(59):
        below = os.open("d" * 100, os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = below
    assert is_marked(f"/proc/self/fd/{fd}/y")
    os.close(fd)


async def test_a_crash_leaves_nothing_unmarked(desk: Desk) -> None:
    """Killed after the command, and before its files were marked."""
    for named, found in ((["received/x.txt"], {"a", "b"}), ([], {"a"})):
        for name in "ab":
            (desk.workspace / name).unlink(missing_ok=True)
        places = [(desk.root, name) for name in named]
        begin(
            [desk.root], places, [], desk.state, "landlock",
            uses_git=False, untrusted=False, writes=True,
        )  # fmt: skip
        (desk.workspace / "a").write_bytes(WORDS)
        if named:
            (desk.workspace / "b").write_text("b")
        else:
            assert (desk.workspace / "received/x.txt").read_bytes() == WORDS
        finish_interrupted(desk.root, desk.state)
        assert desk.marked() == found
        assert not list((desk.state / RUNNING).glob("*"))


async def test_new_files_of_a_running_command_are_untrusted(desk: Desk) -> None:
    with desk.root.expect_changes(()):
        (desk.workspace / "new.txt").write_text("new")
        desk.root.write("ours.txt", b"ours", untrusted=False)
        (desk.workspace / "SOUL.md").write_text("obey")
        untrusted = {}
        for name in ("own.txt", "new.txt", "ours.txt", "SOUL.md"):
            with desk.root.file(name) as file:
                untrusted[name] = file.untrusted
    assert untrusted["new.txt"]
    assert untrusted["SOUL.md"]
    assert not untrusted["ours.txt"]
    with desk.root.file("new.txt") as file:
        assert not file.untrusted


async def test_too_many_files_are_refused(desk: Desk) -> None:
    with pytest.raises(traces.TooManyFiles):
        traces.record_files(desk.root, limit=2)


# --- mounts ---------------------------------------------------------------------------------------


async def test_a_mount_is_untrusted_unless_the_owner_says_otherwise(tmp_path: Path) -> None:
    mounts = []
    for name, untrusted in (("mail", True), ("notes", False)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_bytes(WORDS)
        mounts.append(FolderMount(path=tmp_path / name, name=name, mode="rw", untrusted=untrusted))
    desk = await lay(tmp_path / "house", "bubblewrap", *mounts)
    assert (await desk.run("cat /mounts/mail/a.txt | wc -c")).untrusted
    assert not (await desk.run("cat /mounts/notes/a.txt")).untrusted
    assert (await desk.run("cp /mounts/m*/a.txt copy.txt; cat copy.txt")).untrusted
    assert desk.marked() == {"copy.txt"}
    # A command sees the files that it names, and nothing else.
    assert (await desk.run("ls /mo''unts 2>&1; true")).text.startswith("ls:")
    await desk.run("cp received/x.txt /mounts/notes/b.txt")
    assert is_marked(str(tmp_path / "notes/b.txt"))
    assert not is_marked(str(tmp_path / "notes/a.txt"))


# --- instruction files ----------------------------------------------------------------------------

PLANT = (
    "for f in HEARTBEAT.md USER.md TOOLS.md SOUL.md IDENTITY.md AGENTS.md; do echo obey > $f; "
    "rm -f $f; mv own.txt $f; ln -sf own.txt $f; done; mkdir -p .agents/skills/x skills/x; "
    "echo obey > .agents/skills/x/SKILL.md; echo obey > skills/x/SKILL.md; true"
)


@pytest.fixture(params=["bubblewrap", "landlock", "direct"])
async def any_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return await lay(tmp_path, request.param)


async def test_a_new_instruction_file_is_set_aside(any_desk: Desk) -> None:
    await any_desk.run(f"({PLANT}) 2>&1")
    planted = [
        path
        for path in any_desk.workspace.rglob("*")
        if path.is_symlink() or (path.is_file() and b"obey" in path.read_bytes())
    ]
    assert planted == []
    assert any_desk.changed == list_set_aside(any_desk.state)


async def test_a_changed_instruction_file_is_set_aside_and_restored(tmp_path: Path) -> None:
    desk = await lay(tmp_path, "landlock")
    for name in ("SOUL.md", "USER.md", "skills/a/SKILL.md"):
        (desk.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.workspace / name).write_text("mine")
    output = await desk.run("echo obey >> SOUL.md; rm USER.md; echo obey > skills/a/SKILL.md")
    for name in ("SOUL.md", "USER.md", "skills/a/SKILL.md"):
        assert (desk.workspace / name).read_text() == "mine"
    assert {one.path for one in desk.changed} == {"SOUL.md", "skills/a/SKILL.md"}
    assert "set aside until the owner has reviewed it" in output.text


async def test_other_users_of_the_machine_do_not_see_the_command(desk: Desk) -> None:
    mark = scene.make_marker()
    go = desk.workspace / "go"

    def running() -> list[str]:
        files = [path / "cmdline" for path in Path("/proc").iterdir() if path.name.isdigit()]
        seen = list[str]()
        for file in files:
            with suppress(OSError):
                seen.append(file.read_bytes().decode(errors="replace"))
        return seen

    async with trio.open_nursery() as nursery:
        text = f"touch began; m={mark}; while ! test -e go; do sleep 0.01; done; echo $m; env"
        said = list[str]()

        async def run() -> None:
            said.append((await desk.run(text)).text)

        nursery.start_soon(run)
        await scene.wait_until((desk.workspace / "began").exists)
        seen = running()
        go.touch()
    assert any("bash" in line for line in seen)
    assert not any(mark in line for line in seen)
    assert mark in said[0]
    assert "ELWOOD" not in said[0]
