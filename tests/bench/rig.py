"""Bots and fakes in separate processes, driven and measured from outside."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from elwood.agent.conversation.message import Assistant, Text, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import (
    Delivered,
    Entry,
    Posted,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from tests.fake_telegram import TOKEN

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def spawn(
    module: str, *arguments: str, log: Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python process from this checkout; write its output to *log*."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=keep | {"PYTHONPATH": str(ROOT)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fastest(act: Callable[[], object], times: int = 3) -> float:
    """Return the CPU seconds of the fastest run."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        act()
        spent.append(time.process_time() - start)
    return min(spent)


@contextlib.contextmanager
def run_server(module: str, folder: Path, *arguments: str) -> Iterator[int]:
    """Run a fake; yield its port."""
    port = folder / "port"
    folder.mkdir(parents=True, exist_ok=True)
    port.unlink(missing_ok=True)
    with spawn(module, "--port-file", str(port), *arguments, log=folder / "log") as process:
        deadline = time.monotonic() + 30
        while not port.exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, f"{module} does not start"
            time.sleep(0.01)
        yield int(port.read_text())


def make_turn(chat: int, number: int, said: str, at: float) -> list[Entry]:
    """Return Elwood's entries of a turn of *chat* without calls, as three lines of two."""
    text, turn, id_ = "What shall we have tonight?", f"t{number}", f"tg:4242:{number}"
    route = Route("telegram", chat=str(chat))
    native = msgspec.Raw(msgspec.json.encode([{"type": "text", "text": said}]))
    message = Assistant((Text(said),), "anthropic", "anthropic/claude-sonnet-5-5", native)
    return [
        Received(id_, text, f"tg:{chat}", route, at),
        TurnStarted(turn, (id_,), 1, text),
        Said(turn, message, Usage(100, 25)),
        Replied(turn, turn, (id_,), route, said),
        Posted(turn, 0, f"{chat}:{number}"),
        Delivered(turn),
    ]


class Telegram:
    """The control connection of a fake Bot API, on *line*."""

    def __init__(self, line: http.client.HTTPConnection) -> None:
        self.url = f"http://127.0.0.1:{line.port}"
        self._line = line
        self.sent = 0

    def ask(self, door: str, given: Mapping[str, Any] | None = None) -> Any:
        self._line.request("POST", f"/_/{door}", json.dumps(given or {}))
        return json.loads(self._line.getresponse().read())

    def say(self, chat: int, text: str) -> None:
        """Send a message as a person."""
        self.ask("say", {"text": text, "chat": chat, "user": chat})

    def wait(self, more: int, timeout: float = 60) -> dict[str, Any]:
        """Wait until the bot has polled and has sent *more* messages than at the last wait."""
        self.sent += more
        state: dict[str, Any] = self.ask("wait", {"sent": self.sent, "timeout": timeout})
        assert state["sent"] >= self.sent, f"{self.sent - state['sent']} answers are missing"
        assert state["polled_at"], "nobody polls"
        return state

    def turn(self, chat: int, text: str) -> float:
        """Send a message and wait for the answer; return the seconds until it was sent."""
        before = time.time()
        self.say(chat, text)
        self.wait(1)
        [answer] = self.ask(f"sent?{self.sent - 1}")
        assert answer["chat"] == chat
        seconds: float = answer["at"] - before
        return seconds

    def crowd(self, chats: int) -> list[float]:
        """Send a message from each of *chats* people; return the seconds until each answer."""
        before = self.sent
        began: float = self.ask("crowd", {"chats": chats, "text": "hello"})["at"]
        self.wait(chats, timeout=100)
        sent = self.ask(f"sent?{before}")
        assert sorted(message["chat"] for message in sent) == list(range(1, chats + 1))
        return sorted(message["at"] - began for message in sent)


@contextlib.contextmanager
def run_telegram(folder: Path) -> Iterator[Telegram]:
    """Run a fake Bot API."""
    with run_server("tests.fake_telegram", folder) as port:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        with contextlib.closing(line):
            yield Telegram(line)


@attrs.frozen
class Bot:
    """A running bot; *start* is the time to its first poll in seconds."""

    name: str
    pid: int
    telegram: Telegram
    start: float
    log: Path

    def cpu(self) -> float:
        """Return its CPU seconds in all threads."""
        return time.clock_gettime((~self.pid << 3) | 2)  # see man clock_getres

    def rss(self) -> float:
        """Return its resident memory, in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


@contextlib.contextmanager
def run_floor(folder: Path, models: int, *, durable: bool = False) -> Iterator[Bot]:
    """Run the floor or the durable floor."""
    name = "durable_floor" if durable else "floor"
    with run_telegram(folder / "telegram") as telegram:
        workspace = make_workspace(folder / "workspace")
        before = time.time()
        given = [telegram.url, TOKEN, f"http://127.0.0.1:{models}", str(workspace)]
        given += [str(folder / "journal")] if durable else []
        with spawn(f"tests.bench.{name}", *given, log=folder / "log") as process:
            yield _polling(name, process, telegram, before, folder / "log")


@contextlib.contextmanager
def run_elwood(folder: Path, models: int, *, chats: int = 100, **more: str) -> Iterator[Bot]:
    """Run Elwood; *more* are settings (``models__in_flight="9"``)."""
    with run_telegram(folder / "telegram") as telegram:
        config = write_config(folder, telegram, models, chats)
        settings = {f"ELWOOD__{name.upper()}": value for name, value in more.items()} | KEYS
        given = ("--config", str(config), "run")
        before = time.time()
        with spawn("elwood", *given, log=folder / "log", **settings) as process:
            yield _polling("elwood", process, telegram, before, folder / "log")


# The environment with the keys of both.
KEYS = {"ELWOOD_TELEGRAM_TOKEN": TOKEN, "ANTHROPIC_API_KEY": "none"}


def write_config(folder: Path, telegram: Telegram, models: int, chats: int) -> Path:
    """Write a configuration with *chats* owners; return its path."""
    config = folder / "config.toml"
    config.write_text(
        f"""
[paths]
state = "{folder / "state"}"
workspace = "{make_workspace(folder / "workspace")}"
runtime = "{folder / "run"}"

[telegram]
owners = {list(range(1, chats + 1))}
base_url = "{telegram.url}"
messages_per_second = 1000

[providers.anthropic]
base_url = "http://127.0.0.1:{models}"

[limits]
session_tokens = 0
day_tokens = 0
"""
    )
    return config


def make_workspace(workspace: Path) -> Path:
    """Create a workspace with the default documents and a few files."""
    workspace.mkdir(exist_ok=True)
    for document in sorted((ROOT / "workspace").glob("*.md")):
        (workspace / document.name).write_bytes(document.read_bytes())
    for number in range(5):
        (workspace / f"note-{number}.txt").write_text("a note\n")
    return workspace


def _polling(
    name: str, process: subprocess.Popen[bytes], telegram: Telegram, before: float, log: Path
) -> Bot:
    try:
        state = telegram.wait(0, timeout=30)
    except AssertionError:
        raise AssertionError(f"{name} does not poll: {log.read_text()[-3000:]}") from None
    return Bot(name, process.pid, telegram, state["polled_at"] - before, log)
