"""`elwood mcp-serve` as a process, driven over pipes by the official client, with a service."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from elwood.agent.session.log.entries import Delivered, Received, Replied
from elwood.features.mcp_serve.messages import ASK
from elwood.foundation.net import control
from tests.fake_models import Say
from tests.journeys.home import remove_times
from tests.journeys.judging import approvals
from tests.journeys.service import NO_COMMANDS, PATIENCE, ROOT, Town, town

mcp = pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

import mcp_types as types  # noqa: E402
from mcp.client.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

ASKING = f"[mcp_serve]\nask = true\npatience = 50\n{NO_COMMANDS}"
READING = ["search_memory", "list_sessions", "receipts"]
HOSTILE = "pipes \x1b]52;c;ZXZpbA==\x07 leak \x9b2J \u202ein the cellar"


@asynccontextmanager
async def connected(one: Town) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "elwood", "--config", str(one.config), "mcp-serve"],
        env=dict(one.environment),
        cwd=str(ROOT),
    )
    with one.stderr.open("a") as stderr:
        async with Client(stdio_client(parameters, stderr)) as client:
            yield client


async def call(client: Client, name: str, **arguments: object) -> tuple[bool, str]:
    """Call a tool; return whether it failed, and its text."""
    with trio.fail_after(PATIENCE):
        done = await client.call_tool(name, arguments)
    [block] = done.content
    assert block.type == "text"
    return bool(done.is_error), block.text


def counts(one: Town, session: str = "mcp-main") -> tuple[int, int, int]:
    """Count the messages of a conversation, their answers, and the delivered ones."""
    entries = one.journals().get(session, [])
    kinds = (Received, Replied, Delivered)
    received, replied, delivered = ([e for e in entries if isinstance(e, k)] for k in kinds)
    return len(received), len(replied), len(delivered)


async def test_all_tools_read_from_the_running_elwood(tmp_path: Path) -> None:
    async with town(tmp_path, more=ASKING) as one:
        (one.state / "memory").mkdir(parents=True)
        (one.state / "memory" / "cellar.md").write_text(HOSTILE)
        await one.start()
        async with connected(one) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == [*READING, "ask"]
            hints = [tool.annotations and tool.annotations.read_only_hint for tool in listed]
            assert hints == [True, True, True, False]
            failed, text = await call(client, "ask", message="look m0001")
            assert not failed
            assert remove_times(text) == "Heard m0001.\n\n— What I actually did —\n✓ list_files ."
            # The conversation continues; another name is another conversation.
            assert await call(client, "ask", message="hello m0002") == (False, "Heard m0002.")
            await call(client, "ask", message="hello m0003", session="other")
            failed, text = await call(client, "list_sessions")
            names = [row["conversation"] for row in json.loads(text)]
            assert (failed, names) == (False, ["mcp-other", "mcp-main"])
            failed, text = await call(client, "receipts", session="mcp-main")
            [receipt] = json.loads(text)
            assert (receipt["tool"], receipt["outcome"]) == ("list_files", "ok")
            failed, text = await call(client, "search_memory", query="pipes cellar")
            assert not failed
            assert "cellar" in text
            assert "\x1b" not in text
            assert "⟨U+001B⟩]52" in text
            # Invalid arguments are reported to the caller.
            for name, arguments, why in (
                ("search_memory", {}, "missing required field `query`"),
                ("receipts", {"since": "tomorrow"}, "use 2h or 3d"),
                ("receipts", {"session": "nobody"}, "there is no conversation nobody"),
                ("ask", {"message": "x", "session": "../x"}, "matching regex"),
            ):
                failed, text = await call(client, name, **arguments)
                assert failed
                assert why in text
            with pytest.raises(MCPError, match="there is no tool fly"):
                await call(client, "fly")
        received = [e for e in one.journals()["mcp-main"] if isinstance(e, Received)]
        assert [(e.principal, e.untrusted) for e in received] == [("an MCP client", True)] * 2
        assert counts(one) == (2, 2, 2)
        await one.stop()
        await one.verify_receipts()


async def test_without_a_service_the_error_tells_how_to_start_one(tmp_path: Path) -> None:
    """The journals can still be read; asking needs the setting."""
    async with town(tmp_path) as one, connected(one) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        failed, text = await call(client, "search_memory", query="anything")
        assert failed
        assert "Elwood is not running" in text
        assert "elwood run" in text
        assert await call(client, "list_sessions") == (False, "[]")
        with pytest.raises(MCPError, match="there is no tool ask"):
            await call(client, "ask", message="hello")
        one.config.write_text(f"{one.config.read_text()}\n{ASKING.removesuffix(NO_COMMANDS)}")
        async with connected(one) as other:
            failed, text = await call(other, "ask", message="hello")
            assert failed
            assert "elwood run" in text


async def test_the_owner_is_asked_where_they_read_and_the_answer_survives_the_service(
    tmp_path: Path,
) -> None:
    async with town(tmp_path, more=ASKING, effectful=True, free=()) as one:
        await one.start()
        told: list[tuple[float, str | None]] = []
        answers: list[types.CallToolResult] = []
        heard = trio.Event()

        async def progress(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            await trio.lowlevel.checkpoint()
            told.append((progress, message))
            heard.set()

        async with connected(one) as client, trio.open_nursery() as nursery:

            async def ask() -> None:
                given = {"message": "act m0001"}
                answers.append(await client.call_tool("ask", given, progress_callback=progress))

            nursery.start_soon(ask)
            await one.until(one.open_questions)
            [question] = one.open_questions()
            assert "text from a message sent by an MCP client may have prompted it" in question.text
            # A program cannot approve its own call, even with the code.
            [code] = [request.code for request in approvals(one.state)[1].calls.open()]
            _, text = await call(client, "ask", message=f"/allow {code} once")
            assert "/allow is for my owner only." in text
            with trio.fail_after(PATIENCE):
                await heard.wait()
            assert told[0][1] == "waiting for your answer about “act m0001”"
            await one.kill()
            assert one.effects == []
            await one.start()
            one.telegram.press(question.buttons[0], message=question)
        receipt = "✓ act m0001 · allowed once by you"
        [answer] = [block.text for block in answers[0].content if block.type == "text"]
        assert remove_times(answer) == f"Heard m0001.\n\n— What I actually did —\n{receipt}"
        assert one.effects == ["m0001"]
        assert counts(one) == (2, 2, 2)
    times = [time for time, _ in told]
    assert times == sorted(set(times))


# As if the extra were not installed: the service does not need it.
WITHOUT = """
import sys
sys.modules.update(mcp=None, mcp_types=None)
import elwood.features.mcp_serve.parts
from elwood.app.cli import main
sys.exit(main(["--config", sys.argv[1], "mcp-serve"]))
"""


def test_without_the_sdk_the_error_tells_what_to_install(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'paths.state = "{tmp_path}"\nmodels.roles.default.model = "offline/m"\n')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, config],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "install it: pip install 'elwood[mcp]'" in done.stderr


# --- without the client ---------------------------------------------------------------------------


class Pipes:
    """The process, driven by lines; *seen* is its whole output."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.seen = b""

    async def send(self, method: str, params: dict[str, Any], id_: int | None = None) -> None:
        assert self.process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        line = json.dumps(message if id_ is None else message | {"id": id_})
        await self.process.stdin.send_all(line.encode() + b"\n")

    async def result(self, id_: int) -> Any:
        assert self.process.stdout is not None
        with trio.fail_after(PATIENCE):
            while True:
                for line in self.seen.splitlines(keepends=True):
                    if line.endswith(b"\n") and (found := json.loads(line)).get("id") == id_:
                        return found["result"]
                self.seen += await self.process.stdout.receive_some()

    async def shake_hands(self) -> None:
        await self.send(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "0"},
            },
            1,
        )
        assert (await self.result(1))["serverInfo"]["name"] == "elwood"
        await self.send("notifications/initialized", {})


@asynccontextmanager
async def raw(one: Town) -> AsyncIterator[Pipes]:
    with one.stderr.open("a") as stderr:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "elwood", "--config", str(one.config), "mcp-serve"],
            cwd=ROOT,
            env=one.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    try:
        pipes = Pipes(process)
        await pipes.shake_hands()
        yield pipes
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            await process.stdout.aclose()


async def test_each_message_has_one_answer_after_a_cancel_or_kill(tmp_path: Path) -> None:
    async with town(tmp_path, more=ASKING) as one:
        await one.start()
        one.models.script += [Say("late", delay=1), Say("later", delay=1), Say("last", delay=4)]
        async with connected(one) as client, trio.open_nursery() as nursery:
            nursery.start_soon(partial(call, client, "ask", message="m0001"))
            await one.wait_for_requests(1)
            nursery.cancel_scope.cancel()
        await one.eventually(lambda: counts(one) == (1, 1, 1))
        async with raw(one) as pipes:
            await pipes.send("tools/call", {"name": "ask", "arguments": {"message": "m0002"}}, 2)
            await one.wait_for_requests(2)
            pipes.process.kill()
        await one.eventually(lambda: counts(one) == (2, 2, 2))
        # The end of the patience is not the end of the work.
        one.config.write_text(one.config.read_text().replace("patience = 50", "patience = 1"))
        async with connected(one) as client:
            failed, text = await call(client, "ask", message="m0003")
        assert failed
        assert "elwood session show mcp-main" in text
        await one.eventually(lambda: counts(one) == (3, 3, 3))
        await one.stop()
        await one.verify_receipts()


async def test_the_output_is_json_lines_for_any_input(tmp_path: Path) -> None:
    """It exits when its stdin is closed.  A service that takes no questions reports that."""
    async with town(tmp_path) as one:
        (one.state / "memory").mkdir(parents=True)
        (one.state / "memory" / "cellar.md").write_text(HOSTILE)
        await one.start()
        async with raw(one) as pipes:
            stdin = pipes.process.stdin
            assert stdin is not None
            await stdin.send_all(b'\x1b[2J not json\n{"jsonrpc": "2.0"}\n[]\n\xff\xfe\n')
            given = {"name": "search_memory", "arguments": {"query": "cellar"}}
            await pipes.send("tools/call", given, 2)
            assert "⟨U+001B⟩]52" in (await pipes.result(2))["content"][0]["text"]
            await stdin.aclose()
            with trio.fail_after(PATIENCE):
                assert await pipes.process.wait() == 0
        assert all(isinstance(json.loads(line), dict) for line in pipes.seen.splitlines())
        assert not any(byte in pipes.seen for byte in (b"\x1b", b"\x9b2", b"\x07"))
        refused = await trio.to_thread.run_sync(control.ask, one.folder / "run", ASK, "{}")
        assert not refused.ok
        assert "Set ask = true in [mcp_serve]" in refused.text
