"""The parts of the workspace that are hidden from commands."""

import socket
from pathlib import Path

import pytest

from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.command import Command, Executor
from elwood.foundation.sandbox.layout import (
    INSTRUCTIONS,
    MAX_COVERED,
    MAX_SECONDS,
    Layout,
    SandboxContext,
    hidden,
)
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox.scene import Home


def create_files(workspace: Path, *names: str) -> None:
    for name in names:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kept")


async def make_layout(home: Home) -> Layout:
    context = SandboxContext(
        workspace=home.workspace, state=home.state, settings=SandboxSettings(), blocking=inline
    )
    return await context.layout()


async def mounts_of(home: Home) -> dict[str, list[str]]:
    """Return the mounts in the workspace, by kind."""
    layout = await make_layout(home)
    kinds: dict[str, list[str]] = {}
    for mount in layout.mounts:
        kinds.setdefault(mount.kind, []).append(mount.place.removeprefix("/workspace").lstrip("/"))
    return kinds


async def test_secrets_are_found_at_any_depth(home: Home) -> None:
    deep = f"{'d/' * 40}.env"
    names = (".env", "app/prod.PEM", ".ssh/keys/config", "notes.txt", "a/b/.env", deep)
    create_files(home.workspace, *names, "a/.git/refs/x.pem")
    (home.workspace / ".envrc").symlink_to("notes.txt")
    found = await mounts_of(home)
    seen = {".env", "app/prod.PEM", ".ssh/keys/config", "a/b/.env", deep}
    assert set(found["hidden file"]) == seen
    assert found["hidden folder"] == [".ssh"]


async def test_the_nearest_secrets_are_covered_first(home: Home) -> None:
    create_files(
        home.workspace, *(f"deep/er/{number}.pem" for number in range(MAX_COVERED)), ".env"
    )
    layout = await make_layout(home)
    found = [mount.place for mount in layout.mounts if mount.kind == "hidden file"]
    assert found[0] == "/workspace/.env"
    assert len(found) == MAX_COVERED
    assert "excluded from commits: .env, deep/er/" in layout.note
    assert f"stopped at {MAX_COVERED} of them, so commands may see others" in layout.note


def test_a_search_is_bounded_and_reports_it(home: Home, tmp_path: Path) -> None:
    create_files(home.workspace, ".env", "a/b/.env")
    clock = iter([0.0, 0.0, 0.0, MAX_SECONDS + 1])
    late = hidden(home.workspace, "/workspace", tmp_path / "covers", lambda: next(clock))
    assert (late.names, late.cut) == ([".env"], "2 s")
    whole = hidden(home.workspace, "/workspace", tmp_path / "covers", lambda: 0.0)
    assert (whole.names, whole.cut) == ([".env", "a/b/.env"], "")


async def test_the_git_file_of_a_worktree_is_protected(home: Home) -> None:
    create_files(home.workspace, ".git")
    assert (await mounts_of(home))["readonly"] == [*INSTRUCTIONS, ".git"]


@pytest.mark.parametrize("rung", ["bubblewrap", "docker"], indirect=True)
@pytest.mark.parametrize(
    "attack",
    [
        "cat .env sub/.env; ls .ssh; cat .ssh/id",
        "echo changed > AGENTS.md; rm -f AGENTS.md; mv AGENTS.md x; ln -sf /tmp AGENTS.md",
        "echo changed > skills/a/SKILL.md; mv skills x; rm -rf skills",
        "echo changed > .git/config; echo changed > .git/hooks/pre-commit",
        "mv .git x; mv .git/hooks x; mv .git/config x; rm -rf .git/hooks; chmod 777 .git/config",
        "echo changed > .env; mv .env x; rm -f .env",
        "echo changed > sub/.git/config; rm -rf sub/.git/hooks; mv sub/.git x",
        "cd .git/modules/a/m; echo changed > config; mv hooks x; cd ..; mv m x",
    ],
)
async def test_guarded_files_are_unchanged(hands: Executor, home: Home, attack: str) -> None:
    names = [".env", "sub/.env", ".ssh/id", "AGENTS.md", "skills/a/SKILL.md", ".git/config"]
    names += ["sub/.git/config", "sub/.git/hooks/x", ".git/modules/a/m/config"]
    names += [".git/modules/a/m/HEAD", ".git/modules/a/m/hooks/x"]
    create_files(home.workspace, *names, ".git/hooks/post-merge")
    modes = {name: (home.workspace / name).stat().st_mode for name in names}
    outcome = await hands.run(Command(argv=("sh", "-c", attack), timeout=30))
    assert b"kept" not in outcome.output
    for name in names:
        assert (home.workspace / name).read_text() == "kept"
        assert (home.workspace / name).stat().st_mode == modes[name]
    assert [path.name for path in (home.workspace / ".git/hooks").iterdir()] == ["post-merge"]


@pytest.mark.parametrize("rung", ["bubblewrap", "docker"], indirect=True)
async def test_a_socket_of_the_machine_is_hidden(hands: Executor, home: Home) -> None:
    text = "test -e sub/s && ! test -S sub/s"
    with socket.socket(socket.AF_UNIX) as listener:
        (home.workspace / "sub").mkdir()
        listener.bind(str(home.workspace / "sub/s"))
        outcome = await hands.run(Command(argv=("sh", "-c", text), timeout=30))
    assert outcome.code == 0
    assert "sub/s" in outcome.note


async def test_git_works_in_the_workspace(hands: Executor, home: Home) -> None:
    text = (
        "git init -q . && echo a > a && git add a && "
        "git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline"
    )
    text = f"{text}; mkdir -p sub; cd sub; {text}"
    outcome = await hands.run(Command(argv=("sh", "-c", text), timeout=30))
    assert outcome.code == 0, outcome.output
