"""``elwood inspect`` and ``elwood pair``: the drawing, and the client over a real socket."""

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from elwood.agent.session.inspection import (
    ActorSeen,
    DoneSeen,
    Inspection,
    ProcessSeen,
    SessionSeen,
    StuckSeen,
    TroubleSeen,
    Vitals,
    WaitSeen,
)
from elwood.features.control.cli import inspect
from elwood.features.control.view import encode_fitting, render
from elwood.foundation.command_line import CliFailure
from elwood.foundation.net import control as wire
from elwood.foundation.text.lines import width as columns
from tests.app.screens import assert_screen

POLL = WaitSeen("Telegram to answer a poll", 12.0, 70.0)
SEND = WaitSeen("a message to be sent to chat 7", 75.0, 60.0)
PROCESS = ProcessSeen(
    "0.1.0",
    started=1000.0,
    pid=4711,
    python="3.11.7",
    sessions=(
        SessionSeen("tg-1", turn_age=8.0, waiting=2, undelivered=1),
        SessionSeen("tg-9", undelivered=1),
    ),
    memory=54_300_000,
)
SEEN = Inspection(
    PROCESS,
    (
        ActorSeen("health", "running", 11_520.0, 0, 256),
        ActorSeen("outbox", "running", 300.0, 3, 64, 1, "Bug: odd", 300.5, (SEND,)),
        ActorSeen("models", "restarting", 4.0, 0, 32, 2, "OSError: gone", 4.0),
        ActorSeen("sessions", "running", 11_520.0, 0, 256),
        ActorSeen(
            "sessions/tg-1",
            "running",
            11.0,
            0,
            16,
            waits=(WaitSeen("an answer from models (Complete)", 7.0),),
        ),
        ActorSeen("sessions/tg-2", "given up", 90.0, 0, 16, 3, "KeyError: 'x'", 90.0),
        ActorSeen(
            "telegram",
            "running",
            11_520.0,
            waits=(POLL,),
            done=(DoneSeen("sending", "ok", 3.0),),
            troubles=(TroubleSeen("the poll", "Unreachable: no route", 130.0, 4),),
        ),
    ),
    (
        StuckSeen("outbox", "waits for a message to be sent to chat 7, 75 s (limit 60 s)"),
        StuckSeen("sessions/tg-2", "gave up: KeyError: 'x'"),
    ),
    vitals=Vitals(
        "bubblewrap",
        sizes={"state": 12_400_000},
        budget={"tokens": 30_138, "usd": 1.7, "limit_tokens": 5_000_000, "limit_usd": 2.0},
        last_error="tools: tool crashed",
        last_error_at=12_000.0,
    ),
)


def drawn(inspection: Inspection, *, now: float, width: int) -> str:
    lines = render(inspection, now=now, width=width)
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_tree_looks_like_this(width: int) -> None:
    assert_screen(f"inspect-{width}", drawn(SEEN, now=12_520.0, width=width) + "\n")


def test_a_long_error_is_shown_completely() -> None:
    """The message has a remedy."""
    error = "it was refused, " * 8 + "so ask for a new one"
    seen = ActorSeen("it", "running", 1.0, troubles=(TroubleSeen("asking", error, 1.0, 1),))
    shown = drawn(Inspection(ProcessSeen("1", 0.0), (seen,)), now=0.0, width=60)
    assert " ".join(shown.split()).endswith("so ask for a new one")


@pytest.mark.parametrize("width", [20, 40])
def test_it_fits_the_terminal(width: int) -> None:
    lines = drawn(SEEN, now=12_520.0, width=width).splitlines()
    assert max(columns(line) for line in lines) <= width


def test_an_error_cannot_control_the_terminal() -> None:
    evil = "a\x1b]0;title\x07\x1b[2J\r\nb\u202ec"
    inspection = Inspection(
        ProcessSeen(evil, 0.0),
        (ActorSeen(evil, "running", 1.0, last_crash=evil),),
        (StuckSeen(evil, evil),),
    )
    shown = drawn(inspection, now=1.0, width=300)
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


def test_a_warning_has_no_actor_and_omitted_actors_are_counted() -> None:
    inspection = Inspection(ProcessSeen("1", 0.0), (), (StuckSeen("", "it rains"),), left_out=7)
    shown = drawn(inspection, now=0.0, width=80).splitlines()
    assert shown[1:] == ["! it rains", "… and 7 more"]


# --- the client ---------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="elwood-") as name:
        yield Path(name)


@contextmanager
def service(folder: Path, answer: bytes) -> Iterator[None]:
    """Send one client the *answer* to any request, in a thread."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / wire.NAME))
        listener.listen()

        def run() -> None:
            client, _ = listener.accept()
            with client, client.makefile("rwb") as lines:
                lines.readline()
                lines.write(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join()


INSPECTED = wire.encode(wire.ControlAnswer(True, encode_fitting(SEEN)))


def test_inspect_prints_the_tree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with service(folder, INSPECTED):
        assert inspect(folder, as_json=False) == 0
    assert "├─ outbox" in capsys.readouterr().out


def test_status_is_a_few_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with service(folder, INSPECTED):
        assert inspect(folder, as_json=False, short=True) == 0
    out = capsys.readouterr().out
    assert out.startswith("Elwood 0.1.0 · Python 3.11.7 · pid 4711 · up")
    assert "\n! telegram: the poll: Unreachable: no route\n" in out


def test_json_is_the_whole_inspection_on_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service(folder, INSPECTED):
        assert inspect(folder, as_json=True) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert msgspec.json.decode(out, type=Inspection) == SEEN
    assert json.loads(out)["process"]["pid"] == 4711


@pytest.mark.parametrize("ok", [True, False])
def test_the_result_is_printed(folder: Path, ok: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with service(folder, wire.encode(wire.ControlAnswer(ok, "so it is"))):
        assert wire.print_response(folder, "pair", "K7Q2") == (0 if ok else 1)
    assert capsys.readouterr() == (("so it is\n", "") if ok else ("", "so it is\n"))


@pytest.mark.parametrize("left_behind", [True, False])
def test_without_a_running_elwood_the_message_is_clear(
    folder: Path, left_behind: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if left_behind:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / wire.NAME))
    with pytest.raises(CliFailure, match="Elwood is not running: no program listens on"):
        inspect(folder, as_json=False)
    assert wire.print_response(folder, "pair", "K7Q2") == 1
    assert capsys.readouterr().err.startswith("Elwood is not running: no program listens on ")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "cannot read"),
        (b"hello\n", "another version"),
        (b'{"ok":true', "ended too early"),
        (b"x" * (wire.MAX_LINE + 1), "too long"),
        (wire.encode(wire.ControlAnswer(False, "no inspect")), "no inspect"),
        (wire.encode(wire.ControlAnswer(True, "{}")), "another version"),
    ],
    ids=["closed", "no JSON", "cut", "endless", "failed", "wrong"],
)
def test_an_invalid_answer_is_a_readable_error(answer: bytes, message: str, folder: Path) -> None:
    with service(folder, answer), pytest.raises(CliFailure, match=message):
        inspect(folder, as_json=False)
