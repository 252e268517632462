"""Real `elwood run` processes, with a Bot API and a model provider on real sockets."""

import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from elwood.agent.approvals.prompt_text import OUTCOMES
from elwood.agent.conversation.message import remove_opening
from elwood.agent.session.log.entries import Entry, Received, Replied
from elwood.agent.session.log.turns import UNANSWERED
from elwood.features.telegram.outbox import UNFINISHED
from elwood.foundation.sandbox.children import holders
from tests.fake_http import serving
from tests.fake_model_rules import Json, blocks
from tests.fake_models import FakeModels, Say, Step
from tests.fake_telegram import BOT, OWNER, FakeTelegram, SentMessage, fake_telegram
from tests.journeys import dated
from tests.journeys.effectful import EFFECTS, HOLD
from tests.journeys.judging import AGAIN, broken_promises, expected_messages, journals
from tests.journeys.outcomes import NEWS
from tests.reminders import TOLD_AGAIN

ROOT = Path(__file__).parents[2]
# Environment variables of the tests that a process can see.
KEPT = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LANG")
KEY = "sk-ant-fake-0123456789abcdef"
FRIENDS = (OWNER, 1002, 1003)
GROUP = -100500
# Sandbox notices depend on the machine, so most tests do without them.
NO_COMMANDS = '[sandbox]\nkind = "none"\n'
# Prefix of a question about a call.
QUESTION = "May I "
MARK = re.compile(r"\bm\d{4}\b")
# Request words of people, and suffixes of the receipts of their calls.
WISH = re.compile(r"\b(act|look|run) (m\d{4})$", re.MULTILINE)
# Seconds until a test has failed, on the slowest machine.
PATIENCE = 60.0
CONFIG = """
[paths]
state = "{folder}/state"
workspace = "{folder}/workspace"
runtime = "{folder}/run"
[policy]
allow = {free}
[telegram]
owners = {owners}
groups = [{group}]
base_url = "{telegram}"
[providers.anthropic]
base_url = "{models}"
"""


class Town:
    """A state folder, and the processes that use it one after another.

    *telegram* and *models* are their fake services. An *effectful* town has the tool `act`. The
    tools in *free* run without asking; *more* is extra configuration. Its clock is *ahead* of the
    real one by that many seconds.
    """

    def __init__(
        self,
        folder: Path,
        telegram: FakeTelegram,
        models: FakeModels,
        *,
        effectful: bool = False,
        free: Sequence[str] = ("act",),
        more: str = NO_COMMANDS,
        ahead: float = 0.0,
    ) -> None:
        self.folder = folder
        self.telegram = telegram
        self.models = models
        self.config = folder / "config.toml"
        self.state = folder / "state"
        self.stderr = folder / "stderr"
        self.process: trio.Process | None = None
        self.asked = 0
        # PYTHONPATH of its processes.
        self.root = ROOT
        self._polls = 0
        self._free = [tool for tool in free if effectful or tool != "act"]
        self._more = more
        self._ahead = ahead
        self._elwood = "tests.journeys.dated" if ahead else "elwood"
        self._entry = "tests.journeys.effectful" if effectful else self._elwood
        self._changed = trio.Event()
        self.models.otherwise = follow_requests
        self.models.log = self._note

    def write_config(self, models: str) -> None:
        """Write the configuration; *models* is the address of the provider."""
        (self.folder / "workspace").mkdir(parents=True)
        self.config.write_text(
            CONFIG.format(
                folder=self.folder,
                free=self._free,
                owners=list(FRIENDS),
                group=GROUP,
                telegram=self.telegram.url,
                models=models,
            )
            + self._more
        )

    # --- processes -----------------------------------------------------------------------------

    async def spawn(self) -> None:
        """Start a process."""
        assert self.process is None, "one is running"
        self._polls = self.telegram.polls
        self.process = await self._begin()

    async def _begin(self) -> trio.Process:
        what = ["run"] if self._entry == self._elwood else []
        with self.stderr.open("ab") as stderr:
            return await trio.lowlevel.open_process(
                [sys.executable, "-m", self._entry, "--config", str(self.config), *what],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of a process."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return kept | {
            "HOME": str(self.folder),
            "ELWOOD_TELEGRAM_TOKEN": self.telegram.token,
            "ANTHROPIC_API_KEY": KEY,
            **({"CLOCK_AHEAD": str(self._ahead)} if self._ahead else {}),
        }

    async def start(self) -> float:
        """Start a process and wait for its first poll; return the time of the poll."""
        await self.spawn()
        return await self.wait_for_poll()

    async def wait_for_poll(self) -> float:
        """Wait for the first poll of the process; return its time."""
        await self.until(lambda: self.telegram.polls > self._polls)
        return trio.current_time()

    async def kill(self) -> None:
        """Kill the process, as kill -9 does."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        self.process = None

    async def wait_for_end(self) -> int:
        """Wait for the end of the process; return its exit code."""
        assert self.process is not None
        with trio.fail_after(PATIENCE):
            code = await self.process.wait()
        self.process = None
        return code

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Send SIGTERM to the process, and check its exit code."""
        self.terminate()
        assert await self.wait_for_end() == 0

    async def command(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Run an `elwood` command to its end."""
        command = [sys.executable, "-m", self._entry, "--config", str(self.config), *arguments]
        with trio.fail_after(PATIENCE):
            return await trio.run_process(
                command,
                cwd=ROOT,
                env=self.environment,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )

    # --- what happens --------------------------------------------------------------------------

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait for a condition on the Bot API's record."""
        with trio.fail_after(PATIENCE):
            await self.telegram.until(true)

    async def eventually(self, true: Callable[[], Any]) -> None:
        """Poll for a condition on the state folder."""
        with trio.fail_after(PATIENCE):
            while True:
                began = trio.current_time()
                if true():
                    return
                # Slow checks must leave time to the processes they watch.
                await trio.sleep(0.01 + 2 * (trio.current_time() - began))

    async def wait_for_messages(self, count: int) -> list[str]:
        """Wait for *count* messages of the bot; return them all."""
        await self.until(lambda: len(self.sent_texts()) >= count)
        return self.sent_texts()

    def sent_texts(self, chat: int | None = None) -> list[str]:
        """Return messages sent (to *chat*), without questions and unfinished answers."""
        texts = self.telegram.texts(chat)
        return [text for text in texts if not text.endswith(UNFINISHED) and QUESTION not in text]

    async def wait_for_requests(self, count: int) -> None:
        """Wait for *count* requests to the model."""
        with trio.fail_after(PATIENCE):
            while self.asked < count:
                await self._changed.wait()

    def _note(self, body: Json) -> None:
        self.asked += 1
        self._changed.set()
        self._changed = trio.Event()

    def hang_model(self) -> None:
        """Do not answer the next model request."""
        self.models.script.append(Say("never seen", delay=3600))

    def hold_tool(self) -> None:
        """Make `act` hang."""
        (self.folder / "workspace" / HOLD).touch()

    def release_tool(self) -> None:
        """Let `act` return."""
        (self.folder / "workspace" / HOLD).unlink()

    # --- outcomes ------------------------------------------------------------------------------

    def journals(self) -> dict[str, list[Entry]]:
        """Read the log of each session without a torn end."""
        return journals(self.state)

    def broken_promises(self, pushed: Mapping[int, str]) -> list[str]:
        """List the broken promises; *pushed* are the marks of the messages by update."""
        logs = self.journals()
        entries = [entry for log in logs.values() for entry in log]
        sent = [
            (message.chat, message.text)
            for message in self.telegram.sent
            if not message.text.endswith(UNFINISHED) and QUESTION not in message.text
        ]
        found = broken_promises(logs, sent, [f"act {mark}" for mark in self.effects])
        received = {entry.id for entry in entries if isinstance(entry, Received)}
        failed = {id_ for e in entries if isinstance(e, Replied) and e.failed for id_ in e.inputs}
        said = "\n".join(text for _, text in sent)
        for update, mark in pushed.items():
            id_ = f"tg:{BOT['id']}:{update}"  # the id used in the journals
            if id_ not in received:
                found.append(f"{mark} was not accepted")
            elif mark not in said and id_ not in failed:
                found.append(f"the answer to {mark} was never seen")
        wanted = expected_messages(entries)
        bare = {(str(chat), text.removeprefix(AGAIN)) for chat, text in sent}
        # An allowed call is also reported where the owner allowed it, if that is elsewhere.
        notices = (*NEWS, *OUTCOMES.values())
        strays = [one for one in bare - wanted.keys() if not one[1].startswith(notices)]
        return [*found, *(f"seen, but no reply: {one}" for one in strays)]

    def open_questions(self) -> list[SentMessage]:
        """List the questions with open buttons."""
        typed = ("c:",)  # buttons below answers type a command
        return [s for s in self.telegram.sent if any(not b.startswith(typed) for b in s.buttons)]

    def command_processes(self) -> set[int]:
        """List the processes that hold commands."""
        return holders(self.state)

    @property
    def effects(self) -> list[str]:
        """Return the effects of `act`."""
        path = self.folder / "workspace" / EFFECTS
        return path.read_text().split() if path.exists() else []

    def last_request(self) -> str:
        """Return the newest message in the last model request."""
        return message_text(self.models.bodies[-1]["messages"][-1])

    async def verify_receipts(self) -> None:
        """Check the receipts with `elwood receipts verify`."""
        done = await self.command("receipts", "verify")
        assert done.returncode == 0, done.stderr.decode()


def message_text(message: Json) -> str:
    """Return a user message without results, daily notes and reminders.

    Text before the note of a turn that ended without an answer is ignored too.
    """
    texts = [remove_opening(block["text"]) for block in blocks(message) if block["type"] == "text"]
    texts = [text for text in texts if not text.startswith(TOLD_AGAIN)]
    ended = [number for number, text in enumerate(texts) if text.startswith(UNANSWERED[:40])]
    return "\n".join(texts[ended[-1] + 1 :] if ended else texts)


def follow_requests(body: Json, mark: str = "") -> Step:
    """Do the requests since the last answer, then name their marks.

    ``act m0001`` calls `act`, ``look m0002`` looks at the workspace, ``run m0003`` runs a command
    that adds a line to *ran* and leaves long-running children; *mark* is an argument of each of its
    processes.
    """
    span: deque[Json] = deque()
    called = set()
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            calls = [block for block in blocks(message) if block["type"] == "tool_use"]
            if not calls:
                break
            called |= {
                one for call in calls for one in MARK.findall(str(call["input"])) or ["look"]
            }
        else:
            span.appendleft(message)
            if UNANSWERED[:40] in str(message["content"]):
                break
    asked = "\n".join(message_text(message) for message in span)
    wanted = []
    for kind, name in WISH.findall(asked):
        if name in called or (kind == "look" and "look" in called):
            continue
        child = f'(setsid bash -c "sleep 60; : {mark}" &)'
        command = f"echo {name} >> ran; {child}; sleep 0.2; : {mark}"
        given = {"act": {"name": name}, "look": {}, "run": {"command": command}}[kind]
        tool = {"act": "act", "look": "list_files", "run": "run_command"}[kind]
        wanted.append((tool, msgspec.json.encode(given).decode()))
    if wanted:
        return Say(calls=tuple(wanted))
    return Say(f"Heard {' '.join(dict.fromkeys(MARK.findall(asked)))}.")


@asynccontextmanager
async def town(
    folder: Path,
    *,
    effectful: bool = False,
    free: Sequence[str] = ("act",),
    more: str = NO_COMMANDS,
    ahead: float = 0.0,
) -> AsyncIterator[Town]:
    """Create a town; check at the end that no process is left and its log contains no secret."""
    models = FakeModels(key=KEY)
    clock = dated.clock_ahead(ahead)
    async with fake_telegram(clock=clock) as telegram, serving(models.answer) as url:
        one = Town(folder, telegram, models, effectful=effectful, free=free, more=more, ahead=ahead)
        one.write_config(url)
        try:
            yield one
        except BaseException:
            print(f"\n{folder.name} sent: {telegram.texts()[-20:]}\ncounts: {telegram.counts}")
            print(f"stderr of {folder.name}:\n{_tail(one.stderr)}")
            raise
        finally:
            with trio.CancelScope(shield=True):
                if one.process is not None:
                    await one.kill()
    written = one.stderr.read_text() if one.stderr.exists() else ""
    assert telegram.token not in written
    assert KEY not in written
    assert "Traceback" not in written, _tail(one.stderr)


def _tail(path: Path, size: int = 20_000) -> str:
    return path.read_text()[-size:] if path.exists() else "(none)"
