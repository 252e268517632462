"""Ctrl-C and SIGTERM while Elwood is busy: real processes at a terminal, and their remains."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from tests.fake_http import serving
from tests.fake_models import FakeModels, Say
from tests.journeys.home import Home, follow_message
from tests.journeys.judging import fold
from tests.journeys.service import KEPT, KEY, PATIENCE, ROOT

CONFIG = """
[paths]
state = "{folder}/state"
workspace = "{folder}/workspace"
runtime = "{folder}/run"
[policy]
allow = ["run_command"]
[sandbox]
kind = "auto"
[providers.anthropic]
base_url = "{models}"
"""


@attrs.define
class AtTerminal:
    """A process with a terminal, and its output."""

    process: trio.Process
    master: int
    text: str = ""

    async def wait_for(self, words: str) -> None:
        """Wait until *words* are written after the last match."""
        with trio.fail_after(PATIENCE):
            while words not in self.text:
                self.text += await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        self.text = self.text.partition(words)[2]

    async def wait_for_end(self) -> int:
        """Wait for the end; return the exit code."""
        with trio.fail_after(PATIENCE):
            while more := await trio.to_thread.run_sync(self._read, abandon_on_cancel=True):
                self.text += more
            return await self.process.wait()

    def _read(self) -> str:
        try:
            return os.read(self.master, 65_536).decode()
        except OSError:  # no process has it open any longer
            return ""

    def type_line(self, line: str) -> None:
        """Type a line."""
        os.write(self.master, f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@asynccontextmanager
async def at_terminal(
    folder: Path, models: FakeModels, *arguments: str
) -> AsyncIterator[AtTerminal]:
    async with serving(models.answer) as url:
        config = folder / "config.toml"
        config.write_text(CONFIG.format(folder=folder, models=url))
        config.chmod(0o600)
        master, slave = os.openpty()
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "elwood", "--config", str(config), *arguments],
            cwd=ROOT,
            env={
                **kept,
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "TZ": "Pacific/Auckland",
                "ANTHROPIC_API_KEY": KEY,
            },
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        one = AtTerminal(process, master)
        try:
            yield one
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            os.close(master)


async def test_ctrl_c_stops_the_answer_and_twice_quits(tmp_path: Path) -> None:
    models = FakeModels([Say("word " * 1000, pause=0.2), Say("Well again.")], key=KEY)
    asked = trio.Event()
    models.log = lambda body: asked.set()
    async with at_terminal(tmp_path, models, "chat") as one:
        await one.wait_for("you> ")
        one.type_line("tell me")
        await asked.wait()
        one.signal(signal.SIGINT)
        await one.wait_for("Press Ctrl-C again to quit.")
        await one.wait_for("Stopped. I was still writing the answer.")
        one.type_line("and now?")
        await one.wait_for("Well again.")
        one.signal(signal.SIGINT)
        await one.wait_for("Press Ctrl-C again to quit.")
        one.signal(signal.SIGINT)
        assert await one.wait_for_end() == 0
        assert "Traceback" not in one.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demo_leaves_no_files_whenever_it_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with at_terminal(tmp_path, FakeModels(), "demo") as one:
        await one.wait_for("run mv notes.txt milk.txt")
        if number == signal.SIGINT:
            await one.wait_for("you> ")
            one.type_line("Hello!")
            await one.wait_for("Hello! I am Elwood's offline model.")
            one.type_line("remind me in 1 minute to call mum")
            await one.wait_for("NZDT")
            one.signal(number)
            await one.wait_for("Press Ctrl-C again to quit.")
        one.signal(number)
        assert await one.wait_for_end() in (0, 130)
        assert "The demo has deleted everything it created" in one.text
        assert "Traceback" not in one.text
    assert [name for name in os.listdir(tmp_path) if "demo" in name] == []


async def test_a_watch_lasts_until_ctrl_c(tmp_path: Path) -> None:
    async with at_terminal(tmp_path, FakeModels(), "chat") as chat:
        await chat.wait_for("you> ")
        async with at_terminal(tmp_path, FakeModels(), "inspect", "--watch") as one:
            await one.wait_for("approvals")
            await one.wait_for("\x1b[H\x1b[J")
            one.signal(signal.SIGINT)
            assert await one.wait_for_end() == 0
            assert one.text.endswith("\x1b[?1049l")
            assert "Traceback" not in one.text


COMMAND = (("run_command", '{"command": "touch began; sleep 3600"}'),)


async def wait_until(true: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not true():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def test_the_first_signal_waits_and_the_second_quits(tmp_path: Path) -> None:
    """A command that sleeps for an hour would be waited for."""
    models = FakeModels([Say(calls=COMMAND)], key=KEY)
    async with at_terminal(tmp_path, models, "chat") as one:
        await one.wait_for("you> ")
        one.type_line("go")
        await wait_until((tmp_path / "workspace" / "began").exists)
        one.signal(signal.SIGTERM)
        await one.wait_for(
            "still running “run_command touch began; sleep 3600”. Press Ctrl-C again"
        )
        one.signal(signal.SIGTERM)
        assert await one.wait_for_end() == 130
        assert "Traceback" not in one.text


async def test_a_chat_can_be_quit_during_a_response(tmp_path: Path) -> None:
    models = FakeModels([Say("never seen", delay=3600)], key=KEY)
    async with at_terminal(tmp_path, models, "chat") as one:
        await one.wait_for("you> ")
        one.type_line("go")
        await wait_until(lambda: models.bodies)
        one.signal(signal.SIGTERM)
        await one.wait_for("Stopping: still writing the answer. Press Ctrl-C again")
        assert await one.wait_for_end() == 0
        assert "Traceback" not in one.text


async def test_a_second_ctrl_c_quits_a_busy_or_idle_chat(tmp_path: Path) -> None:
    models = FakeModels([Say("never seen", delay=3600)], key=KEY)
    async with at_terminal(tmp_path, models, "chat") as one:
        await one.wait_for("you> ")
        one.type_line("go")
        await wait_until(lambda: models.bodies)
        one.signal(signal.SIGINT)
        await one.wait_for("Press Ctrl-C again to quit.")
        await one.wait_for("Stopped.")
        one.signal(signal.SIGINT)
        assert await one.wait_for_end() == 0


@pytest.mark.parametrize(
    ("number", "first", "instant"),
    [
        (signal.SIGINT, Say("never seen", delay=3600), "accepted"),
        (signal.SIGTERM, Say("word " * 1000, pause=0.2), "asked"),
        (signal.SIGINT, Say(calls=COMMAND), "acting"),
    ],
)
async def test_a_stopped_turn_is_not_resumed(
    tmp_path: Path, number: signal.Signals, first: Say, instant: str
) -> None:
    """No later process requests it from the model again."""
    logs, began = tmp_path / "state" / "sessions", tmp_path / "workspace" / "began"
    models = FakeModels([first], key=KEY, otherwise=lambda body: Say("Well again."))
    reached: dict[str, Callable[[], object]] = {
        "accepted": lambda: any(log.stat().st_size for log in logs.glob("once-*.jsonl")),
        "asked": lambda: models.bodies,
        "acting": began.exists,
    }
    async with at_terminal(tmp_path, models, "once", "go") as one:
        await wait_until(reached[instant])
        one.signal(number)
        await one.wait_for("Stopping … Press Ctrl-C again")
        await one.wait_for("Stopped.")
        assert await one.wait_for_end() == 128 + number
        assert "Traceback" not in one.text
    [log] = logs.glob("once-*.jsonl")
    assert fold(tmp_path / "state", log.stem).is_idle
    models.script.clear()
    before = len(models.bodies)
    assert before <= 1
    async with at_terminal(tmp_path, models, "chat") as one:
        await one.wait_for("you> ")
        one.type_line("hello")
        await one.wait_for("Well again.")
        one.type_line("/quit")
        assert await one.wait_for_end() == 0
    assert len(models.bodies) == before + 1


async def test_an_early_signal_prints_nothing(tmp_path: Path) -> None:
    models = FakeModels([Say("never seen", delay=3600)], key=KEY)
    async with at_terminal(tmp_path, models, "once", "go") as one:
        await wait_until((tmp_path / "state" / "lock").exists)
        one.signal(signal.SIGINT)
        assert await one.wait_for_end() == 130
        assert "Traceback" not in one.text
    for log in (tmp_path / "state" / "sessions").glob("once-*.jsonl"):
        assert fold(tmp_path / "state", log.stem).is_idle


async def test_stops_during_a_response_are_quick_and_not_counted(h: Home) -> None:
    async def hang(request: ModelRequest) -> Completion:
        h.show("so far")
        return await trio.sleep_forever()

    h.think = hang
    h.fake.say("hello")
    for times in range(1, 6):
        async with h.life():
            while len(h.asked) < times:  # noqa: ASYNC110
                await trio.sleep(0.1)
            stopped = trio.current_time()
        assert trio.current_time() - stopped < 2.0
    h.think = follow_message
    async with h.life():
        await h.fake.until(lambda: h.fake.texts())
    assert h.fake.texts()[-1].endswith("re: hello")
