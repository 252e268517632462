"""What MCP servers bring to one run of the app: an actor each, its tools, and ``/mcp``."""

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
from elwood.features.mcp.commands import PromptWords, mcp
from elwood.features.mcp.definitions import ToolDefinition
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import NotConnected, ServerMail
from elwood.features.mcp.results import Block, Rendered
from elwood.features.mcp.settings import McpServers, ServerSettings
from elwood.features.mcp.store import LoginStore, ServerStore
from elwood.features.mcp.tools import readers, tool_of
from elwood.foundation.net.egress import is_reachable, pinned, resolved
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

# Files of answers that stay in the folder of a server; the oldest go first.
MAX_KEPT = 200
# Seconds of silence that end an answer of a server elsewhere; a call has its own limit.
READ_TIMEOUT = 300.0
PAGE = os.sysconf("SC_PAGE_SIZE")
MISSING = "the SDK is missing; install it: pip install 'elwood[mcp]'"


async def build(core: Core, others: Gathered) -> Parts:
    servers = core.config.of(McpServers).by_name
    blocking = core.environment.blocking
    # What an earlier process left running; without the shell nobody else has looked.
    await blocking(partial(reap, core.paths.state))
    addresses: dict[str, Address[ServerMail]] = {}
    actors: list[Actor] = []
    live: list[dict[str, Tool]] = []
    for name, settings in servers.items():
        if not settings.enabled:
            continue
        mailbox: Mailbox[ServerMail] = Mailbox(f"mcp {name}", 32)
        shown: dict[str, Tool] = {}
        make = partial(_server, core, others, name, settings, mailbox.address, shown)
        await make().load()
        actors.append(Actor(step=2, mailbox=mailbox, body=partial(_live, make), policy=WORLD))
        addresses[name] = mailbox.address
        live.append(shown)
    return Parts(
        actors=actors,
        live=live,
        tools=readers(servers, addresses),
        sessions=[PromptWords],
        commands=[mcp(addresses)],
    )


async def _live(make: Callable[[], McpServer], mailbox: Mailbox[ServerMail]) -> None:
    await make().run(mailbox)


def _server(
    core: Core,
    others: Gathered,
    name: str,
    settings: ServerSettings,
    address: Address[ServerMail],
    live: dict[str, Tool],
) -> McpServer:
    blocking, errors, pids = core.environment.blocking, LastWords(), set[int]()

    def show(definitions: Sequence[ToolDefinition]) -> None:
        policy = core.config.of(PolicySettings)
        made = [tool_of(name, settings, policy, address, one) for one in definitions]
        live.clear()
        live.update({tool.name: tool for tool in made})

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

            def seen(status: int) -> None:
                if status >= 400:
                    login = ", so it wants a login" if status == 401 else ""
                    errors.add(f"HTTP {status}{login}\n".encode())

            login = LoginStore(core.paths.state, name)
            auth = (
                await blocking(partial(sdk.oauth, settings, login))
                if settings.auth == "oauth"
                else None
            )
            made = partial(http_client, settings, seen, auth)
            transport = sdk.remote(settings.url, settings.transport, made)
        else:
            transport = sdk.serve(partial(_run, core, others, settings, pids), errors, blocking)
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
        keep=lambda found: blocking(partial(_kept, core.workspace, f"mcp/{name}", found)),
        tell=core.tell_owner,
        rss=lambda: sum(map(_rss, family(pids) if pids else ())),
        blocking=blocking,
        errors=errors,
    )


async def _run(
    core: Core, others: Gathered, settings: ServerSettings, pids: set[int], streams: Sequence[Pipe]
) -> str:
    """Run the server with *streams*, and say why it ended."""

    def started(pid: int) -> None:
        pids.clear()
        pids.add(pid)

    sandbox = _sandbox(core, others, settings)
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
        return f"it could not be run: {error}"
    finally:
        pids.clear()
    return f"it ended with {outcome.code}"


def http_client(
    settings: ServerSettings, seen: Callable[[int], object], auth: Any = None
) -> "LibraryClient":
    """Make the client for a server elsewhere: no name leads it into our network, unless it may."""
    from elwood.foundation.net.library_client import library_client

    headers = {name: value.reveal() for name, value in settings.headers.items()}
    if settings.token is not None:
        headers["Authorization"] = f"Bearer {settings.token.reveal()}"
    return library_client(
        route=pinned((lambda address: True) if settings.local else is_reachable, resolved),
        headers=headers,
        read_timeout=READ_TIMEOUT,
        seen=seen,
        auth=auth,
    )


def _sandbox(core: Core, others: Gathered, settings: ServerSettings) -> Executor:
    """Say where a server runs.  Raises NotConnected."""
    if settings.sandbox == "none":
        context = SandboxContext(
            workspace=core.workspace.path,
            state=core.paths.state,
            settings=core.config.of(SandboxSettings),
            blocking=core.environment.blocking,
        )
        return Launched(context, "direct")
    if isinstance(others.sandbox, NoSandbox):
        raise NotConnected(f"there is no sandbox for it: {others.sandbox.why}")
    if settings.sandbox == "workspace" and not others.confined:
        raise NotConnected("the sandbox of commands has no walls, and this server wants some")
    return others.sandbox


def _kept(workspace: Root, folder: str, found: Rendered) -> str:
    """Write the files of an answer, and give its text; blocks."""
    lost = []
    for name, content in found.files.items():
        try:
            workspace.write(name, content, untrusted=True)
        except (PathRefused, Unconfined) as error:
            lost.append(f"[{error}]")
    with suppress(PathRefused, Unconfined):  # then there is nothing to remove
        _sweep(workspace, folder)
    return "\n".join([found.text, *lost])


def _sweep(workspace: Root, folder: str) -> None:
    found = sorted(workspace.stats(folder), key=lambda one: one[1].st_mtime)
    for name, _ in found[:-MAX_KEPT]:
        workspace.remove(f"{folder}/{name}", untrusted=True)


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:  # it is gone
        return 0
