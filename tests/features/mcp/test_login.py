"""Log in to a remote server: with a browser, stored privately, refreshed, bound to one address."""

import json
import socket
import stat
import struct
import subprocess
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
import trio

from elwood.features.mcp.login import Login
from elwood.features.mcp.settings import McpServers
from elwood.features.mcp.store import LoginStore
from elwood.foundation.command_line import CliFailure
from elwood.foundation.net.http import Client
from elwood.foundation.settings import Config, Paths
from tests.fake_http import Reply, Request, json_reply, serving
from tests.features.mcp.fake_server import FakeServer
from tests.features.mcp.house import living
from tests.features.mcp.test_remote import remote
from tests.journeys.service import PATIENCE, ROOT

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")


class Told(FakeServer):
    """The fake over HTTP: its output is the response."""

    said = ""

    def write(self, text: str) -> None:
        self.said += text


@attrs.define
class Guarded:
    """A server that requires a login, and its authorization server."""

    url: str = ""
    good: str = "none"
    grants: list[str] = attrs.field(factory=list)
    issuer: str = ""

    async def answer(self, request: Request) -> Reply:
        path, _, query = request.path.partition("?")
        match path:
            case "/mcp":
                return self._mcp(request)
            case "/.well-known/oauth-protected-resource/mcp":
                return json_reply(
                    {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
                )
            case "/.well-known/oauth-authorization-server":
                return json_reply(
                    {
                        "issuer": self.issuer or self.url,
                        **{
                            f"{what}_endpoint": f"{self.url}/{where}"
                            for what, where in (
                                ("authorization", "authorize"),
                                ("token", "as/token"),
                                ("registration", "register"),
                            )
                        },
                        "code_challenge_methods_supported": ["S256"],
                    }
                )
            case "/register":
                return json_reply({**request.json(), "client_id": "elwood-1"}, 201)
            case "/authorize":
                asked = parse_qs(query)
                assert asked["code_challenge_method"] == ["S256"]
                assert asked["resource"] == [f"{self.url}/mcp"]
                back = f"{asked['redirect_uri'][0]}?code=c-1&state={asked['state'][0]}"
                return Reply(status=302, headers={"location": back, "content-length": "0"})
            case "/as/token":
                given = parse_qs(request.body.decode())
                self.grants += given["grant_type"]
                self.good = f"token-{len(self.grants)}"
                return json_reply(
                    {
                        "access_token": self.good,
                        "token_type": "Bearer",
                        "expires_in": 3600,
                        "refresh_token": f"refresh-{len(self.grants)}",
                    }
                )
        return json_reply({"error": "not found"}, 404)

    def _mcp(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {self.good}":
            told = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            return json_reply({}, 401, {"www-authenticate": told})
        fake = Told({})
        fake.answer(request.json())
        if not fake.said:
            return Reply(status=202, headers={"content-length": "0"})
        if "subscriptions/acknowledged" in fake.said:
            return json_reply({}, 404)
        return json_reply(json.loads(fake.said))


@asynccontextmanager
async def guarded() -> AsyncIterator[Guarded]:
    made = Guarded()
    async with serving(made.answer) as url:
        made.url = url
        yield made


async def browse(url: str) -> None:
    """Visit the address of the redirect as others may, then open *url* and follow its redirect."""
    client = Client()
    answer = await client.get(url, read_timeout=5)
    back = answer.headers["location"]
    where = urlsplit(back)
    assert (where.hostname, where.path) == ("127.0.0.1", "/callback")
    assert where.port is not None
    for stray in ("error=access_denied", "code=c-2&state=other", "error=server_error&state="):
        address = f"http://127.0.0.1:{where.port}/callback?{stray}"
        assert (await client.get(address, read_timeout=5)).status == 200
    for _ in range(3):  # a scanner closes without reading
        stream = await trio.open_tcp_stream("127.0.0.1", where.port)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await stream.aclose()
    assert (await client.get(back, read_timeout=5)).status == 200
    await client.aclose()


def write_config(folder: Path, url: str) -> Path:
    config = folder / "config.toml"
    lines = ["[mcp_servers.far]", f'url = "{url}/mcp"', 'auth = "oauth"', "local = true", "[paths]"]
    lines += (f'{name} = "{folder / name}"' for name in ("state", "runtime"))
    config.write_text("\n".join(lines))
    return config


async def log_in_with_browser(config: Path) -> str:
    """Run `elwood auth mcp far` at a pipe, and log in; return its output."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "elwood", "--config", str(config), "auth", "mcp", "far"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    said = ""
    try:
        with trio.fail_after(PATIENCE):
            async for data in process.stdout:
                seen, said = said, said + data.decode()
                if "/authorize?" in said and "/authorize?" not in seen:
                    await browse(next(word for word in said.split() if "/authorize?" in word))
            assert await process.wait() == 0
    finally:
        process.kill()
    return said


async def log_in(config: Config) -> None:
    from elwood.features.mcp import cli

    await trio.to_thread.run_sync(partial(cli.log_in, config, Namespace(name="far")))


async def test_a_login_is_stored_used_and_refreshed(tmp_path: Path) -> None:
    async with guarded() as server:
        settings = remote(f"{server.url}/mcp", auth="oauth")
        # Without a login the error names the command.
        async with living(tmp_path, far=settings) as house:
            said = await house.until("/mcp show far", "needs a login")
            assert "restarts" not in said
            told = await house.ask("/status")
            assert "MCP server far needs a login: run" in told
        said = await log_in_with_browser(write_config(tmp_path, server.url))
        assert "Logged in; far offers 2 tools." in said
        store = LoginStore(tmp_path / "state", "far")
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        async with living(tmp_path, far=settings) as house:
            await house.until("/mcp show far", ": ready;")
            assert "\nhello\n" in await house.call("far__echo", text="hello")
            assert server.grants == ["authorization_code"]
            # A token that the server no longer accepts is refreshed during the call.
            server.good = "none"
            assert "\nagain\n" in await house.call("far__echo", text="again")
        assert server.grants == ["authorization_code", "refresh_token"]
        # An expired token is refreshed where the login was made.
        kept = store.read(settings.url)
        kept.expires, server.good = 1.0, "none"
        store.write(kept)
        async with living(tmp_path, far=settings) as house:
            await house.until("/mcp show far", ": ready;")
        assert server.grants == ["authorization_code", "refresh_token", "refresh_token"]
        assert store.read(settings.url).tokens is not None
        # Tokens for one address are not used for another.
        assert store.read(f"{server.url}/other").tokens is None


async def test_mcp_31_a_login_is_bound_to_its_issuer(tmp_path: Path) -> None:
    async with guarded() as server:
        server.issuer = "https://elsewhere.example"
        settings = remote(f"{server.url}/mcp", auth="oauth")
        paths = Paths(state=tmp_path, workspace=tmp_path, runtime=tmp_path)
        with pytest.raises(CliFailure, match=r"not logged in: .*issuer"):
            await log_in(Config.from_values(paths, McpServers({"far": settings})))
        assert server.grants == []


def test_a_damaged_login_is_ignored(tmp_path: Path) -> None:
    store = LoginStore(tmp_path, "far")
    store.write(Login("https://example.org", {"access_token": "a"}))
    assert store.read("https://example.org").tokens == {"access_token": "a"}
    store.path.write_text("{")
    assert store.read("https://example.org") == Login("https://example.org")
