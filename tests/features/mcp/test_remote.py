"""Remote servers: streamable HTTP of both protocols, HTTP with SSE; and their addresses."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from elwood.features.mcp.settings import ServerSettings
from elwood.foundation.secrets.redaction import Secret
from tests.fake_http import Reply, Request, json_reply, serving
from tests.features.mcp.house import FREE, HERE, living

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")


@contextmanager
def far(kind: str) -> Iterator[str]:
    """Run a server of the SDK; yield its address."""
    argv = [sys.executable, str(HERE / "http_server.py"), kind]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
        finally:
            process.kill()


@contextmanager
def suppress_broken() -> Iterator[None]:
    """Ignore that the client of the fake has disconnected."""
    try:
        yield
    except* trio.BrokenResourceError:
        pass


def remote(url: str, **more: Any) -> ServerSettings:
    given: dict[str, Any] = {
        "url": url,
        "local": True,
        "accept": "first",
        "private": False,
        "tools": {"echo": FREE, "seen": FREE},
    }
    return ServerSettings(**{**given, **more})


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    with far("http") as url:
        yield url


async def test_a_remote_server_is_called(tmp_path: Path, http: str) -> None:
    headers = {"X-Team": Secret("blue-team-7")}
    async with living(tmp_path, far=remote(http, token=Secret("t-4711"), headers=headers)) as house:
        assert "2026-07-28 (modern)" in await house.until("/mcp show far", ": ready;")
        assert "\nhello\n" in await house.call("far__echo", text="hello")
        seen = await house.call("far__seen")
        assert '"mcp-method": "tools/call"' in seen
        assert '"mcp-name": "seen"' in seen
        assert '"user-agent"' in seen
        # They were sent, and are redacted afterwards.
        assert '"authorization": "Bearer ***"' in seen
        assert '"x-team": "***"' in seen
        assert "what is in it" in await house.call("read_resource", server="far", uri="note://1")


async def test_a_server_of_the_year_2024_is_called(tmp_path: Path) -> None:
    with far("sse") as url:
        async with living(tmp_path, far=remote(url, transport="sse")) as house:
            await house.until("/mcp show far", ": ready;")
            assert "\nhello\n" in await house.call("far__echo", text="hello")


async def test_a_recovered_server_is_used_again(tmp_path: Path) -> None:
    with far("http") as url:
        async with living(tmp_path, far=remote(url)) as house:
            await house.until("/mcp show far", ": ready;")
    async with living(tmp_path, far=remote(url)) as house:
        assert "attempts to connect" in await house.until("/mcp show far", "retrying")
        # The owner gets a notice that it keeps failing; the tools stay in the catalogue.
        await house.ask("hi")
        assert "far__echo" in house.model.tools
        failed = await house.call("far__echo", text="x")
        assert "the MCP server far is not running" in failed


async def test_mcp_30_a_name_with_a_private_address_is_refused(tmp_path: Path, http: str) -> None:
    port = http.partition("127.0.0.1:")[2]
    inside = remote(f"http://localhost:{port}", local=False)
    async with living(tmp_path, far=inside) as house:
        said = await house.until("/mcp show far", "retrying")
        assert "has no public internet address" in said


async def test_mcp_30_31_a_redirect_carries_no_credentials(tmp_path: Path) -> None:
    heard: list[Request] = []

    async def elsewhere(request: Request) -> Reply:
        heard.append(request)
        return json_reply({})

    async with serving(elsewhere) as other:

        async def redirects(request: Request) -> Reply:
            return Reply(status=307, headers={"location": f"{other}/mcp", "content-length": "0"})

        async with serving(redirects) as url:
            server = remote(f"{url}/mcp", token=Secret("for-a-only"))
            async with living(tmp_path, far=server) as house:
                assert "retrying" in await house.until("/mcp show far", "retrying")
    assert heard == []


# The library leaves one of its generators suspended when it is cancelled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_mcp_30_an_answer_has_a_limit(tmp_path: Path) -> None:
    async def floods(request: Request) -> Reply:
        pieces = (b"x" * (1 << 20),) * 40
        return Reply(headers={"content-type": "application/json"}, pieces=pieces)

    with suppress_broken():
        async with serving(floods) as url, living(tmp_path, far=remote(f"{url}/mcp")) as house:
            said = await house.until("/mcp show far", "retrying")
            assert "the answer is longer than" in said


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_refusal_shows_its_status(tmp_path: Path, status: int) -> None:
    async def refuses(request: Request) -> Reply:
        return json_reply({"error": "no"}, status)

    async with serving(refuses) as url, living(tmp_path, far=remote(f"{url}/mcp")) as house:
        said = await house.until("/mcp show far", "retrying")
        assert f"HTTP {status}" in said
        assert ("login required" in said) == (status == 401)
