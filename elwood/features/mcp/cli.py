"""``elwood auth mcp NAME``: log in to a remote server with a browser."""

import logging
import math
import sys
from argparse import Namespace
from contextlib import suppress
from functools import partial

import trio

from elwood.features.mcp.login import MAX_ANSWER, PORT, Redirect, parse_redirect
from elwood.features.mcp.messages import ServerRefused, error_text
from elwood.features.mcp.parts import MISSING, http_client
from elwood.features.mcp.settings import McpServers, ServerSettings
from elwood.features.mcp.store import LoginStore
from elwood.foundation.command_line import OK, CliFailure
from elwood.foundation.settings import Config, Paths
from elwood.foundation.text.characters import escape_invisible

# Seconds for a person to log in, and for one visit of the page after it.
PATIENCE, VISIT = 600.0, 5.0
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nClose this page."


def log_in(config: Config, given: Namespace) -> int:
    servers = config.get(McpServers).by_name
    name: str = given.name
    if name not in servers:
        raise CliFailure(f"there is no MCP server {name}; there is: {', '.join(servers) or 'none'}")
    if servers[name].auth != "oauth":
        raise CliFailure(f'{name} has no login; write auth = "oauth" into mcp_servers.{name}')
    store = LoginStore(config.get(Paths).state, name)
    logging.getLogger("elwood.mcp").setLevel(logging.ERROR)
    try:
        count = trio.run(partial(_log_in, servers[name], store))
    except ImportError as error:
        raise CliFailure(MISSING) from error
    print(f"Logged in; {name} offers {count} tools. The tokens are in {store.path}.")
    print(f"If Elwood is running, type /mcp restart {name} in a chat.")
    return OK


async def _log_in(settings: ServerSettings, store: LoginStore) -> int:
    from elwood.features.mcp import client

    state: str | None = None

    async def show(url: str) -> None:
        nonlocal state
        state = parse_redirect(url).state
        await _show_login_page(url)

    try:  # before the page is shown: the browser may be fast
        [listener] = await trio.open_tcp_listeners(PORT, host="127.0.0.1")
    except OSError as error:
        raise CliFailure(f"not logged in: port {PORT} is in use: {error.strerror}") from error
    auth = client.oauth(
        settings, store, show=show, answer=lambda: _wait_for_redirect(listener, state)
    )
    transport = client.remote(
        settings.url, settings.transport, lambda: http_client(settings, lambda status: None, auth)
    )

    async def elicit(form: object) -> dict[str, object]:
        await trio.lowlevel.checkpoint()
        return {"action": "cancel"}

    count, failed = 0, ""
    try:
        with trio.fail_after(PATIENCE):
            async with (
                listener,
                client.connect(
                    transport, legacy=False, within=math.inf, changed=lambda: None, elicit=elicit
                ) as connection,
            ):
                count = len(await connection.list_tools())
    except* Exception as group:  # the SDK raises groups
        failed = error_text(group)
    if failed:
        raise CliFailure(f"not logged in: {failed}")
    return count


async def _show_login_page(url: str) -> None:
    await trio.lowlevel.checkpoint()
    print(f"Open this page in a browser, and log in:\n\n{escape_invisible(url)}\n")
    print(
        "If the browser runs on another machine, paste the final address from its address bar "
        "here.",
        flush=True,  # a program that reads this from a pipe may open the page
    )


async def _wait_for_redirect(listener: trio.SocketListener, state: str | None) -> Redirect:
    """Wait for the redirect of the login *state*, by the browser or as a pasted address.

    Other visits and addresses are ignored.
    """
    results: list[Redirect] = []
    async with trio.open_nursery() as nursery:

        def accept(text: str) -> None:
            answer = parse_redirect(text)
            if answer.state == state and (answer.code or answer.error):
                results.append(answer)
                nursery.cancel_scope.cancel()

        async def serve_redirect(stream: trio.SocketStream) -> None:
            line: list[str] = []
            async with stream:
                with suppress(trio.BrokenResourceError), trio.move_on_after(VISIT):
                    line = (await stream.receive_some(MAX_ANSWER)).decode("latin-1").split(" ")
                    await stream.send_all(PAGE)
            if len(line) > 1 and line[1].startswith("/callback?"):
                accept(line[1])

        async def read_pasted() -> None:
            while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                accept(line)

        nursery.start_soon(trio.serve_listeners, serve_redirect, [listener])
        nursery.start_soon(read_pasted)
    if results[0].error:
        raise ServerRefused(f"the login was refused: {results[0].error}")
    return results[0]
