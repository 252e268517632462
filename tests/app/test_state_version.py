"""A state folder has a format: older formats are always read, newer ones are refused."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elwood import __version__
from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry
from elwood.agent.models.ledger import Charged, Ledger
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Session
from elwood.app.cli import main
from elwood.features.backup.restore import restore
from elwood.features.backup.rules import BackupFailed
from elwood.features.backup.store import take
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.foundation.storage.anchors import AnchorEntry, Anchors
from elwood.foundation.storage.version import FORMAT, NAME
from tests.app.test_cli import elwood
from tests.app.test_terminal import COMMANDS, CONFIG, HOSTILE, command_lines
from tests.features.backup.keeping import NOW, furnish, scope
from tests.journeys.test_old_state import ARCHIVES

NEWER = {"format": FORMAT + 1, "elwood": "9.9.9", "something": "else"}
# Commands that read no state of a configured Elwood: `command_lines` gives no arguments for these.
ELSEWHERE = {"demo", "init"}
# The entries of each journal, and of the state that starts a new one.  An older release of Elwood
# does not understand a new type or field.  If this differs from the newest release, write the new
# hash here; else raise FORMAT, and keep a state folder of the previous release
# (tests/fixtures/README.md).
SHAPES = {
    2: {
        "sessions": "a4ba7b7f7238",
        "approvals": "7c77b6ada2c8",
        "usage": "c7d4a87321d0",
        "schedule": "3252d3e11abc",
        "anchors": "251fcc9f6cb1",
    }
}


def shape(entries: Any) -> str:
    """Summarize the structure of a journal of *entries*, without descriptions."""

    def bare(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: bare(v) for k, v in part.items() if k not in ("description", "title")}
        return [bare(one) for one in part] if isinstance(part, list) else part

    schema = json.dumps(bare(msgspec.json.schema(entries)), sort_keys=True)
    return hashlib.sha256(schema.encode()).hexdigest()[:12]


def write_config(folder: Path) -> Path:
    (folder / "config.toml").write_text(CONFIG.format(home=folder))
    return folder / "state"


def run_elwood(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return elwood(folder, "--config", str(folder / "config.toml"), *words)


@pytest.mark.parametrize("typed", sorted(COMMANDS.keys() - ELSEWHERE))
def test_no_command_reads_a_newer_state(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = write_config(tmp_path)
    state.mkdir()
    (state / NAME).write_text(json.dumps(NEWER))
    (state / "schedule.jsonl").write_text("unknown data\n")

    words = ["evil" if word == HOSTILE else word for word in next(command_lines(typed))]
    assert main(["--config", str(tmp_path / "config.toml"), *words]) == 1

    out, err = capsys.readouterr()
    assert f"{state} was written by Elwood 9.9.9 (format {FORMAT + 1}), and this is" in out + err
    assert sorted(path.name for path in state.iterdir()) == ["schedule.jsonl", NAME]
    assert not (tmp_path / "workspace").exists()


def test_the_format_is_written_first(tmp_path: Path) -> None:
    state = write_config(tmp_path)
    assert run_elwood(tmp_path, "once", "help").returncode == 0
    own = {"format": FORMAT, "elwood": __version__}
    assert json.loads((state / NAME).read_text()) == own
    for older in ({"format": 1, "elwood": "0.0.1"}, {"format": FORMAT, "elwood": "0.0.1"}):
        (state / NAME).write_text(json.dumps(older))
        assert run_elwood(tmp_path, "receipts", "verify").returncode == 0
        assert json.loads((state / NAME).read_text()) == older
        assert run_elwood(tmp_path, "once", "help").returncode == 0
        assert json.loads((state / NAME).read_text()) == own


def test_an_edited_format_is_refused_with_a_reason(tmp_path: Path) -> None:
    state = write_config(tmp_path)
    state.mkdir()
    (state / NAME).write_text('{"format": "two"')
    done = run_elwood(tmp_path, "once", "help")
    assert done.returncode == 1
    assert f"{state / NAME} was changed" in done.stderr


def test_a_backup_of_a_newer_format_is_not_restored(tmp_path: Path) -> None:
    newer, here = scope(tmp_path / "newer"), scope(tmp_path / "here")
    furnish(newer)
    furnish(here, "mine")
    (newer.state / NAME).write_text(json.dumps(NEWER))
    taken = take(newer, clock=lambda: NOW, keep=3)
    with pytest.raises(BackupFailed, match=r"was written by Elwood 9\.9\.9"):
        restore(here, taken.path, clock=lambda: NOW + 60)
    assert not (here.state / NAME).exists()
    assert not [one for one in here.state.iterdir() if one.name.startswith("before-restore")]


def test_each_released_format_has_a_folder_to_open() -> None:
    assert ARCHIVES.keys() == {*range(1, FORMAT)}
    assert all(path.exists() for path in ARCHIVES.values())


def test_journal_shapes_change_only_with_the_format() -> None:
    assert {
        "sessions": shape(tuple[Entry, Session]),
        "approvals": shape(tuple[ApprovalEntry, ApprovalBook]),
        "usage": shape(tuple[Charged, Ledger]),
        "schedule": shape(tuple[TimetableEntry, Timetable]),
        "anchors": shape(tuple[AnchorEntry, Anchors]),
    } == SHAPES[FORMAT]
