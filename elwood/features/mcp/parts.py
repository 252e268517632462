"""The parts of MCP servers for one run of the app: an actor each, its tools, and ``/mcp``."""

import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import Tool
from elwood.features.mcp.actor import McpServer
from elwood.features.mcp.commands import PromptWords, mcp_command
from elwood.features.mcp.definitions import ToolDefinition
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import NotConnected, ServerMail
from elwood.features.mcp.results import Block, Rendered
from elwood.features.mcp.settings import McpServers, ServerSettings
from elwood.features.mcp.store import LoginStore, ServerStore
from elwood.features.mcp.tools import find_scopes, make_tool, reader_tools
from elwood.foundation.net.egress import is_reachable, pin_route, resolve_host
from elwood.foundation.runtime import Address, Mailbox
from elwood.foundation.sandbox.children import family, reap
from elwood.foundation.sandbox.command import Command, Executor, NoSandbox, SandboxFailed
from elwood.foundation.sandbox.launched import Launched
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.pipes import Pipe
from elwood.foundation.sandbox.settings import MEGABYTE, SandboxSettings
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root

if TYPE_CHECKING:
    from elwood.features.mcp.client import Connection
    from elwood.foundation.net.library_client import LibraryClient

# Result files kept per server; the oldest are removed first.
MAX_KEPT = 200
# Seconds of silence that end a remote server's answer; a call has its own limit.
READ_TIMEOUT = 300.0
PAGE = os.sysconf("SC_PAGE_SIZE")
MISSING = "the MCP library is missing; install it: pip install 'elwood[mcp]'"


async def build(core: Core, others: Gathered) -> Parts:
    servers = core.config.get(McpServers).by_name
    blocking = core.environment.blocking
    # Processes left by an earlier run; without the shell no other feature reaps them.
    await blocking(partial(reap, core.paths.state))
    addresses: dict[str, Address[ServerMail]] = {}
    actors: list[Actor] = []
    live: list[dict[str, Tool]] = []
    for name, settings in servers.items():
        if not settings.enabled:
            continue
        mailbox: Mailbox[ServerMail] = Mailbox(f"mcp {name}", 32)
        shown: dict[str, Tool] = {}
        make = partial(_make_server, core, others, name, settings, mailbox.address, shown)
        await make().load()
        actors.append(Actor(step=2, mailbox=mailbox, body=partial(_run_actor, make), policy=WORLD))
        addresses[name] = mailbox.address
        live.append(shown)
    return Parts(
        actors=actors,
        live=live,
        tools=reader_tools(servers, addresses, lambda name: _is_open(servers[name], others)),
        sessions=[PromptWords],
        commands=[mcp_command(addresses)],
    )


async def _run_actor(make: Callable[[], McpServer], mailbox: Mailbox[ServerMail]) -> None:
    await make().run(mailbox)


def _make_server(
    core: Core,
    others: Gathered,
    name: str,
    settings: ServerSettings,
    address: Address[ServerMail],
    live: dict[str, Tool],
) -> McpServer:
    blocking, errors, pids = core.environment.blocking, LastWords(), set[int]()
    is_open = partial(_is_open, settings, others)

    def show(definitions: Sequence[ToolDefinition]) -> None:
        policy = core.config.get(PolicySettings)
        scopes = find_scopes(name, settings, definitions)
        tools = [
            make_tool(name, settings, policy, address, one, scopes[one.name], is_open)
            for one in definitions
        ]
        live.clear()
        live.update({tool.name: tool for tool in tools})

    @asynccontextmanager
    async def connect(
        legacy: bool, changed: Callable[[], object], elicit: Callable[[Block], Awaitable[Block]]
    ) -> "AsyncIterator[Connection]":
        client = "elwood.features.mcp.client"
        try:
            sdk = await blocking(partial(import_module, client))
        except ImportError as error:
            raise NotConnected(MISSING) from error
        if settings.url:

            def note_status(status: int) -> None:
                if status >= 400:
                    wants_login = status == 401 and settings.auth == "none"
                    login = ": login required" if wants_login else ""
                    errors.add(f"HTTP {status}{login}\n".encode())

            login = LoginStore(core.paths.state, name)
            auth = (
                await blocking(partial(sdk.oauth, settings, login))
                if settings.auth == "oauth"
                else None
            )
            make_client = partial(http_client, settings, note_status, auth)
            transport = sdk.remote(settings.url, settings.transport, make_client)
        else:
            transport = sdk.serve(
                partial(_run_process, core, others, settings, pids), errors, blocking
            )
        async with sdk.connect(
            transport, legacy=legacy, within=settings.start_timeout, changed=changed, elicit=elicit
        ) as connection:
            yield connection

    return McpServer(
        name,
        settings,
        ServerStore(core.paths.state, name, core.disk),
        connect=connect,
        show=show,
        keep=lambda rendered: blocking(
            partial(_store_files, core.workspace, f"mcp/{name}", rendered)
        ),
        tell=core.tell_owner,
        rss=lambda: sum(map(_read_rss, family(pids) if pids else ())),
        blocking=blocking,
        errors=errors,
    )


async def _run_process(
    core: Core, others: Gathered, settings: ServerSettings, pids: set[int], streams: Sequence[Pipe]
) -> str:
    """Run the server with *streams*, and return the reason why it ended."""

    def started(pid: int) -> None:
        pids.clear()
        pids.add(pid)

    sandbox = _choose_sandbox(core, others, settings)
    environment = dict(settings.env)
    if sandbox.rung == "direct":
        environment = {k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ} | environment
    try:
        outcome = await sandbox.run(
            Command(
                argv=(settings.command, *settings.args),
                timeout=math.inf,
                writable=False,
                environment=environment,
                secrets={key: value.reveal() for key, value in settings.secrets.items()},
                streams=streams,
                network=settings.network,
                shown=settings.shown,
                limits={"DATA": settings.memory * MEGABYTE, "NPROC": settings.processes},
                started=started,
            )
        )
    except SandboxFailed as error:
        return f"could not start {settings.command}: {error}"
    finally:
        pids.clear()
    return f"it exited with code {outcome.code}"


def http_client(
    settings: ServerSettings, on_status: Callable[[int], object], auth: Any = None
) -> "LibraryClient":
    """Create the client for a remote server; private addresses need *local*."""
    from elwood.foundation.net.library_client import library_client

    headers = {name: value.reveal() for name, value in settings.headers.items()}
    if settings.token is not None:
        headers["Authorization"] = f"Bearer {settings.token.reveal()}"
    return library_client(
        route=pin_route((lambda address: True) if settings.local else is_reachable, resolve_host),
        headers=headers,
        read_timeout=READ_TIMEOUT,
        seen=on_status,
        auth=auth,
    )


def _is_open(settings: ServerSettings, others: Gathered) -> bool:
    """Return True if the server can pass on what it gets: it has the network or is not confined."""
    is_free = settings.sandbox == "none" or not others.confined
    return bool(settings.url) or settings.network or is_free


def _choose_sandbox(core: Core, others: Gathered, settings: ServerSettings) -> Executor:
    """Choose the executor of a server.  Raises NotConnected."""
    if settings.sandbox == "none":
        context = SandboxContext(
            workspace=core.workspace.path,
            state=core.paths.state,
            settings=core.config.get(SandboxSettings),
            blocking=core.environment.blocking,
        )
        return Launched(context, "direct")
    if isinstance(others.sandbox, NoSandbox):
        raise NotConnected(f"there is no sandbox for it: {others.sandbox.why}")
    if settings.sandbox == "workspace" and not others.confined:
        raise NotConnected('commands are not confined here, and sandbox = "workspace" requires it')
    return others.sandbox


def _store_files(workspace: Root, folder: str, rendered: Rendered) -> str:
    """Write the files of a result, and return its text; blocks."""
    lost = []
    for name, content in rendered.files.items():
        try:
            workspace.write(name, content, untrusted=True)
        except (PathRefused, Unconfined) as error:
            lost.append(f"[{error}]")
    with suppress(PathRefused, Unconfined):  # then there is nothing to remove
        _remove_oldest(workspace, folder)
    return "\n".join([rendered.text, *lost])


def _remove_oldest(workspace: Root, folder: str) -> None:
    files = sorted(workspace.stats(folder), key=lambda item: item[1].st_mtime)
    for name, _ in files[:-MAX_KEPT]:
        workspace.remove(f"{folder}/{name}", untrusted=True)


def _read_rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:  # it has exited
        return 0
