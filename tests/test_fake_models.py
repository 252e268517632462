"""The fake provider as a process of its own, as the tests that kill things use it."""

import sys
from pathlib import Path

import msgspec
import trio

from elwood.agent.conversation.message import Human, Prompt, Result, Results, ToolSpec
from elwood.agent.models.client import ModelRequest
from elwood.agent.models.providers import make_provider
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client

SCHEMA = msgspec.Raw(b'{"type":"object"}')
PROMPT = Prompt("", (ToolSpec("list_files", "", SCHEMA),))


async def announced(port: trio.Path) -> str:
    while True:
        try:
            return await port.read_text()
        except FileNotFoundError:
            await trio.sleep(0.01)


async def test_it_follows_the_last_message_in_both_languages(tmp_path: Path) -> None:
    port, log = tmp_path / "port", tmp_path / "log"
    command = [sys.executable, "-m", "tests.fake_models", "--port-file", port, "--log", log]
    process = await trio.lowlevel.open_process([str(part) for part in command])
    client = Client()
    try:
        with trio.fail_after(60):
            number = await announced(trio.Path(port))
        url = f"http://127.0.0.1:{number}"
        for settings in (
            ProviderSettings(api="anthropic", base_url=url),
            ProviderSettings(api="openai", base_url=f"{url}/v1"),
        ):
            provider = make_provider(
                "a",
                settings,
                client=client,
                now=lambda: 0.0,
                new_id=lambda: "x",
            )
            asked = Human('/call list_files {"path": "."}')
            request = ModelRequest(model="m", prompt=PROMPT, messages=(asked,), max_tokens=9)
            called = await provider.complete(request, lambda text: None)
            [call] = called.message.calls
            assert (called.stop, call.arguments) == ("tools", '{"path": "."}')
            results = Results((Result(call.id, "two files"),))
            request = ModelRequest(
                model="m", prompt=PROMPT, messages=(asked, called.message, results), max_tokens=9
            )
            answered = await provider.complete(request, lambda text: None)
            assert (answered.stop, answered.message.text) == ("end", "Result: two files")
        assert len((await trio.Path(log).read_bytes()).splitlines()) == 4
    finally:
        process.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await client.aclose()
            await process.wait()
