"""The scope of a permission for a command, with real files, as the tool plans them."""

from pathlib import Path

import pytest

from elwood.agent.conversation.calls import ApprovalScope
from elwood.features.shell.tools import ShellCommand
from elwood.foundation.storage.files import Root
from tests.features.shell.command_running import CONTEXT, command_tool

FILES = (
    "x.py",
    "my x.py",
    "y.py",
    "x.sh",
    "data.csv",
    "Makefile",
    "package.json",
    "run",
    "scripts/go.sh",
)


async def scope(folder: Path, command: str, timeout: int = 60) -> ApprovalScope | None:
    tool = command_tool(folder)
    return (await tool.examine(ShellCommand(command, timeout), CONTEXT)).scope


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    for name in (*FILES, ".git/refs/heads/main", *map(str, range(30))):
        (tmp_path / name).write_text("one")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "free", "bound"),
    [
        ("wc -l data.csv x.py", "data.csv, x.py", ""),
        ("git commit -m 'more words'", ".git/refs/heads/main", ""),
        ("git add x.py", "x.py, .git/refs/heads/main", ""),
        ("python3 x.py data.csv", "data.csv, x.sh", "x.py"),
        ("python3 x.py y.py", "", "x.py, y.py"),
        ("/usr/bin/env-like/python3 x.py data.csv", "data.csv", "x.py"),
        ("python3 'my x.py' data.csv", "data.csv, x.sh", "my x.py"),
        ("bash ./x.sh data.csv", "data.csv", "x.sh"),
        ("./run data.csv", "data.csv", "run"),
        ("make -j4 test", "data.csv", "Makefile"),
        ("npm test", "data.csv", "package.json"),
        ("git add -A && git commit -m 'more words'", ".git/refs/heads/main", ""),
        ("cp data.csv copy.csv && wc -l copy.csv | cat", "data.csv, copy.csv", ""),
        ("python3 x.py data.csv && cp data.csv copy.csv", "data.csv", "x.py"),
        ("cat data.csv | python3 x.py; ./run", "data.csv", "x.py, run"),
    ],
)
async def test_only_a_file_that_the_program_runs_stays_bound(
    folder: Path, command: str, free: str, bound: str
) -> None:
    before = await scope(folder, command)
    assert before is not None
    assert before.note == (" (same code)" if bound else "")
    assert before == await scope(folder, command, timeout=90), "the same wish with more patience"
    assert before != await scope(folder, f"{command} --one-more")
    for name in filter(None, free.split(", ")):
        (folder / name).write_text("two")
        assert await scope(folder, command) == before
    for name in filter(None, bound.split(", ")):
        assert name in before.covers
        (folder / name).write_text("two")
        assert await scope(folder, command) != before
        (folder / name).write_text("one")


async def test_an_untrusted_file_stays_bound(folder: Path) -> None:
    command = "cp data.csv copy.csv"
    clean = await scope(folder, command)
    Root(folder).write("data.csv", b"theirs", untrusted=True)
    theirs = await scope(folder, command)
    assert clean is not None
    assert theirs is not None
    assert (clean.note, theirs.note) == ("", " (same files)")
    Root(folder).write("data.csv", b"theirs again", untrusted=True)
    assert len({clean.keys, theirs.keys, (await scope(folder, command)).keys}) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "command",
    [
        # Not one plain command.
        "wc data.csv > x", "wc $(cat x)", "wc *.csv",
        # Data could become code.
        "cp data.csv run && ./run", "./run | cp data.csv run", "cat data.csv | sh",
        "git commit -m x && ./run",
        "A=./run wc data.csv", "A=b python3 x.py",
        "PATH=./python3 x.py", "wc data.csv &", "(wc data.csv)",
        "! wc data.csv",
        # AP-13: programs that run their arguments, or take code from them; other folders; other
        # programs.
        "sh -c ./run", "bash -c 'wc data.csv'", "env python3 x.py", "busybox wc", "xargs wc",
        "python3 -c 'print(1)' x.py", "python3 -m x", "python3 -u x.py", "python3", "node -e 1",
        "node none.js", "npx x", "git -c core.pager=./run log", "git -C . status", "git push",
        "timeout 5 wc data.csv", "time wc data.csv", "eval ls", "source x.sh", ". ./x.sh",
        "exec ./run",
        "make -C scripts", "make --dir=scripts", "make -fx.mk", "npm --prefix scripts test",
        "/bin/wc data.csv", "wc 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
        "./none", "unheard-of x.py", "find . -exec ./run '{}' \\;",
        "sort --compress-program=./run x",
        # A protected name: its content is run later.
        "cp data.csv scripts/go.sh", "mv x.sh .git/hooks/pre-commit",
    ],
)  # fmt: skip
async def test_any_other_command_is_permitted_exactly_only(folder: Path, command: str) -> None:
    assert await scope(folder, command) is None


@pytest.mark.parametrize(
    ("command", "free", "bound"),
    [
        ("date >> data.csv", "data.csv, new", ""),
        ('echo "$(date)" >>./data.csv', "data.csv", ""),
        ("python3 -c 'print(1)' y.py > new && ls 2>data.csv", "new, data.csv", "y.py"),
        # The output is read too, under another name as well.
        ("sort data.csv > data.csv", "", "data.csv"),
        ("sh -c 'cat data.csv' > link.csv", "", "data.csv"),
        ("bash x.sh >> x.sh", "", "x.sh"),
        ("python3 -c 'a->x.py'", "", "x.py"),
    ],
)
async def test_an_output_of_an_exact_command_may_change(
    folder: Path, command: str, free: str, bound: str
) -> None:
    (folder / "link.csv").symlink_to("data.csv")
    tool, given = command_tool(folder), ShellCommand(command)
    before = await tool.examine(given, CONTEXT)
    for name in filter(None, free.split(", ")):
        (folder / name).write_text("two")
        assert (await tool.examine(given, CONTEXT)).facts == before.facts
    for name in filter(None, bound.split(", ")):
        (folder / name).write_text("two")
        assert (await tool.examine(given, CONTEXT)).facts != before.facts
        (folder / name).write_text("one")


async def test_an_untrusted_output_and_the_place_of_an_output_stay_bound(folder: Path) -> None:
    tool, given = command_tool(folder), ShellCommand("date >> data.csv")
    clean = (await tool.examine(given, CONTEXT)).facts
    Root(folder).write("data.csv", b"theirs", untrusted=True)
    theirs = (await tool.examine(given, CONTEXT)).facts
    (folder / "data.csv").unlink()
    (folder / "data.csv").symlink_to("x.py")
    elsewhere = (await tool.examine(given, CONTEXT)).facts
    assert clean not in (theirs, elsewhere)
