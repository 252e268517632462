"""``elwood mcp``, and ``elwood auth mcp NAME``: log in to a remote server with a browser."""

import logging
import math
import os
import sys
import time
from argparse import Namespace
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from elwood.features.mcp.adding import (
    Described,
    NotAddable,
    describe_server,
    find_remedies,
    parse_block,
    parse_variables,
)
from elwood.features.mcp.definitions import ToolDefinition, describe_claim
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.login import MAX_ANSWER, PORT, Redirect, parse_redirect
from elwood.features.mcp.messages import NotConnected, ServerRefused, error_text
from elwood.features.mcp.parts import MISSING, choose_sandbox, http_client, run_process
from elwood.features.mcp.settings import AddedServer, McpServers, ServerSettings, refuse_added
from elwood.features.mcp.store import (
    AddedStore,
    LoginStore,
    book_path,
    is_hidden,
    propose_command,
    read_book,
)
from elwood.foundation.command_line import OK, CliFailure, show_list
from elwood.foundation.net.control import ControlAnswer, NotRunning, ServiceUnreachable, ask
from elwood.foundation.runtime import in_thread, inline
from elwood.foundation.sandbox.command import Executor, NoSandbox
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import Disk
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.tables import Styled

# Seconds for a person to log in, and for one visit of the page after it.
PATIENCE, VISIT = 600.0, 5.0
# Last lines of the error output that are shown.
MAX_LINES = 10
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nClose this page."


def add(config: Config, given: Namespace) -> int:
    """Add servers; the running service does it, else the file is written here."""
    paths = config.get(Paths)
    try:
        for name, server in _read_servers(given, paths.workspace).items():
            try:
                words = msgspec.json.encode(server).decode()
                answer = ask(paths.runtime, "mcp", "add", name, words)
            except NotRunning:
                answer = _add_here(config, name, server)
            if not answer.ok:
                raise CliFailure(answer.text)
            print(answer.text)
    except (NotAddable, ServiceUnreachable) as error:
        raise CliFailure(str(error)) from error
    return OK


def _read_servers(given: Namespace, workspace: Path) -> dict[str, AddedServer]:
    """Return the servers that the command line describes.  Raises NotAddable."""
    blocks = {given.name: Described("", (), {}, given.url, given.transport)}
    if given.json:
        file = "/dev/stdin" if given.json == "-" else given.json
        blocks = parse_block(Path(file).read_bytes())
        if given.name and len(blocks) == 1:
            blocks = {given.name: next(iter(blocks.values()))}
    elif given.words:
        blocks = {given.name: Described(given.words[0], tuple(given.words[1:]))}
    if not all(blocks) or not all(one.url or one.command for one in blocks.values()):
        raise NotAddable("give a name and -- COMMAND…, --url URL, or --json FILE")
    return {name: _complete(one, given, workspace) for name, one in blocks.items()}


def _complete(one: Described, given: Namespace, workspace: Path) -> AddedServer:
    """Propose the settings of a server, with the options of the command line."""
    env = {**one.env, **parse_variables(given.env, "=")}
    headers = {**one.headers, **parse_variables(given.header, ":")}
    if one.url:
        return AddedServer(
            url=one.url,
            transport="sse" if one.type == "sse" else "http",
            headers=headers,
            auth="oauth" if given.oauth else "none",
        )
    server = propose_command((one.command, *one.args), env, workspace)
    return msgspec.structs.replace(
        server,
        mounts=(*server.mounts, *map(os.path.abspath, given.mount)),
        network=server.network or given.network,
    )


def _add_here(config: Config, name: str, server: AddedServer) -> ControlAnswer:
    """Add a server while no service runs."""
    paths = config.get(Paths)
    if why := refuse_added(name, server, config.get(McpServers).by_name, paths):
        return ControlAnswer(False, f"{name} was not added: {why}")
    AddedStore(paths.state, Disk(blocking=inline, clock=time.time)).add(name, server)
    return ControlAnswer(
        True, f"Added. Elwood starts it when it runs.\n{describe_server(name, server)}"
    )


def remove(config: Config, given: Namespace) -> int:
    paths, servers, name = config.get(Paths), config.get(McpServers), given.name
    try:
        return _print_answer(ask(paths.runtime, "mcp", "remove", name))
    except NotRunning:
        if name not in servers.added:
            why = "it is in config.toml" if name in servers.by_name else "there is no such server"
            raise CliFailure(f"{name} was not removed: {why}") from None
    AddedStore(paths.state, Disk(blocking=inline, clock=time.time)).remove(name)
    print(f"{name} is removed, with its accepted tools and its login.")
    return OK


def steer(config: Config, given: Namespace) -> int:
    """Send a command to a server of the running service."""
    try:
        words = " ".join(given.words)
        return _print_answer(ask(config.get(Paths).runtime, "mcp", given.what, given.name, words))
    except ServiceUnreachable as error:
        raise CliFailure(str(error)) from error


def _print_answer(answer: ControlAnswer) -> int:
    if not answer.ok:
        raise CliFailure(answer.text)
    print(answer.text)
    return OK


def list_servers(config: Config, given: Namespace) -> int:
    """Print the servers, and how many of their tools are accepted."""
    servers, state, rows = config.get(McpServers), config.get(Paths).state, []
    for name, one in servers.by_name.items():
        book = read_book(book_path(state, name))
        is_on = one.enabled and not book.off
        what = one.url or " ".join((one.command, *one.args))
        source = "added" if name in servers.added else "config.toml"
        fields = {"name": name, "on": is_on, "accepted": len(book.accepted), "source": source}
        on = Styled("on", "good") if is_on else Styled("off", "warning")
        row = (name, on, str(len(book.accepted)), source, what)
        rows.append(({**fields, "what": what}, row))
    none = "There are no MCP servers. To add one: elwood mcp add NAME -- COMMAND…"
    titles = ("server", "state", "tools", "from", "command or url")
    show_list(titles, rows, given, none, ("command or url",))
    return OK


def probe(config: Config, given: Namespace) -> int:
    """Start a server as the service does, and print its tools, or the fault and remedies."""
    settings = _find_server(config, given.name)
    logging.getLogger("elwood.mcp").setLevel(logging.ERROR)
    config.get(Paths).workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    errors = LastWords()
    try:
        tools = trio.run(partial(_probe, config, given.name, settings, errors))
    except ImportError as error:
        raise CliFailure(MISSING) from error
    except (NotConnected, ServerRefused) as error:
        lines = [f"{given.name} did not start: {error}"]
        lines += [f"  {line}" for line in errors.text.splitlines()[-MAX_LINES:]]
        lines += find_remedies(
            errors.text,
            settings.mounts,
            network=settings.network or bool(settings.url),
            exists=is_hidden,
        )
        raise CliFailure("\n".join(lines)) from error
    print(f"{given.name} works and offers {len(tools)} tools:")
    for tool in tools:
        claim = describe_claim(tool)
        print(f"- {tool.name}: {one_line(tool.description or tool.title, 160)}")
        if claim:
            print(f"  It says that {claim}.")
    return OK


async def _probe(
    config: Config, name: str, settings: ServerSettings, errors: LastWords
) -> list[ToolDefinition]:
    """Connect and list the tools.  Raises NotConnected, ServerRefused."""
    from elwood.features.mcp import client

    paths = config.get(Paths)
    if settings.url:
        login = LoginStore(paths.state, name)
        auth = client.oauth(settings, login) if settings.auth == "oauth" else None
        make_client = partial(http_client, settings, lambda status: None, auth)
        transport = client.remote(settings.url, settings.transport, make_client)
    else:
        sandbox = config.get(SandboxSettings)
        chosen: Executor | NoSandbox = NoSandbox("it is not needed")
        if settings.sandbox != "none":
            try:
                chosen = (await pick(sandbox, paths.workspace, paths.state)).executor
            except NoSandbox as error:
                chosen = error
        context = SandboxContext(
            workspace=paths.workspace, state=paths.state, settings=sandbox, blocking=in_thread
        )
        executor = choose_sandbox(settings, chosen, context)
        run = partial(run_process, executor, settings, set())
        transport = client.serve(run, errors, in_thread)
    return await _list_tools(client, transport, settings.start_timeout)


async def _list_tools(client: Any, transport: Any, within: float) -> list[ToolDefinition]:
    """Connect by *transport*, with *client*, our adapter of the SDK, and list the tools.

    Raises NotConnected, ServerRefused.
    """

    async def cancel(form: object) -> dict[str, object]:
        await trio.lowlevel.checkpoint()
        return {"action": "cancel"}

    tools: list[ToolDefinition] = []
    failed: BaseException | None = None
    try:
        async with client.connect(
            transport, legacy=False, within=within, changed=lambda: None, elicit=cancel
        ) as connection:
            tools = await connection.list_tools()
    except* Exception as group:  # the SDK raises groups
        failed = group
    if failed is not None:
        raise NotConnected(error_text(failed))
    return tools


def _find_server(config: Config, name: str) -> ServerSettings:
    servers = config.get(McpServers).by_name
    if name not in servers:
        raise CliFailure(f"there is no MCP server {name}; there is: {', '.join(servers) or 'none'}")
    return servers[name]


def log_in(config: Config, given: Namespace) -> int:
    name: str = given.name
    settings = _find_server(config, name)
    if settings.auth != "oauth":
        raise CliFailure(f'{name} has no login; write auth = "oauth" into mcp_servers.{name}')
    store = LoginStore(config.get(Paths).state, name)
    logging.getLogger("elwood.mcp").setLevel(logging.ERROR)
    try:
        count = trio.run(partial(_log_in, settings, store))
    except ImportError as error:
        raise CliFailure(MISSING) from error
    print(f"Logged in; {name} offers {count} tools. The tokens are in {store.path}.")
    with suppress(ServiceUnreachable):
        print(ask(config.get(Paths).runtime, "mcp", "restart", name).text)
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
