"""The parts of MCP servers for one run of the app: an actor each, its tools, and ``/mcp``."""

import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

import trio

from elwood.agent.channels.client import TellOwner
from elwood.agent.conversation.message import ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.agent.media.store import find_picture
from elwood.agent.parts import WORLD, Actor, ControlCommand, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import Tool
from elwood.features.mcp.actor import McpServer
from elwood.features.mcp.adding import describe_server
from elwood.features.mcp.commands import PromptWords, Steering, mcp_command
from elwood.features.mcp.definitions import ToolDefinition
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import (
    LOGIN,
    AddServer,
    Asker,
    NeedsLogin,
    NotConnected,
    RemoveServer,
    ServerMail,
    ServersMail,
    Steer,
    Steered,
)
from elwood.features.mcp.results import Block, Rendered
from elwood.features.mcp.settings import McpServers, ServerSettings, refuse_added
from elwood.features.mcp.store import AddedStore, LoginStore, ServerStore
from elwood.features.mcp.tools import (
    find_scopes,
    make_switched_off,
    make_tool,
    reader_tools,
    search_tool,
)
from elwood.foundation.environment import memory_of
from elwood.foundation.net.egress import is_reachable, pin_route, resolve_host
from elwood.foundation.runtime import (
    ActorUnavailable,
    Address,
    Child,
    Crashed,
    Event,
    Mailbox,
    supervise,
)
from elwood.foundation.sandbox.children import family, reap
from elwood.foundation.sandbox.command import Command, Executor, NoSandbox, SandboxFailed
from elwood.foundation.sandbox.launched import Launched
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.pipes import Pipe
from elwood.foundation.sandbox.settings import MEGABYTE, SandboxSettings
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.files import Root

if TYPE_CHECKING:
    from elwood.features.mcp.client import Connection
    from elwood.foundation.net.library_client import LibraryClient

log = logging.getLogger("elwood.mcp")

# Result files kept per server; the oldest are removed first.
MAX_KEPT = 200
# Completions for terminals, of all servers.
MAX_COMPLETIONS = 500
# Seconds of silence that end a remote server's answer; a call has its own limit.
READ_TIMEOUT = 300.0
MISSING = "the MCP library is missing; install it: pip install 'elwood[mcp]'"


async def build(core: Core, others: Gathered) -> Parts:
    # Processes left by an earlier run; without the shell no other feature reaps them.
    await core.environment.blocking(partial(reap, core.paths.state))
    servers = Servers(core, others)
    actors: list[Actor] = []
    for name, settings in core.config.get(McpServers).by_name.items():
        if settings.enabled:
            mailbox: Mailbox[ServerMail] = Mailbox(f"mcp {name}", 32)
            body = await servers.introduce(name, settings, mailbox)
            actors.append(Actor(step=2, mailbox=mailbox, body=body, policy=WORLD))
    manager: Mailbox[ServersMail] = Mailbox("mcp", 16)
    actors.append(Actor(step=3, mailbox=manager, body=servers.run, policy=WORLD))
    steering = Steering(
        servers.addresses,
        manager.address,
        core.paths.workspace,
        servers.format_troubles,
        lambda: others.confined,
    )
    return Parts(
        actors=actors,
        live=[servers.tools],
        sessions=[lambda log: PromptWords(servers.addresses)],
        completions=[servers.list_completions],
        status=[servers.format_troubles],
        commands=[mcp_command(steering)],
        control=[ControlCommand(name="mcp", run=steering.control)],
    )


class Servers:
    """The servers of one run: those of the configuration, and those that were added since.

    Added servers run under the actor "mcp"; after the next start they are in the configuration.
    """

    def __init__(self, core: Core, others: Gathered) -> None:
        self.addresses: dict[str, Address[ServerMail]] = {}
        self.tools: dict[str, Tool] = {}
        self._core = core
        self._others = others
        self._store = AddedStore(core.paths.state, core.disk)
        self._settings = dict(core.config.get(McpServers).by_name)
        self._added = set(core.config.get(McpServers).added)
        self._shown: dict[str, Sequence[Tool]] = {}
        self._off: dict[str, Sequence[Tool]] = {}
        self._completions: dict[str, Mapping[str, str]] = {}
        # By server, why only the owner can start it again.
        self.troubles: dict[str, str] = {}
        # The servers that were added in this run, and what ends each.
        self._children: dict[str, tuple[Child, trio.Event]] = {}

    async def introduce(
        self, name: str, settings: ServerSettings, mailbox: Mailbox[ServerMail]
    ) -> Callable[[Mailbox[ServerMail]], Awaitable[None]]:
        """Make a server known, with its accepted tools; return the body of its actor."""
        note = partial(self._note_trouble, name)
        make = partial(
            _make_server, self._core, self._others, name, settings, mailbox, self._show, note
        )
        self._settings[name] = settings
        self.addresses[name] = address = mailbox.address
        await make().load()

        async def run(mailbox: Mailbox[ServerMail]) -> None:
            if self.addresses.get(name) is not address:
                await trio.sleep_forever()  # it was removed, and then crashed
            await make().run(mailbox)

        return run

    def list_completions(self) -> dict[str, str]:
        """Return the typed names of the servers' resources and prompts, with descriptions."""
        listed = (each for one in self._completions.values() for each in one.items())
        return dict(islice(listed, MAX_COMPLETIONS))

    def _show(
        self,
        name: str,
        tools: Sequence[Tool],
        off: Sequence[Tool] = (),
        completions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Offer *tools* and *completions* of the server *name*, instead of the earlier ones.

        Those that are *off* explain that if they are called.
        """
        self._shown[name], self._off[name], self._completions[name] = tools, off, completions
        policy = self._core.config.get(PolicySettings)
        settings = {one: self._settings[one] for one in self.addresses}
        own: list[Tool] = []
        if settings:
            own += reader_tools(settings, self.addresses, self._is_open, policy)
            own.append(search_tool(dict(self._shown), policy))
        # The order stays the same, whichever server answers first: the prompt is cached.
        both = (*sorted(self._shown.items()), *sorted(self._off.items()))
        shown = (tool for _, tools in both for tool in tools)
        self.tools.clear()
        self.tools.update({tool.name: tool for tool in (*own, *shown)})

    def _note_trouble(self, name: str, trouble: str) -> None:
        self.troubles.pop(name, None)
        if trouble:
            self.troubles[name] = trouble

    async def format_troubles(self) -> str:
        await trio.lowlevel.checkpoint()
        return "\n".join(self.troubles.values())

    def _is_open(self, name: str) -> bool:
        return _is_open(self._settings[name], self._others)

    async def run(self, mailbox: Mailbox[ServersMail]) -> None:
        """Add and remove servers until the mailbox is closed."""
        async with trio.open_nursery() as nursery:
            for name in self._children:
                self._start(name, nursery)
            async for message in mailbox:
                try:
                    match message:
                        case AddServer():
                            message.reply.set(await self._add(message, nursery))
                        case RemoveServer(name=name):
                            message.reply.set(await self._remove(name))
                        case _:
                            assert_never(message)
                except (DiskFull, OSError) as error:
                    message.reply.set(Steered(f"I could not do that: {error}", ok=False))
            for _, end in self._children.values():
                end.set()

    def _start(self, name: str, nursery: trio.Nursery) -> None:
        child, end = self._children[name]
        table = self._core.table
        run = partial(supervise, [child], stop=end, listener=_log_crash, actor_table=table)
        nursery.start_soon(run)

    async def _add(self, adding: AddServer, nursery: trio.Nursery) -> Steered:
        name, server = adding.name, adding.server
        if (why := refuse_added(name, server, self._settings, self._core.paths)) is not None:
            return Steered(f"I did not add {name}: {why}.", ok=False)
        await self._core.environment.blocking(partial(self._store.add, name, server))
        settings = server.settings
        self._core.redactor.add((*settings.secrets.values(), *settings.headers.values()))
        mailbox: Mailbox[ServerMail] = Mailbox(f"mcp/{name}", 32, 2)
        body = await self.introduce(name, settings, mailbox)
        self._added.add(name)
        self._children[name] = Child(mailbox, body, WORLD), trio.Event()
        self._start(name, nursery)
        words = (
            f"Added.\n{describe_server(name, server)}\n"
            "I am starting it, and tell you its tools. They are off until you accept them."
        )
        return Steered(words, (f"/mcp accept {name}", f"/mcp remove {name}"))

    async def _remove(self, name: str) -> Steered:
        if name not in self._added or name not in self.addresses:
            is_there = name in self._settings
            why = "it is in config.toml" if is_there else "there is no such server"
            return Steered(f"I did not remove {name}: {why}.", ok=False)
        with suppress(ActorUnavailable):
            await self.addresses.pop(name).ask(Steer(what="disable"))
        if name in self._children:
            self._children.pop(name)[1].set()
        self._added.discard(name)
        self._show(name, ())
        self._note_trouble(name, "")
        del self._settings[name]
        await self._core.environment.blocking(partial(self._store.remove, name))
        return Steered(f"{name} is removed, with its accepted tools and its login.")


def _log_crash(event: Event) -> None:
    if isinstance(event, Crashed):
        log.error("actor crashed", extra={"actor": event.name}, exc_info=event.error)


def _make_server(
    core: Core,
    others: Gathered,
    name: str,
    settings: ServerSettings,
    mailbox: Mailbox[ServerMail],
    show_tools: Callable[[str, Sequence[Tool], Sequence[Tool], Mapping[str, str]], None],
    note_trouble: Callable[[str], None],
) -> McpServer:
    blocking, errors, pids = core.environment.blocking, LastWords(), set[int]()
    is_open = partial(_is_open, settings, others)

    def show(
        definitions: Sequence[ToolDefinition],
        off: Mapping[str, str],
        completions: Mapping[str, str],
    ) -> None:
        policy = core.config.get(PolicySettings)
        scopes = find_scopes(name, settings, definitions)
        server = mailbox.address
        show_tools(
            name,
            [
                make_tool(name, settings, policy, server, one, scopes[one.name], is_open)
                for one in definitions
            ],
            [
                make_switched_off(name, one, why, policy, f"/mcp show {name}")
                for one, why in off.items()
            ],
            completions,
        )

    async def tell(words: str, buttons: Sequence[str], asker: Asker | None) -> bool:
        """Tell the owner, in the chat of *asker* if that is the owner in private."""
        channels, first = core.channels, list[Route]()
        if asker is not None and asker[0] in channels.owners and asker[1].private:
            first.append(asker[1])
        tell_owner = TellOwner(
            channels.outboxes, lambda: (*first, *channels.owner_routes()), core.redactor
        )
        return await tell_owner(words, buttons)

    @asynccontextmanager
    async def connect(
        legacy: bool, changed: Callable[[], object], elicit: Callable[[Block], Awaitable[Block]]
    ) -> "AsyncIterator[Connection]":
        client, statuses = "elwood.features.mcp.client", list[int]()
        try:
            sdk = await blocking(partial(import_module, client))
        except ImportError as error:
            raise NotConnected(MISSING) from error
        if settings.url:

            def note_status(status: int) -> None:
                statuses[:] = [status]
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
            context = SandboxContext(
                workspace=core.workspace.path,
                state=core.paths.state,
                settings=core.config.get(SandboxSettings),
                blocking=blocking,
            )
            sandbox = choose_sandbox(settings, others.sandbox, context)
            transport = sdk.serve(partial(run_process, sandbox, settings, pids), errors, blocking)
        try:
            async with sdk.connect(
                transport,
                legacy=legacy,
                within=settings.start_timeout,
                changed=changed,
                elicit=elicit,
            ) as connection:
                yield connection
        except* Exception as group:
            if statuses[-1:] == [401] and settings.auth == "oauth":
                raise NeedsLogin(LOGIN.format(name)) from group
            raise

    return McpServer(
        name,
        settings,
        ServerStore(core.paths.state, name, core.disk),
        connect=connect,
        show=show,
        keep=lambda rendered: blocking(
            partial(_store_files, core.workspace, f"mcp/{name}", rendered)
        ),
        tell=tell,
        rss=lambda: sum(map(memory_of, family(pids) if pids else ())),
        blocking=blocking,
        errors=errors,
        note_trouble=note_trouble,
    )


async def run_process(
    sandbox: Executor, settings: ServerSettings, pids: set[int], streams: Sequence[Pipe]
) -> str:
    """Run the server with *streams*, and return the reason why it ended."""

    def started(pid: int) -> None:
        pids.clear()
        pids.add(pid)

    environment = {**settings.env, **{k: v.reveal() for k, v in settings.secrets.items()}}
    if sandbox.rung == "direct":
        environment = {k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ} | environment
    try:
        outcome = await sandbox.run(
            Command(
                argv=(settings.command, *settings.args),
                timeout=math.inf,
                writable=False,
                environment=environment,
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
    """Return True if the server can pass on data: it has the network or is not confined."""
    is_free = settings.sandbox == "none" or not others.confined
    return bool(settings.url) or settings.network or is_free


def choose_sandbox(
    settings: ServerSettings, chosen: Executor | NoSandbox, context: SandboxContext
) -> Executor:
    """Choose the executor of a server; *chosen* is that of commands.  Raises NotConnected."""
    if settings.sandbox == "none":
        return Launched(context, "direct")
    if isinstance(chosen, NoSandbox):
        raise NotConnected(f"there is no sandbox for it: {chosen.why}")
    if settings.sandbox == "workspace" and chosen.rung == "direct":
        raise NotConnected('commands are not confined here, and sandbox = "workspace" requires it')
    return chosen


def _store_files(
    workspace: Root, folder: str, rendered: Rendered
) -> tuple[str, tuple[ReceivedFile, ...]]:
    """Write the files of a result, and return its text and the pictures among them; blocks."""
    lost, pictures = [], []
    for name, content in rendered.files.items():
        try:
            workspace.write(name, content, untrusted=True)
        except (PathRefused, Unconfined) as error:
            lost.append(f"[{error}]")
        else:
            pictures.append(find_picture(name, content))
    with suppress(PathRefused, Unconfined):  # then there is nothing to remove
        _remove_oldest(workspace, folder)
    return "\n".join([rendered.text, *lost]), tuple(filter(None, pictures))


def _remove_oldest(workspace: Root, folder: str) -> None:
    files = sorted(workspace.stats(folder), key=lambda item: item[1].st_mtime)
    for name, _ in files[:-MAX_KEPT]:
        workspace.remove(f"{folder}/{name}", untrusted=True)
