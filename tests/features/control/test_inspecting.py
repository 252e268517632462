"""``elwood inspect`` and ``elwood pair``: the drawing, and the client over a real socket."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from elwood.agent.session.inspection import (
    ActorSeen,
    House,
    Inspection,
    SessionSeen,
    StuckSeen,
    TroubleSeen,
    WaitSeen,
)
from elwood.features.control import cli as inspecting
from elwood.features.control.view import fitted, render
from elwood.foundation.net import control as wire
from elwood.foundation.text.lines import width as columns

POLL = WaitSeen("getUpdates", 12.0, 70.0)
SEND = WaitSeen("sendMessage", 75.0, 60.0)
HOUSE = House(
    "0.1.0",
    started=1000.0,
    pid=4711,
    python="3.11.7",
    sessions=(
        SessionSeen("tg-1", turn_age=8.0, waiting=2, undelivered=1),
        SessionSeen("tg-9", undelivered=1),
    ),
)
SEEN = Inspection(
    HOUSE,
    (
        ActorSeen("health", "running", 11_520.0, 0, 256),
        ActorSeen("outbox", "running", 300.0, 3, 64, 1, "Bug: odd", 300.5, (SEND,)),
        ActorSeen("models", "restarting", 4.0, 0, 32, 2, "OSError: gone", 4.0),
        ActorSeen("sessions", "running", 11_520.0, 0, 256),
        ActorSeen(
            "sessions/tg-1", "running", 11.0, 0, 16, waits=(WaitSeen("Complete from models", 7.0),)
        ),
        ActorSeen("sessions/tg-2", "given up", 90.0, 0, 16, 3, "KeyError: 'x'", 90.0),
        ActorSeen(
            "telegram",
            "running",
            11_520.0,
            waits=(POLL,),
            troubles=(TroubleSeen("the poll", "Unreachable: no route", 130.0, 4),),
        ),
    ),
    (
        StuckSeen("outbox", "sendMessage has taken 75 s (limit 60 s)"),
        StuckSeen("sessions/tg-2", "gave up: KeyError: 'x'"),
    ),
)
GOLDEN = """\
Elwood 0.1.0 · Python 3.11.7 · pid 4711 · up 3 h 12 min · 1 open turn · 2 undelivered
! outbox: sendMessage has taken 75 s (limit 60 s)
! sessions/tg-2: gave up: KeyError: 'x'
  ├─ health    running      3 h 12 min    0/256
! ├─ outbox    running           5 min     3/64  1 restart
! │       waits for sendMessage, 75 s (limit 60 s)
! │       last crash 5 min ago: Bug: odd
  ├─ models    restarting          4 s     0/32  2 restarts
  │       last crash 4 s ago: OSError: gone
  ├─ sessions  running      3 h 12 min    0/256
  │  ├─ tg-1   running            11 s     0/16  turn open for 8 s · 2 waiting · 1 undelivered
  │  │       waits for Complete from models, 7 s
! │  ├─ tg-2   given up           90 s     0/16  3 restarts
! │  │       last crash 90 s ago: KeyError: 'x'
  │  └─ tg-9   asleep                            1 undelivered
  └─ telegram  running      3 h 12 min
          waits for getUpdates, 12 s (limit 70 s)
          the poll failed 4 times in 2 min: Unreachable: no route"""


def test_the_tree_looks_like_this() -> None:
    assert render(SEEN, now=12_520.0, width=100, colour=False) == GOLDEN


def test_colours_change_nothing_but_the_colour() -> None:
    drawn = render(SEEN, now=12_520.0, width=100, colour=True)
    plain = drawn
    for shade in ("\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(shade, "")
    assert plain == GOLDEN
    red = [line for line in drawn.splitlines() if line.startswith("\x1b[31m")]
    assert [line[5:].startswith("! ") for line in red] == [True] * 7


def test_a_long_error_is_told_to_its_end() -> None:
    """What to do about it stands there."""
    error = "it was refused, " * 8 + "so ask for a new one"
    seen = ActorSeen("it", "running", 1.0, troubles=(TroubleSeen("asking", error, 1.0, 1),))
    drawn = render(Inspection(House("1", 0.0), (seen,)), now=0.0, width=60, colour=False)
    assert " ".join(drawn.split()).endswith("so ask for a new one")


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_it_fits_the_terminal(width: int) -> None:
    lines = render(SEEN, now=12_520.0, width=width, colour=False).splitlines()
    assert len(lines) >= len(GOLDEN.splitlines())
    assert max(columns(line) for line in lines) <= width


def test_an_error_cannot_play_with_the_terminal() -> None:
    evil = "a\x1b]0;title\x07\x1b[2J\r\nb\u202ec"
    inspection = Inspection(
        House(evil, 0.0),
        (ActorSeen(evil, "running", 1.0, last_crash=evil),),
        (StuckSeen(evil, evil),),
    )
    drawn = render(inspection, now=1.0, width=300, colour=False)
    assert not [c for c in drawn if not c.isprintable() and c != "\n"]
    assert len(drawn.splitlines()) == 4


def test_a_warning_is_nobodys() -> None:
    inspection = Inspection(House("1", 0.0), (), (StuckSeen("", "it rains"),))
    assert render(inspection, now=0.0, width=80, colour=False).splitlines()[1:] == ["! it rains"]


def test_what_did_not_fit_is_said() -> None:
    inspection = Inspection(House("1", 0.0), (), left_out=7)
    assert render(inspection, now=0.0, width=80, colour=False).endswith("… and 7 more")


# --- the client ---------------------------------------------------------------------------------


class Peer:
    """A house that answers each request of each client by *answer*, on a thread."""

    def __init__(self, folder: Path, answer: Callable[[bytes], bytes]) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / wire.NAME))
        self._socket.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            client, _ = self._socket.accept()
            with client, client.makefile("rwb") as lines:
                line = lines.readline()
                if line == b"end\n":
                    return
                self.requests.append(line)
                lines.write(self._answer(line))

    def close(self, folder: Path) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(folder / wire.NAME))
            last.sendall(b"end\n")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="elwood-") as name:
        yield Path(name)


@pytest.fixture
def speak(folder: Path) -> Iterator[Callable[[Callable[[bytes], bytes]], Peer]]:
    peers: list[Peer] = []

    def start(answer: Callable[[bytes], bytes]) -> Peer:
        peers.append(Peer(folder, answer))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close(folder)


Speak = Callable[[Callable[[bytes], bytes]], Peer]


def house_answer(line: bytes) -> bytes:
    request = wire.decode(line, wire.ControlRequest)
    if request.command == "inspect":
        return wire.encode(wire.ControlAnswer(True, fitted(SEEN)))
    good = request.words[0] == "K7Q2"
    return wire.encode(wire.ControlAnswer(good, f"{request.command} {good}"))


def test_inspect_prints_the_tree(
    folder: Path, speak: Speak, capsys: pytest.CaptureFixture[str]
) -> None:
    speak(house_answer)
    assert inspecting.inspect(folder, as_json=False, watch=False) == 0
    shown = capsys.readouterr()
    assert "├─ outbox" in shown.out
    assert "\x1b" not in shown.out
    assert not shown.err


def test_json_is_the_whole_inspection_on_one_line(
    folder: Path, speak: Speak, capsys: pytest.CaptureFixture[str]
) -> None:
    speak(house_answer)
    assert inspecting.inspect(folder, as_json=True, watch=False) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert msgspec.json.decode(out, type=Inspection) == SEEN
    assert json.loads(out)["house"]["pid"] == 4711


def test_what_was_done_is_said(
    folder: Path, speak: Speak, capsys: pytest.CaptureFixture[str]
) -> None:
    speak(house_answer)
    assert wire.settle(folder, "pair", "K7Q2") == 0
    assert capsys.readouterr() == ("pair True\n", "")
    assert wire.settle(folder, "pair", "XXXX") == 1
    assert capsys.readouterr() == ("", "pair False\n")


@pytest.mark.parametrize("left_behind", [True, False])
def test_without_a_running_elwood_the_message_is_clear(
    folder: Path, left_behind: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if left_behind:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / wire.NAME))
    assert inspecting.inspect(folder, as_json=False, watch=False) == 1
    assert wire.settle(folder, "pair", "K7Q2") == 1
    shown = capsys.readouterr()
    assert not shown.out
    for line in shown.err.splitlines():
        assert line.startswith("No Elwood runs here: nobody listens on ")
        assert line.endswith("Start it with: elwood run")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "does not understand"),
        (b"hello\n", "another version"),
        (b'{"ok":true', "ended too early"),
        (b"x" * (wire.MAX_LINE + 1), "too long"),
        (wire.encode(wire.ControlAnswer(False, "no inspect")), "no inspect"),
        (wire.encode(wire.ControlAnswer(True, "{}")), "another version"),
    ],
    ids=["closed", "no JSON", "cut", "endless", "failed", "wrong"],
)
def test_a_strange_answer_is_an_error_for_people(
    answer: bytes, message: str, folder: Path, speak: Speak, capsys: pytest.CaptureFixture[str]
) -> None:
    speak(lambda line: answer)
    assert inspecting.inspect(folder, as_json=False, watch=False) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_a_socket_is_reached_however_long_its_path_is(tmp_path: Path) -> None:
    """An address has 108 bytes only (unix(7))."""
    path = tmp_path / ("x" * 100) / ("y" * 100) / wire.NAME
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        wire.bind(listener, path)
        listener.listen()
        assert wire.is_reachable(path.parent)


def test_watch_draws_again_until_ctrl_c(folder: Path, speak: Speak) -> None:
    """On a real terminal of 80 by 10: each picture starts at home and fits."""
    speak(house_answer)
    ours, theirs = pty.openpty()
    code = (
        "import signal, sys; from pathlib import Path;"
        "from elwood.features.control.cli import inspect;"
        # A shell starts what runs in the background with SIGINT ignored, and so the tests.
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "sys.exit(inspect(Path(sys.argv[1]), False, True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env=os.environ | {"COLUMNS": "80", "LINES": "10", "NO_COLOR": "1"},
    )
    os.close(theirs)
    try:
        shown = read_until(ours, lambda text: text.count("\x1b[H") >= 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    first = shown.split("\x1b[H")[1].replace("\x1b[K", "").replace("\x1b[J", "")
    lines = first.rstrip("\r\n").split("\r\n")
    assert lines[0].startswith("Elwood 0.1.0")
    assert len(lines) == 9
    assert lines[-1] == "… 10 more lines"
    assert max(columns(line) for line in lines) <= 80


def read_until(terminal: int, enough: Callable[[str], bool]) -> str:
    deadline = time.monotonic() + 60
    shown = b""
    while not enough(shown.decode(errors="ignore")):
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], shown
        shown += os.read(terminal, 65_536)
    return shown.decode()


def test_the_client_starts_without_trio() -> None:
    code = "import sys, elwood.features.control.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "elwood" in loaded
    assert not loaded & {"trio", "httpx2", "attr", "asyncio", "markdown_it"}
    assert "elwood.foundation.runtime" not in done.stdout.split()
