"""`elwood backup`: create, list and restore backups from a shell."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from elwood.app.cli import main
from elwood.features.backup.store import take
from elwood.foundation.storage.disk import lock_state
from tests.app.test_cli import elwood, write_config
from tests.features.backup.keeping import NOW, contents, furnish, is_kept, scope
from tests.journeys.service import ROOT


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a state folder and a workspace with content."""
    here = scope(tmp_path)
    furnish(here)
    (here.workspace / "away").symlink_to("/etc")
    paths = f'[paths]\nstate = "{here.state}"\nworkspace = "{here.workspace}"\n'
    write_config(tmp_path, f"{paths}[backup]\nkeep = 1\n")
    return tmp_path


def test_a_round_trip(home: Path) -> None:
    here = scope(home)
    assert "no backups" in elwood(home, "backup", "list").stderr
    taken = elwood(home, "backup", "now")
    assert taken.returncode == 0
    [path] = here.folder.glob("elwood-*.tar.gz")
    assert taken.stdout.startswith(f"{path}: ")
    assert (
        "not fully in the backup: workspace/away (it is a link out of its folder, to /etc)"
        in taken.stdout
    )
    header, row = elwood(home, "backup", "list").stdout.splitlines()
    assert header.split() == ["number", "when", "time", "size", "file"]
    assert row.split()[0] == "1"
    before = contents(here.state, is_kept)
    (here.state / "memory" / "note.md").write_text("changed")
    asked = elwood(home, "backup", "restore", "1")
    assert (asked.returncode, "use --yes" in asked.stderr) == (1, True)
    assert (here.state / "memory" / "note.md").read_text() == "changed"
    done = elwood(home, "backup", "restore", "1", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(here.state, is_kept) == before
    [aside] = here.state.glob("before-restore-*")
    assert f"The previous files are in {aside}. " in done.stdout
    assert (aside / "memory" / "note.md").read_text() == "changed"


# Mounts an overlay over the folder $1: files that change are on another file system than their
# folder.  Then it runs the other words.
OVERLAY = """
mount -t tmpfs none "$2" && mkdir "$2/upper" "$2/work" && \\
mount -t overlay -o "userxattr,lowerdir=$1,upperdir=$2/upper,workdir=$2/work" none "$1" || exit 99
cd / && echo changed > "$1/state/memory/note.md" && shift 2 && exec "$@"
"""


def test_a_restore_on_an_overlay_of_two_file_systems(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert elwood(home, "backup", "now").returncode == 0
    config = home / ".config" / "elwood" / "config.toml"
    command = [sys.executable, "-m", "elwood", "--config", config, "backup", "restore", "1"]
    again = f"{shlex.join(map(str, command))} --yes; cat {home}/state/memory/note.md"
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", OVERLAY, "sh"]
    done = subprocess.run(
        [*isolated, home, tmp_path_factory.mktemp("disk"), "sh", "-c", again],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)},
    )
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"an overlay cannot be mounted here: {done.stderr}")
    assert done.stderr == ""
    assert "Restored " in done.stdout
    assert done.stdout.endswith("\nhello")


def test_a_failed_restore_is_reported(home: Path) -> None:
    here = scope(home)
    missing = elwood(home, "backup", "restore", "7", "--yes")
    assert (missing.returncode, "no backup 7" in missing.stderr) == (1, True)
    bad = home / "bad.tar.gz"
    bad.write_bytes(b"nothing")
    damaged = elwood(home, "backup", "restore", str(bad), "--yes")
    assert (damaged.returncode, "is damaged" in damaged.stderr) == (1, True)
    elwood(home, "backup", "now")
    with lock_state(here.state):
        assert elwood(home, "backup", "list").returncode == 0
        running = elwood(home, "backup", "restore", "1", "--yes")
    assert (running.returncode, "already uses the state folder" in running.stderr) == (1, True)
    assert elwood(home, "backup").stdout.startswith("number")  # the list


def test_a_reset_moves_all_but_workspace_and_backups_aside(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = scope(home)

    def reset(*words: str) -> tuple[int, str]:
        config = str(home / ".config" / "elwood" / "config.toml")
        code = main(["--config", config, "reset", *words])
        out, err = capsys.readouterr()
        return code, out + err

    take(here, clock=lambda: NOW, keep=1)
    before, workspace = contents(here.state, is_kept), contents(here.workspace)
    code, said = reset()
    assert (code, "use --yes" in said) == (1, True)
    with lock_state(here.state):
        code, said = reset("--yes")
    assert (code, "already uses the state folder" in said) == (1, True)
    assert contents(here.state, is_kept) == before
    code, said = reset("--yes")
    [aside] = here.state.glob("before-reset-*")
    assert (code, f"The previous data is in {aside}." in said) == (0, True)
    assert contents(here.state, is_kept) == {}
    assert contents(here.workspace) == workspace
    assert len([*here.folder.iterdir()]) == 1
    assert "there is no data to move aside" in reset("--yes")[1]
    back = said.splitlines()[-1].split("`")[-2]  # as printed
    subprocess.run(["sh", "-c", back], check=True)
    assert contents(here.state, is_kept) == before
