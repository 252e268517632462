"""``/mcp``: show and control the servers."""

from collections.abc import Mapping
from functools import partial

import trio

from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    SessionExtension,
    SlashCommand,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.features.mcp.messages import ServerMail, Steer, Steered
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for a reply of a server's actor, which never waits for the server.
LIMIT = 20.0
USAGE = (
    "/mcp show NAME: show one server and its tools.\n"
    "/mcp enable NAME, /mcp disable NAME, /mcp restart NAME: turn a server on or off, or "
    "restart it.\n"
    "/mcp accept NAME: show the tools as the server describes them, with a button that accepts "
    "them.\n"
    "/mcp answer NAME WORDS, /mcp decline NAME: answer a server's question, or refuse to "
    "answer.\n"
    "/prompt SERVER NAME: follow a prompt of a server."
)
NONE = (
    "No MCP server is set up. To add one, write `[mcp_servers.NAME]` into config.toml, with its "
    "`command` and `args` or its `url`. Then run `pip install 'elwood[mcp]'` and restart me."
)
Servers = Mapping[str, Address[ServerMail]]


def mcp_command(servers: Servers) -> SlashCommand:
    return SlashCommand(
        name="mcp",
        help="connected tool servers (MCP)",
        usage=USAGE,
        run=partial(run_mcp, servers),
        group="What I may do",
    )


async def run_mcp(servers: Servers, call: CommandCall) -> CommandAnswer:
    if not servers:
        return CommandAnswer(NONE)
    what, _, rest = call.given.partition(" ")
    name, _, words = rest.strip().partition(" ")
    match what:
        case "":
            lines = [(await _send(one, Steer(what="summary"))).words for one in servers.values()]
            return CommandAnswer("\n".join([*lines, "", "/help mcp lists the commands."]))
        case "show" | "enable" | "disable" | "restart" | "accept" | "answer" | "decline":
            if name not in servers:
                names = ", ".join(servers)
                return CommandAnswer(f"There is no MCP server {name}. There is: {names}.")
            reply = await _send(servers[name], Steer(what=what, words=words))
            return CommandAnswer(reply.words, buttons=reply.buttons)
    return CommandAnswer(USAGE)


async def _send(server: Address[ServerMail], steer: Steer) -> Steered:
    with trio.move_on_after(LIMIT):
        try:
            return await server.ask(steer)
        except ActorUnavailable as error:
            return Steered(f"It is not answering right now: {error}.")
    return Steered(f"{server.name} is not answering right now.")


class PromptWords(SessionExtension):
    """``/prompt SERVER NAME WORDS``: the model reads the prompt with a tool, as untrusted text."""

    def __init__(self, log: SessionLog) -> None:
        pass

    async def expand(self, command: str) -> str:
        """Translate ``/prompt`` into a request to the model."""
        await trio.lowlevel.checkpoint()
        first, *given = command.split()
        if first != "/prompt":
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
