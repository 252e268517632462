"""`elwood skills`: show, install and remove from a shell; nothing of a repository runs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.app.test_cli import elwood, write_config

MANUAL = "---\nname: pdf\ndescription: Fill forms.\n---\nDo it.\n"


def test_a_skill_is_shown_installed_and_removed(tmp_path: Path) -> None:
    write_config(tmp_path, "")
    offered = tmp_path / "offered"
    (offered / "scripts").mkdir(parents=True)
    (offered / "SKILL.md").write_text(MANUAL)
    (offered / "scripts/go.sh").write_text("echo daring\x1b[2J\n")
    placed = tmp_path / ".local/state/elwood/workspace/skills/pdf"

    done = elwood(tmp_path, "skills", "install", str(offered))
    assert (done.returncode, placed.exists()) == (1, False)
    assert "echo daring⟨U+001B⟩[2J\n" in done.stdout, "nothing reaches the terminal unseen"
    assert "--yes" in done.stderr

    done = elwood(tmp_path, "skills", "install", str(offered), "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert (placed / "scripts/go.sh").is_file()
    assert f"installed from {offered} " in elwood(tmp_path, "skills").stdout
    again = elwood(tmp_path, "skills", "install", str(offered), "--yes")
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert "Install the skill" not in again.stdout, "unavailable skills are hidden"

    assert elwood(tmp_path, "skills", "remove", "pdf").returncode == 1
    assert placed.exists()
    assert elwood(tmp_path, "skills", "remove", "pdf", "--yes").returncode == 0
    assert not placed.exists()


@pytest.mark.parametrize(
    "source", ["/nonexistent", "https://127.0.0.1:1/x", "http://127.0.0.1:1/x"]
)
def test_an_unusable_source_is_reported(tmp_path: Path, source: str) -> None:
    write_config(tmp_path, "")
    done = elwood(tmp_path, "skills", "install", source, "--yes")
    assert done.returncode == 1
    assert source in done.stderr
    assert "Traceback" not in done.stderr


def test_a_repository_is_read_and_nothing_of_it_runs(tmp_path: Path) -> None:
    """Nor its attributes, modules and hooks, nor the user's settings."""
    write_config(tmp_path, "")
    mark, repository = tmp_path / "ran", tmp_path / "served"
    skill = repository / "more/pdf"
    (skill / "hooks").mkdir(parents=True)
    (skill / "SKILL.md").write_text(MANUAL)
    (skill / "hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / ".gitmodules").write_text('[submodule "a"]\n\tpath = a\n\turl = ext::sh\n')
    (tmp_path / ".gitconfig").write_text(
        f'[filter "evil"]\n\tsmudge = touch {mark}\n[core]\n\thooksPath = {skill}/hooks\n'
    )
    who = ("-c", "user.name=a", "-c", "user.email=a@e.example")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *who, *words], cwd=repository, check=True, env=plain(tmp_path))
    # The git of this machine, with one address redirected.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(
        "#!/bin/sh\nexport GIT_ALLOW_PROTOCOL=file PATH=/usr/bin:/bin\n"
        f'exec git -c url.file://{repository}.insteadOf=https://skills.example/x "$@"\n'
    )
    (tmp_path / "bin/git").chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    typed = ("skills", "install", "https://skills.example/x", "--yes")
    done = elwood(tmp_path, *typed, PATH=path)
    assert (done.returncode, "it has no SKILL.md" in done.stderr) == (1, True)
    done = elwood(tmp_path, *typed, "--folder", "more/pdf", PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"touch {mark}" in done.stdout
    placed = tmp_path / ".local/state/elwood/workspace/skills/pdf"
    assert (placed / "SKILL.md").read_text() == MANUAL
    assert "from https://skills.example/x (more/pdf) " in elwood(tmp_path, "skills").stdout
    assert not mark.exists()


def plain(home: Path) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return {**kept, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
