"""Committed files with the names of secrets are not shown without asking."""

import shlex
from pathlib import Path

import pytest

from tests.features.shell.command_running import git, looked

NAMES = (".env", "deep/er/prod.PEM", ".aws/x/run.json", "strange\nname/.env", "café/id_rsa")
PLAIN = (".env.example", "a.txt", "café/b.txt")
REFUSED = "which may contain secrets; name other paths; to ask the owner instead, use bash -c"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Commit secrets twice; change one of them again, and one in the index."""

    def write(names: tuple[str, ...], text: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text} \n" * 9)

    git(tmp_path, "init", "-q", "-b", "main")
    for number in ("one", "two"):
        write(NAMES, f"KEY={number}")
        write(PLAIN, f"plain {number}")
        git(tmp_path, "add", "-f", ".")
        git(tmp_path, "commit", "-q", "-m", number)
        git(tmp_path, "branch", number)
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "three")
    write((*NAMES[:2], *PLAIN[:2]), "KEY=three")
    write(PLAIN[:2], "plain three")
    git(tmp_path, "add", "deep", "a.txt")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "git diff", "git diff HEAD", "git diff --cached", "git diff --staged -U9", "git diff one",
        "git diff one HEAD", "git diff one..HEAD", "git diff one...main", "git diff -R one HEAD",
        "git diff --word-diff one", "git diff --check one", "git diff -C -M one", "git diff -- .",
        "git diff --diff-filter=M one", "git diff -S KEY=one one", "git diff one -- deep 'café'",
        "git diff --name-status --check one", "git diff --exit-code one", "git diff -W 'one'",
        "git log -p", "git log --patch", "git log -u", "git log -U1", "git log --patch-with-stat",
        "git log -p --graph --oneline", "git log -p --reverse -n 2", "git log -p --all",
        "git log -p --word-diff", "git log -p -S KEY", "git log -G KEY -p", "git log -p one",
        "git log -p -- deep", "git log --check", "git log -p --format=%H", "git log -p -M -C -R",
        "git log -p --pretty=format:%s --stat", "git log -p --max-count 2", "git log -p -- 'café'",
        "git diff one | cat", "git log -p | head -n 50 | tail -n 40", "git log -p --grep o -- .",
    ],
)  # fmt: skip
async def test_no_secret_is_shown(repository: Path, command: str) -> None:
    printed = await looked(repository, command)
    as_it_is = git(repository, *shlex.split(command.partition(" |")[0])[1:])
    assert "KEY" not in printed
    assert ("KEY" in as_it_is) is (" --name-status --check" not in command), as_it_is
    assert REFUSED in printed


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("git log", "three"),
        ("git log --stat", ".env"),
        ("git diff --stat one -- a.txt", "a.txt | 18"),
        ("git diff one -- a.txt", "+plain three"),
        ("git log -p -- 'café/b.txt'", "+plain two"),
    ],
)
async def test_other_files_are_shown(repository: Path, command: str, shown: str) -> None:
    assert shown in await looked(repository, command)


async def test_a_file_without_a_name_is_not_shown(repository: Path) -> None:
    """By its hash git shows the content of a file without a name."""
    blobs = [git(repository, "rev-parse", f"{name}:.env").strip() for name in ("one", "two")]
    tree = git(repository, "rev-parse", "one:.aws/x").strip()
    assert "KEY" in git(repository, "diff", *blobs)
    for words in (" ".join(blobs), "..".join(blobs), f"{tree} HEAD", f"one {blobs[1][:9]}"):
        assert "use bash -c" in await looked(repository, f"git diff {words}")


async def test_a_renamed_file_is_not_followed_to_a_secret(repository: Path) -> None:
    git(repository, "commit", "-qam", "all")
    git(repository, "mv", "deep/er/prod.PEM", "plain.txt")
    git(repository, "commit", "-qm", "moved")
    command = "git log -p --follow -- plain.txt"
    assert "KEY=one" in git(repository, *command.split()[1:])
    assert "use bash -c" in await looked(repository, command)
    git(repository, "config", "log.follow", "true")
    assert "KEY=one" not in await looked(repository, command.replace(" --follow", ""))


async def test_without_a_repository_git_compares_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").write_text(f"KEY={name}\n")
        (tmp_path / f"{name}.txt").write_text(f"plain {name}\n")
    assert "+plain b" in await looked(tmp_path, "git diff a.txt b.txt")
    assert "KEY" in git(tmp_path, "diff", "--no-index", "a", "b")
    assert "KEY" not in await looked(tmp_path, "git diff a b")
