"""Stored, named or typed text cannot control the operator's terminal, in any command."""

import argparse
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path

import pytest

from elwood.agent.session.inspection import ActorSeen, Inspection, ProcessSeen
from elwood.app.cli import make_parser
from elwood.features.control.view import encode_fitting
from elwood.foundation.net import control as wire
from tests.app.test_cli import KEPT

# Into the clipboard, the title, wipe, the same as C1, right to left, back over the line; and a
# visible part.
HOSTILE = (
    "ev\x1b]52;c;ZXZpbA==\x07\x1b]0;t\x07\x1b[2J\x9b2J\x85\u202e\u2066\u200b\ufeff\U000e0041"
    "\r\x08\x7f\u2028il"
)
# YAML accepts control characters only as escapes.
QUOTED = "".join(f"\\u{ord(char):04x}" for char in HOSTILE)
FORBIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200b\ufeff\U000e0000-\U000e007f]"
)
CONFIG = """
[paths]
state = "{home}/state"
workspace = "{home}/workspace"
runtime = "{home}/run"
[models.roles]
default.model = "offline/rules"
cheap.model = "offline/rules"
[providers.offline]
api = "offline"
"""
# Values of arguments with these names, so that a command has output; other arguments get hostile
# text.
TYPED = {"key": "evil", "query": "note", "session": HOSTILE, "id": HOSTILE, "which": "1"}
TYPED |= {"name": "evil", "source": "workspace", "text": f"read {HOSTILE}"}


def commands() -> dict[str, argparse.ArgumentParser]:
    """Find all commands, as the features declare them."""
    found = {}
    left = [("", make_parser())]
    while left:
        typed, parser = left.pop()
        groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        for group in groups:
            left += [(f"{typed} {name}".strip(), one) for name, one in group.choices.items()]
        if typed and not any(group.required for group in groups):
            found[typed] = parser
    return found


COMMANDS = commands()


def command_lines(typed: str) -> Iterator[list[str]]:
    """Yield command lines: a valid one, one per switch, and a hostile one."""
    parser = COMMANDS[typed]
    actions = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    named = [a for a in actions if not a.option_strings]
    wanted = [a for a in named if a.nargs not in ("?", "*") or a.dest == "text"]
    words = typed.split()
    good = [TYPED.get(action.dest, HOSTILE) for action in wanted]
    yield [*words, *good]
    for action in actions:
        # `inspect --watch` draws what `inspect` prints until Ctrl-C.
        if action.nargs == 0 and action.dest not in ("help", "version", "watch"):
            yield [*words, *good, action.option_strings[0]]
    if wanted:
        yield [*words, *(HOSTILE for _ in wanted)]


def run_at_terminal(home: Path, *typed: str, lines: int = 0, **environ: str) -> str:
    """Run a command at a terminal, of 80 columns if it has *lines*; return its output."""
    master, slave = os.openpty()
    if lines:
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "elwood", "--config", str(home / "config.toml"), *typed],
        env={**kept, "HOME": str(home), "TMPDIR": str(home), **environ},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    ):
        os.close(slave)
        shown = b""
        try:
            while more := os.read(master, 65_536):
                shown += more
        except OSError:  # the terminal is closed
            pass
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


@contextmanager
def serve_hostile(home: Path) -> Iterator[None]:
    """Act as an Elwood that sends hostile text."""
    seen = Inspection(
        ProcessSeen(HOSTILE, started=0.0), (ActorSeen(HOSTILE, "running", 1.0, last_crash=HOSTILE),)
    )
    (home / "run").mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        wire.bind(listener, home / "run" / wire.NAME)
        listener.listen()

        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                client, _ = listener.accept()
                with client:
                    line = client.makefile("rb").readline()
                    if not line:  # a connection that only checks whether it is up
                        continue
                    asked = wire.decode(line, wire.ControlRequest)
                    text = encode_fitting(seen) if asked.command == "inspect" else HOSTILE
                    client.sendall(wire.encode(wire.ControlAnswer(ok=True, text=text)))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
                wire.connect(last, home / "run" / wire.NAME)
            thread.join()


@pytest.fixture(scope="module")
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder and a workspace in which all names and texts are hostile."""
    home = tmp_path_factory.mktemp("stored")
    (home / "config.toml").write_text(CONFIG.format(home=home))
    run_at_terminal(home, "init")
    (home / "workspace" / HOSTILE).write_text(HOSTILE)
    run_at_terminal(home, "once", "--session", "made", f"read {HOSTILE}")
    run_at_terminal(home, "backup", "now")
    sessions, memory = home / "state" / "sessions", home / "state" / "memory"
    shutil.copy(sessions / "made.jsonl", sessions / f"{HOSTILE}.jsonl")
    memory.mkdir(exist_ok=True)
    (memory / "evil.md").write_text(f"a note {HOSTILE}")
    (memory / f"{HOSTILE}.md").write_text("no key")
    os.mkfifo(home / "workspace" / f"{HOSTILE}.fifo")
    for name in ("evil", HOSTILE):
        folder = home / "workspace" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f'---\nname: evil\ndescription: "{QUOTED}"\n---\nDo.\n')
    return home


# `run` and `start`, the same command, go on until a signal; they print only the log.
@pytest.mark.parametrize("typed", sorted(COMMANDS.keys() - {"run", "start"}))
def test_no_stored_text_controls_the_terminal(
    typed: str, hostile_home: Path, tmp_path: Path
) -> None:
    home = tmp_path / "h"
    shutil.copytree(hostile_home, home, ignore=shutil.ignore_patterns("*.fifo"))
    os.mkfifo(home / "workspace" / f"{HOSTILE}.fifo")
    (home / "config.toml").write_text(CONFIG.format(home=home))
    with serve_hostile(home):
        shown = {tuple(line): run_at_terminal(home, *line) for line in command_lines(typed)}
    found = {line: FORBIDDEN.findall(text) for line, text in shown.items()}
    assert {line: hits for line, hits in found.items() if hits} == {}
    assert "Traceback" not in "".join(shown.values())
    if typed in SHOWING:
        assert "⟨U+001B⟩" in "".join(shown.values()), shown


# Commands known to show some of it; new commands need not be listed.
SHOWING: Sequence[str] = (
    "backup now",
    "memory list",
    "memory search",
    "memory show",
    "pair",
    "once",
    "receipts verify",
    "session list",
    "skills list",
)


def test_once_decides_at_its_terminal(tmp_path: Path) -> None:
    """A question has a line to answer: without a letter in its box the call waits."""
    (tmp_path / "config.toml").write_text(CONFIG.format(home=tmp_path))
    run_at_terminal(tmp_path, "init")
    moved, note = tmp_path / "workspace" / "b", tmp_path / "workspace" / "a"
    note.write_text("hi")
    assert "Allowed once: run_command mv a b" in _answer_once(tmp_path, b"x\ny\n")
    assert moved.read_text() == "hi"
    note.write_text("again")
    shown = _answer_once(tmp_path, b"\n")
    code = re.search(r"To decide: elwood approve (\w+)", shown)
    assert code
    assert moved.read_text() == "hi"
    # Without a running Elwood, the answer names the command that decides.
    remedy = run_at_terminal(tmp_path, "approve", code[1])
    session = re.search(r"--session (\S+)", remedy)
    assert session
    run_at_terminal(tmp_path, "once", "--session", session[1], f"/allow {code[1]} once")
    assert moved.read_text() == "again"


def _answer_once(home: Path, keys: bytes) -> str:
    """Type *keys* below the question of `elwood once`; return the output."""
    master, slave = os.openpty()
    words = ("--config", str(home / "config.toml"), "once", "run mv a b")
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environ = {**kept, "HOME": str(home), "TMPDIR": str(home), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "elwood", *words],
        env=environ, cwd=home, stdin=slave, stdout=slave, stderr=slave,
    ):  # fmt: skip
        os.close(slave)
        shown = b""
        with suppress(OSError):  # the terminal is closed
            while more := os.read(master, 65_536):
                shown += more
                if keys and b"decide later. > " in shown:
                    os.write(master, keys)
                    keys = b""
    os.close(master)
    return shown.decode()
