"""`elwood session list` and `export`, read from real journals."""

from datetime import UTC
from pathlib import Path

import pytest

from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import Delivered, Received, Replied, TurnStarted
from elwood.agent.session.reading.cli import export, list_sessions
from tests.agent.session.test_auditing import STORY, write
from tests.app.test_cli import OFFLINE, configured, elwood

ROUTE = Route("console")


async def test_the_list_says_what_is_left_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path, "home", STORY)
    await write(
        tmp_path,
        "quiet",
        [
            (50.0, Received("a", "hello", "me", ROUTE, 0.0)),
            (50.0, TurnStarted("t1", ("a",), 1, "hello")),
            (51.0, Replied("t1", "t1", ("a",), ROUTE, "hi")),
            (52.0, Delivered("t1")),
        ],
    )

    assert list_sessions(tmp_path, UTC, 180.0) == 0

    head, quiet, home = capsys.readouterr().out.splitlines()
    assert head.split() == ["conversation", "last", "active", "turns", "kB", "to", "do"]
    assert quiet.split()[0] == "quiet"
    assert "1970-01-01 00:00 (2 min ago)" in quiet
    assert quiet.endswith("-")
    assert home.endswith("approvals: 1; deliveries: 1")


async def test_a_damaged_conversation_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await write(tmp_path, "home", STORY)
    await write(tmp_path, "sound", STORY)
    path.write_bytes(path.read_bytes().replace(b"make", b"fake", 1))

    assert list_sessions(tmp_path, UTC, 180.0) == 1
    told = capsys.readouterr()
    assert "DAMAGED" in told.err
    assert "sound" in told.out
    assert export(tmp_path, "home", UTC, "md", None, str) == 1
    assert "DAMAGED" in capsys.readouterr().err


async def test_a_file_is_for_its_owner_only(tmp_path: Path) -> None:
    await write(tmp_path, "home", STORY)
    output = tmp_path / "home.html"

    assert export(tmp_path, "home", UTC, "html", output, lambda t: t.replace("make", "***")) == 0

    text = output.read_text()
    assert "do it" in text
    assert "run_command ***" in text
    assert output.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["nobody", "../approvals", "open/home", ""])
async def test_only_conversations_are_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    await write(tmp_path, "home", STORY)
    (tmp_path / "approvals.jsonl").write_text("")

    assert export(tmp_path, name, UTC, "md", None, str) == 1
    assert "no conversation" in capsys.readouterr().err


async def test_the_commands_work_without_a_house(tmp_path: Path) -> None:
    configured(tmp_path, f'[paths]\nstate = "{tmp_path}/state"\n')
    await write(tmp_path / "state", "home", STORY)

    listed = elwood(tmp_path, "session", "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.splitlines()[1].startswith("home")
    done = elwood(tmp_path, "session", "export", "home", "--format", "md")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# home\n")
    assert "It waits." in done.stdout
    assert elwood(tmp_path, "session").returncode == 2


def test_an_empty_house_has_no_conversations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list_sessions(tmp_path, UTC, 0.0) == 1
    assert "no conversation" in capsys.readouterr().err


def test_on_the_console_an_export_stands_in_the_workspace(tmp_path: Path) -> None:
    configured(tmp_path, OFFLINE)
    elwood(tmp_path, "once", "--session", "tea", "hello")

    told = elwood(tmp_path, "once", "--session", "tea", "/export html").stdout

    (file,) = tmp_path.glob("**/exports/tea-*.html")
    assert f"exports/{file.name}" in told
    assert "hello" in file.read_text()
