"""``/mcp``: show and control the servers."""

import hashlib
import shlex
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    SessionExtension,
    SlashCommand,
)
from elwood.features.mcp.adding import describe_server
from elwood.features.mcp.messages import (
    AddServer,
    RemoveServer,
    ServerMail,
    ServersMail,
    Steer,
    Steered,
)
from elwood.features.mcp.settings import AddedServer
from elwood.features.mcp.store import propose_command
from elwood.foundation.runtime import ActorUnavailable, Address, Request, in_thread

# Seconds for a reply of a server's actor, which never waits for the server.
LIMIT = 20.0
USAGE = (
    "/mcp add NAME COMMAND…: show the rights of a new server, with a button that adds it. A server "
    "with secrets needs `elwood mcp add`.\n"
    "/mcp show NAME, /mcp show NAME TOOL: show a server and its tools, or all of one tool.\n"
    "/mcp enable NAME, /mcp disable NAME, /mcp restart NAME: turn a server on or off, or "
    "restart it.\n"
    "/mcp remove NAME: stop and forget a server that was added by a command.\n"
    "/mcp accept NAME: show the tools as the server describes them, with a button that accepts "
    "them.\n"
    "/mcp omit NAME TOOL…: leave tools out; /mcp accept NAME TOOL shows them again.\n"
    "/mcp answer NAME WORDS, /mcp decline NAME: answer a server's question, or refuse to "
    "answer.\n"
    "/prompt SERVER NAME WORDS…, /SERVER:NAME WORDS…: follow a prompt of a server."
)
NONE = (
    "There is no MCP server. To add one, type /mcp add NAME and its command here, or run `elwood "
    "mcp add NAME -- COMMAND…`. Servers need `pip install 'elwood[mcp]'`."
)
IN_CHAT = (
    'Commands are not confined here (sandbox.kind = "direct") and could ask for this too. Decide '
    "in a chat: type /mcp {} {}."
)
# Proposals that wait for the owner's yes; the oldest is dropped.
MAX_PROPOSALS = 20


class Steering:
    """The owner's commands to *servers*; *manager* adds and removes them."""

    def __init__(
        self,
        servers: Mapping[str, Address[ServerMail]],
        manager: Address[ServersMail],
        workspace: Path,
        format_troubles: Callable[[], Awaitable[str]],
        is_confined: Callable[[], bool],
    ) -> None:
        self._format_troubles = format_troubles
        self._is_confined = is_confined
        self._servers = servers
        self._manager = manager
        self._workspace = workspace
        self._proposed: dict[str, AddServer] = {}

    async def run(self, call: CommandCall) -> CommandAnswer:
        """Answer ``/mcp``."""
        what, _, rest = call.given.partition(" ")
        if what == "add":
            reply = await self._propose(rest)
        elif what == "confirm":
            reply = await self._confirm(rest.strip())
        else:
            name, _, words = rest.strip().partition(" ")
            reply = await self._steer(what, name, words)
        return CommandAnswer(reply.words, buttons=reply.buttons)

    async def control(self, words: Sequence[str]) -> CommandResult:
        """Answer a request of ``elwood mcp``: what to do, and its words."""
        what, name, *rest = (*words, "", "")
        is_decision = what in ("add", "enable", "answer") or (what == "accept" and rest[0])
        if what == "troubles":
            reply = Steered(await self._format_troubles())
        elif is_decision and not self._is_confined():
            # Commands reach this socket too (decision 56).
            reply = Steered(IN_CHAT.format(what, name), ok=False)
        elif what == "add":
            server = msgspec.json.decode(rest[0], type=AddedServer)
            reply = await ask_actor(self._manager, AddServer(name=name, server=server))
        else:
            reply = await self._steer(what, name, rest[0])
        typed = "".join(f"\nIn a chat: {button}" for button in reply.buttons)
        return CommandResult(f"{reply.words}{typed}", ok=reply.ok)

    async def _steer(self, what: str, name: str, words: str) -> Steered:
        match what:
            case "" if not self._servers:
                return Steered(NONE)
            case "":
                servers = self._servers.values()
                lines = [(await ask_actor(one, Steer(what="summary"))).words for one in servers]
                return Steered("\n".join([*lines, "", "/help mcp lists the commands."]))
            case "remove":
                return await ask_actor(self._manager, RemoveServer(name=name))
            case (
                "show" | "enable" | "disable" | "restart" | "accept" | "omit" | "answer" | "decline"
            ):
                if name in self._servers:
                    return await ask_actor(self._servers[name], Steer(what=what, words=words))
                names = ", ".join(self._servers) or "none"
                return Steered(f"There is no MCP server {name}. There is: {names}.", ok=False)
        return Steered(USAGE, ok=False)

    async def _propose(self, text: str) -> Steered:
        """Show the proposed settings for a command, with a button that adds exactly these."""
        try:
            name, *command = shlex.split(text) or [""]
            if not command:
                return Steered(USAGE, ok=False)
            server = await in_thread(partial(propose_command, command, {}, self._workspace))
        except ValueError as error:
            return Steered(f"I cannot add that: {error}.", ok=False)
        adding = AddServer(name=name, server=server)
        code = hashlib.sha256(msgspec.json.encode((name, server))).hexdigest()[:8]
        self._proposed[code] = adding
        while len(self._proposed) > MAX_PROPOSALS:
            del self._proposed[next(iter(self._proposed))]
        words = f"May I add this MCP server and start it?\n\n{describe_server(name, server)}"
        return Steered(words, (f"/mcp confirm {code}",))

    async def _confirm(self, code: str) -> Steered:
        adding = self._proposed.pop(code, None)
        if adding is None:
            return Steered("This proposal is over. /mcp lists the servers.", ok=False)
        return await ask_actor(self._manager, AddServer(name=adding.name, server=adding.server))


def mcp_command(steering: Steering) -> SlashCommand:
    return SlashCommand(
        name="mcp",
        help="connected tool servers (MCP)",
        usage=USAGE,
        run=steering.run,
        group="What I may do",
    )


async def ask_actor(actor: Address[Any], request: Request[Steered]) -> Steered:
    with trio.move_on_after(LIMIT):
        try:
            return await actor.ask(request)
        except ActorUnavailable as error:
            return Steered(f"It is not answering right now: {error}.", ok=False)
    return Steered(f"{actor.name} is not answering right now.", ok=False)


class PromptWords(SessionExtension):
    """``/prompt SERVER NAME WORDS``, ``/SERVER:NAME WORDS`` for one of *servers*.

    The model reads the prompt with a tool, as untrusted text.
    """

    def __init__(self, servers: Container[str]) -> None:
        self._servers = servers

    async def expand(self, command: str) -> str:
        """Translate the command into a request to the model."""
        await trio.lowlevel.checkpoint()
        first, *given = command.split()
        server, colon, name = first.removeprefix("/").partition(":")
        if colon and server in self._servers:
            given = [server, *filter(None, [name]), *given]
        elif first != "/prompt":
            return ""
        match given:
            case []:
                return "List the prompts of each MCP server with read_prompt."
            case [server]:
                return f"List the prompts of the MCP server {server} with read_prompt."
            case [server, name, *words]:
                what = f" Its arguments are: {' '.join(words)}" if words else ""
                return (
                    f"Read the prompt {name} of the MCP server {server} with read_prompt, and "
                    f"follow it.{what}"
                )
        return ""
