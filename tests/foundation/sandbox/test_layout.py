"""What of the workspace is kept from commands."""

from pathlib import Path

import pytest

from elwood.foundation.sandbox.command import Command, Executor
from elwood.foundation.sandbox.layout import MAX_COVERED, MAX_DEPTH, guarded
from tests.foundation.sandbox.scene import Home


def put(workspace: Path, *names: str) -> None:
    for name in names:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kept")


def guard(home: Home) -> dict[str, list[str]]:
    """Name what is mounted in the workspace, by kind."""
    kinds: dict[str, list[str]] = {}
    for mount in guarded(home.workspace) or ():
        kinds.setdefault(mount.kind, []).append(mount.place.removeprefix("/workspace").lstrip("/"))
    return kinds


def test_secrets_are_found_by_name_to_a_certain_depth(home: Home) -> None:
    names = (".env", "app/prod.PEM", ".ssh/config", "notes.txt", "a/b/.env")
    put(home.workspace, *names, f"{'d/' * MAX_DEPTH}.env")
    (home.workspace / ".envrc").symlink_to("notes.txt")
    found = guard(home)
    assert set(found["hidden file"]) == {".env", "app/prod.PEM", "a/b/.env"}
    assert found["hidden folder"] == [".ssh"]


def test_the_nearest_secrets_are_covered_first(home: Home) -> None:
    put(home.workspace, *(f"deep/er/{number}.pem" for number in range(MAX_COVERED)), ".env")
    found = guard(home)["hidden file"]
    assert found[0] == ".env"
    assert len(found) == MAX_COVERED


def test_instructions_and_git_hooks_are_found(home: Home) -> None:
    put(home.workspace, "AGENTS.md", "SOUL.md", "skills/a/SKILL.md", ".git/config", ".git/HEAD")
    (home.workspace / ".git/hooks").mkdir()
    (home.workspace / "TOOLS.md").symlink_to("AGENTS.md")
    found = guard(home)
    assert found["shared"] == ["", ".git"]
    assert set(found["readonly"]) == {"AGENTS.md", "SOUL.md", "skills", ".git/hooks", ".git/config"}


def test_the_git_file_of_a_worktree_is_kept_too(home: Home) -> None:
    put(home.workspace, ".git")
    assert guard(home)["readonly"] == [".git"]


def test_a_folder_that_is_gone_is_no_place_for_a_command(home: Home) -> None:
    assert guarded(home.workspace, "gone") is None


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
    ],
)
async def test_what_is_guarded_stays_as_it_is(hands: Executor, home: Home, attack: str) -> None:
    names = [".env", "sub/.env", ".ssh/id", "AGENTS.md", "skills/a/SKILL.md", ".git/config"]
    put(home.workspace, *names, ".git/hooks/post-merge")
    modes = {name: (home.workspace / name).stat().st_mode for name in names}
    outcome = await hands.run(Command(argv=("sh", "-c", attack), timeout=30))
    assert b"kept" not in outcome.output
    for name in names:
        assert (home.workspace / name).read_text() == "kept"
        assert (home.workspace / name).stat().st_mode == modes[name]
    assert [path.name for path in (home.workspace / ".git/hooks").iterdir()] == ["post-merge"]


async def test_git_works_in_the_workspace(hands: Executor, home: Home) -> None:
    text = (
        "git init -q . && echo a > a && git add a && "
        "git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline"
    )
    outcome = await hands.run(Command(argv=("sh", "-c", text), timeout=30))
    assert outcome.code == 0, outcome.output
