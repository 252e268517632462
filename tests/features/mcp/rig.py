"""The actor of one server, in virtual time, with fake connections."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from elwood.agent.conversation.message import ReceivedFile
from elwood.features.mcp.actor import McpServer
from elwood.features.mcp.definitions import ToolDefinition, canonical
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import CallDone, CallFailed, CallTool, ServerMail, Steer, Steered
from elwood.features.mcp.results import Rendered
from elwood.features.mcp.settings import ServerSettings
from elwood.features.mcp.store import ServerStore
from elwood.foundation.runtime import Address, Mailbox, inline
from elwood.foundation.storage.disk import Disk

SCHEMA = canonical({"type": "object"})


def tool(name: str, description: str = "…", **hints: object) -> ToolDefinition:
    return ToolDefinition(name, "", description, SCHEMA, "", canonical(hints or None))


ECHO = tool("echo")


@attrs.frozen
class Result:
    content: list[dict[str, Any]]
    structured: object = None
    failed: bool = False


def text(words: str) -> Result:
    return Result([{"type": "text", "text": words}])


@attrs.define(slots=False)
class FakeConnection:
    """Fake `Connection`: lists *tools*; *called* answers calls."""

    tools: list[ToolDefinition] = attrs.field(factory=lambda: [ECHO])
    called: Callable[[dict[str, Any]], Awaitable[Result]] | None = None
    version: str = "2026-07-28"
    era: Literal["modern", "legacy"] = "modern"
    broken: Exception | None = None
    listed: int = 0
    changed: Callable[[], object] = lambda: None
    _gone: trio.Event = attrs.field(factory=trio.Event)

    async def list_tools(self) -> list[ToolDefinition]:
        await trio.lowlevel.checkpoint()
        self.listed += 1
        return list(self.tools)

    async def list_resources(self) -> list[Any]:
        await trio.lowlevel.checkpoint()
        return []

    list_prompts = list_resources

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any) -> Result:
        await trio.lowlevel.checkpoint()
        return text("done") if self.called is None else await self.called(arguments)

    async def watch(self, changed: object) -> None:
        await trio.lowlevel.checkpoint()

    def crash(self, error: Exception) -> None:
        """Break like a server that exits."""
        self.broken = error
        self._gone.set()

    async def live(self) -> None:
        await self._gone.wait()
        assert self.broken is not None
        raise self.broken


Made = FakeConnection | Exception


class Rig:
    """A running actor.  *connections* are the results of connecting, in order."""

    def __init__(self, address: Address[ServerMail]) -> None:
        self.address = address
        self.connections: list[Made] = []
        self.made: list[FakeConnection] = []
        self.tries: list[float] = []
        self.legacy: list[bool] = []
        self.shown: list[str] = []
        self.told: list[tuple[str, Sequence[str]]] = []
        self.kept: list[Rendered] = []
        self.errors = LastWords()
        self.troubles: list[str] = []

    @asynccontextmanager
    async def connect(
        self, legacy: bool, changed: Callable[[], object], elicit: Callable[[Any], Awaitable[Any]]
    ) -> AsyncIterator[FakeConnection]:
        self.elicit = elicit
        self.tries.append(trio.current_time())
        self.legacy.append(legacy)
        made = self.connections.pop(0) if len(self.connections) > 1 else self.connections[0]
        await trio.lowlevel.checkpoint()
        if isinstance(made, Exception):
            raise made
        self.made.append(made)
        made.changed = changed
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.live)
            yield made
            nursery.cancel_scope.cancel()

    async def call(self, name: str = "echo", *, repeats: bool = False) -> CallDone | CallFailed:
        pin = tool(name).pin
        return await self.address.ask(CallTool(tool=name, pin=pin, arguments={}, repeats=repeats))

    async def steer(self, what: Any, code: str = "") -> Steered:
        return await self.address.ask(Steer(what=what, words=code))

    async def says(self) -> str:
        await wait_all_tasks_blocked()
        return (await self.steer("summary")).words


@asynccontextmanager
async def rig(folder: Path, *connections: Made, **settings: Any) -> AsyncIterator[Rig]:
    """Run an actor that connects to *connections*; the last one is repeated."""
    mailbox: Mailbox[ServerMail] = Mailbox("mcp fake", 32)
    made = Rig(mailbox.address)
    made.connections = list(connections) or [FakeConnection()]

    async def tell(text: str, buttons: Sequence[str], asker: object) -> bool:
        await trio.lowlevel.checkpoint()
        made.told.append((text, buttons))
        return True

    async def keep(found: Rendered) -> tuple[str, tuple[ReceivedFile, ...]]:
        await trio.lowlevel.checkpoint()
        made.kept.append(found)
        return found.text, ()

    def show(
        tools: Sequence[ToolDefinition], off: Mapping[str, str], completions: Mapping[str, str]
    ) -> None:
        made.shown = [one.name for one in tools]

    disk = Disk(blocking=inline, clock=lambda: 0.0)
    given = {"command": "fake", "accept": "first", "idle": 0.0, **settings}
    actor = McpServer(
        "fake",
        ServerSettings(**given),
        ServerStore(folder, "fake", disk),
        connect=made.connect,  # type: ignore[arg-type]  # a connection of the test's
        show=show,
        keep=keep,
        tell=tell,
        rss=lambda: 0,
        blocking=inline,
        errors=made.errors,
        note_trouble=made.troubles.append,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run, mailbox)
        await wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()
