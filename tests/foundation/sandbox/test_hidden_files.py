"""Git in a repository with hidden tracked files: it works, and they stay as committed."""

import os
import subprocess

import pytest

from elwood.foundation.sandbox.command import Command, CommandOutcome, Executor
from elwood.foundation.sandbox.layout import make_instructions
from tests.foundation.sandbox import scene
from tests.foundation.sandbox.scene import Home

pytestmark = pytest.mark.parametrize("rung", ["bubblewrap", "docker"], indirect=True)

TRACKED = {
    ".env": "KEY=one\n",
    ".env.example": "KEY=\n",
    "a/b/c/d/prod.PEM": "deep\n",
    ".aws/task/run.json": "{}\n",
    "a.txt": "one\n",
}


def run_git(home: Home, *words: str) -> str:
    """Run git outside of the sandbox, like the owner."""
    own = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*")
    done = subprocess.run(("git", *own, *words), cwd=home.workspace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_file(home: Home, name: str, text: str) -> None:
    """Write as the owner; that may be another user."""
    path = home.workspace / name
    path.write_text(text)
    owner = home.workspace.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


@pytest.fixture
def repository(home: Home, rung: tuple[str, str]) -> Home:
    run_git(home, "init", "-q", "-b", "main")
    run_git(home, "config", "user.name", "t")
    run_git(home, "config", "user.email", "t@example.org")
    for name, text in TRACKED.items():
        path = home.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    make_instructions(home.workspace)
    for name in ("skills/a.md", ".agents/a.md"):  # git removes empty folders
        (home.workspace / name).write_text("a")
    run_git(home, "add", "-f", ".")
    run_git(home, "commit", "-qm", "one")
    (home.workspace / "a.txt").write_text("two\n")
    if rung[0] == "docker":
        scene.give_away(home.workspace)
    return home


async def run_shell(hands: Executor, text: str) -> CommandOutcome:
    return await hands.run(Command(argv=("bash", "-c", text), timeout=30))


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("git diff --quiet", " M a.txt"),
        ("git diff && git status", " M a.txt"),
        ("git add -A && git commit -qm two", ""),
        ("git commit -qam two", ""),
        ("git stash && git stash pop", " M a.txt"),
        ("git reset -q --hard", ""),
        ("git checkout -qb other && git commit -qam two && git checkout -q main", ""),
    ],
)
async def test_git_sees_hidden_files_as_unchanged(
    repository: Home, hands: Executor, script: str, status: str
) -> None:
    outcome = await run_shell(hands, script)
    assert outcome.code == (1 if "quiet" in script else 0), outcome.output
    assert b"KEY=one" not in outcome.output
    assert b"\n" not in (await run_shell(hands, "git status -s")).output.strip()
    assert run_git(repository, "status", "-s").rstrip() == status
    for name, text in TRACKED.items():
        if name != "a.txt":
            assert run_git(repository, "show", f"main:{name}") == text
            assert (repository.workspace / name).read_text() == text


@pytest.mark.parametrize(
    "script", ["git add -A", "git add -f .env", "git commit -qam two", "git add -u"]
)
async def test_a_hidden_change_is_not_committed(
    repository: Home, hands: Executor, script: str
) -> None:
    write_file(repository, ".env", "KEY=another\n")
    write_file(repository, "new.key", "of nobody\n")
    outcome = await run_shell(hands, f"{script} && git commit -q --allow-empty -m two")
    assert outcome.code == 0, outcome.output
    assert run_git(repository, "show", "HEAD:.env") == "KEY=one\n"
    assert "new.key" not in run_git(repository, "ls-tree", "-r", "--name-only", "HEAD")
    assert (repository.workspace / ".env").read_text() == "KEY=another\n"
    assert " M .env" in run_git(repository, "status", "-s")


async def test_an_untracked_hidden_file_is_not_added(repository: Home, hands: Executor) -> None:
    write_file(repository, "new.key", "of nobody\n")
    for script in ("git add new.key", "git add -f new.key"):
        outcome = await run_shell(hands, script)
        assert outcome.code, outcome.output
        assert b"new.key" in outcome.output
    assert (await run_shell(hands, "git stash -u && git stash pop")).code == 0
    assert (repository.workspace / "new.key").read_text() == "of nobody\n"


async def test_the_reader_learns_of_hidden_files(repository: Home, hands: Executor) -> None:
    outcome = await run_shell(hands, "cat .env a/b/c/d/prod.PEM .aws/task/run.json .env.example")
    assert b"KEY=one" not in outcome.output
    assert b"deep" not in outcome.output
    assert b"KEY=\n" in outcome.output
    said, _, names = outcome.note.partition(": ")
    assert said == "hidden from commands, and excluded from commits"
    assert sorted(names.split(", ")) == [".aws", ".env", "a/b/c/d/prod.PEM"]


async def test_without_a_secret_there_is_no_note(home: Home, hands: Executor) -> None:
    (home.workspace / "a.txt").write_text("one\n")
    assert (await run_shell(hands, "ls")).note == ""


async def test_covers_are_bounded(repository: Home, hands: Executor) -> None:
    covers = repository.state / "sandbox" / "covers"
    covers.mkdir(parents=True, exist_ok=True)
    for number in range(600):
        (covers / f"{number}-old").touch()
    assert (await run_shell(hands, "true")).code == 0
    assert len(list(covers.iterdir())) == 3
