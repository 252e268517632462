"""Terminal commands, as processes next to a real `elwood run`."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.journeys.judging import fold
from tests.journeys.service import PATIENCE, ROOT, Town, town

GONE = "Elwood has stopped. To reopen this conversation: elwood chat --session console"


async def run_command(t: Town, given: bytes, *arguments: str) -> tuple[int, str, str]:
    """Run a command with stdin; return the exit code and the output."""
    process = await trio.run_process(
        [sys.executable, "-m", "elwood", "--config", str(t.config), *arguments],
        cwd=ROOT,
        env=t.environment,
        stdin=given,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return process.returncode, process.stdout.decode(), process.stderr.decode()


async def allow(t: Town) -> None:
    await t.until(t.open_questions)
    [question] = t.open_questions()
    t.telegram.press(question.button("o"), user=question.chat, message=question)


async def test_commands_use_the_running_elwood(tmp_path: Path) -> None:
    async with town(tmp_path, effectful=True, free=()) as t:
        await t.start()
        answer = "Heard m0001 m0002.\n"
        assert await run_command(t, b"say m0002", "once", "say m0001") == (0, answer, "")
        code, shown, errors = await run_command(
            t, b"", "once", "--json", "--session", "tea", "look m0003"
        )
        assert (code, errors) == (0, "")
        whole = json.loads(shown)
        assert whole.pop("answer") == "Heard m0003."
        assert whole.pop("records").startswith("— What I actually did —\n✓ list_files . ·")
        assert whole.pop("duration") > 0
        assert whole.pop("cost") > 0
        assert whole == {
            "models": ["anthropic/claude-sonnet-5-5"],
            "session": "tea",
            "outcome": "answered",
            "failed": False,
            "waiting": [],
            "receipts": [{"tool": "list_files", "target": ".", "outcome": "ok"}],
            "files": [],
        }
        talked = await run_command(t, b"say m0004\nsay m0005\n/quit\nnot this\n", "chat", "--plain")
        assert talked == (0, "Heard m0004.\n\nHeard m0005.\n", "")
        code, shown, errors = await run_command(t, b"\n/new\n", "once", "-")
        assert (code, shown) == (2, "")
        assert "begins with /" in errors
        code, shown, errors = await run_command(t, b"x" * 300_000, "once", "say m0007")
        assert (code, shown) == (2, "")
        assert "The piped input is longer than 256 KiB" in errors
        code, shown, errors = await run_command(t, b"x" * 300_000, "chat", "--plain")
        assert (code, shown) == (1, "")
        assert "A line is longer than 256 KiB" in errors
        code, shown, errors = await run_command(t, b"", "chat", "--session", "tg-5")
        assert (code, errors) == (
            1,
            "tg-5 is not your own conversation. To read it: elwood watch tg-5\n",
        )
        await t.stop()


async def test_a_waiting_command_reports_the_end_and_the_answer_is_logged(tmp_path: Path) -> None:
    async with town(tmp_path) as t:
        await t.start()
        assert (await run_command(t, b"say m0001", "chat"))[1] == "Heard m0001.\n"
        watcher = await trio.lowlevel.open_process(
            [sys.executable, "-m", "elwood", "--config", str(t.config), "watch"],
            cwd=ROOT,
            env=t.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        seen = b""

        async def sees(text: bytes) -> None:
            nonlocal seen
            assert watcher.stdout is not None
            while text not in seen:
                seen += await watcher.stdout.receive_some()

        found = list[tuple[int, str, str]]()

        async def chat() -> None:
            found.append(await run_command(t, b"say m0002\n", "chat"))

        with trio.fail_after(PATIENCE):
            await sees(b"you> say m0001\nelwood> Heard m0001.\n")
            async with trio.open_nursery() as nursery:
                t.hang_model()
                nursery.start_soon(chat)
                await sees(b"you> say m0002\n")
                await t.wait_for_requests(2)
                await t.kill()
            assert found == [(1, "", f"{GONE}\n")]
            assert watcher.stderr is not None
            assert (await watcher.stderr.receive_some()).decode() == f"{GONE}\n"
            assert await watcher.wait() == 1
        await t.start()
        await t.eventually(lambda: "Heard m0002." in str(t.journals()["console"]))
        shown = await run_command(t, b"say m0003", "once", "--session", "console", "-")
        assert shown == (0, "Heard m0003.\n", "")
        await t.stop()


@asynccontextmanager
async def start_command(t: Town, *arguments: str) -> AsyncIterator[trio.Process]:
    """Run a command that does not end yet."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "elwood", "--config", str(t.config), *arguments],
        cwd=ROOT,
        env=t.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def test_a_signal_stops_a_turn_of_the_running_elwood(tmp_path: Path) -> None:
    async with town(tmp_path) as t:
        await t.start()
        asked = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            t.hang_model()
            asked += 1
            async with start_command(
                t, "once", "--json", "--session", "job", "say m0001"
            ) as process:
                await t.wait_for_requests(asked)
                process.send_signal(number)
                assert process.stdout is not None
                with trio.fail_after(PATIENCE):
                    shown = b"".join([part async for part in process.stdout])
                    assert await process.wait() == 128 + number
            assert json.loads(shown)["outcome"] == "stopped"
            assert fold(t.state, "job").is_idle
        await t.stop()
        await t.start()
        assert await run_command(t, b"say m0002", "once", "-") == (0, "Heard m0002.\n", "")
        assert t.asked == asked + 1, "a request was repeated"
        await t.stop()


async def test_a_second_ctrl_c_leaves_a_hanging_elwood(tmp_path: Path) -> None:
    async with town(tmp_path) as t:
        await t.start()
        t.hang_model()
        async with start_command(t, "once", "say m0001") as process:
            await t.wait_for_requests(1)
            assert t.process is not None
            t.process.send_signal(signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            with trio.fail_after(PATIENCE):
                assert b"again to quit now" in await process.stderr.receive_some()
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 130
            t.process.send_signal(signal.SIGCONT)
        await t.eventually(lambda: all(fold(t.state, name).is_idle for name in t.journals()))
        assert t.asked == 1
        await t.stop()


def test_the_service_does_not_load_the_terminal_library() -> None:
    code = (
        "import sys, elwood.app.serving, elwood.features.console.parts, elwood.app.cli\n"
        "print([m for m in ('rich', 'prompt_toolkit', 'textual', 'pygments') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_a_joining_command_does_not_load_the_app() -> None:
    code = (
        "import sys, elwood.app.cli, elwood.features.console.client\n"
        "print([m for m in ('trio', 'httpcore2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b"[]\n"
