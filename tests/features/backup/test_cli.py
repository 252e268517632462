"""`elwood backup`: taken, listed and put in place from a shell."""

from pathlib import Path

import pytest

from elwood.foundation.storage.disk import holding
from tests.app.test_cli import configured, elwood
from tests.features.backup.keeping import contents, furnish, is_kept, scope


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a state folder and a workspace in which something stands."""
    here = scope(tmp_path)
    furnish(here)
    (here.workspace / "away").symlink_to("/etc")
    paths = f'[paths]\nstate = "{here.state}"\nworkspace = "{here.workspace}"\n'
    configured(tmp_path, f"{paths}[backup]\nkeep = 1\n")
    return tmp_path


def test_a_round_trip(home: Path) -> None:
    here = scope(home)
    assert "no backups" in elwood(home, "backup", "list").stderr
    taken = elwood(home, "backup", "now")
    assert taken.returncode == 0
    [path] = here.folder.glob("elwood-*.tar.gz")
    assert taken.stdout.startswith(f"{path}: ")
    assert "not in it: workspace/away (a link that leads elsewhere, to /etc)" in taken.stdout
    header, row = elwood(home, "backup", "list").stdout.splitlines()
    assert header.split() == ["number", "taken", "size", "age"]
    assert row.split()[0] == "1"
    before = contents(here.state, is_kept)
    (here.state / "memory" / "note.md").write_text("changed")
    asked = elwood(home, "backup", "restore", "1")
    assert (asked.returncode, "say --yes" in asked.stderr) == (1, True)
    assert (here.state / "memory" / "note.md").read_text() == "changed"
    done = elwood(home, "backup", "restore", "1", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(here.state, is_kept) == before
    [aside] = here.state.glob("before-restore-*")
    assert f"What was there before is in {aside}; " in done.stdout
    assert (aside / "memory" / "note.md").read_text() == "changed"


def test_what_cannot_be_restored_is_said(home: Path) -> None:
    here = scope(home)
    missing = elwood(home, "backup", "restore", "7", "--yes")
    assert (missing.returncode, "no backup number 7" in missing.stderr) == (1, True)
    bad = home / "bad.tar.gz"
    bad.write_bytes(b"nothing")
    damaged = elwood(home, "backup", "restore", str(bad), "--yes")
    assert (damaged.returncode, "is damaged" in damaged.stderr) == (1, True)
    elwood(home, "backup", "now")
    with holding(here.state):
        assert elwood(home, "backup", "list").returncode == 0
        running = elwood(home, "backup", "restore", "1", "--yes")
    assert (running.returncode, "already uses the state folder" in running.stderr) == (1, True)
    assert elwood(home, "backup").returncode == 2
