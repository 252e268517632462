"""``/mcp``: which servers there are, how they do, and what the owner wants of them."""

from collections.abc import Mapping

import trio

from elwood.agent.session.extension import CommandAnswer, CommandCall
from elwood.features.mcp.messages import ServerMail, Steer, Steered
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for an answer of a server's actor, which never waits for the server.
LIMIT = 20.0
USAGE = (
    "/mcp shows the servers; /mcp show, enable, disable, restart or accept NAME: one of them. "
    "Accepting shows first what the server says its tools are."
)
Servers = Mapping[str, Address[ServerMail]]


async def command(servers: Servers, call: CommandCall) -> CommandAnswer:
    """Carry ``/mcp`` out."""
    match call.given.split():
        case []:
            lines = [(await _ask(one, Steer(what="summary"))).words for one in servers.values()]
            return CommandAnswer("\n".join([*lines, "", USAGE]))
        case ["show" | "enable" | "disable" | "restart" | "accept" as what, name, *more] if len(
            more
        ) <= (what == "accept"):
            if name not in servers:
                return CommandAnswer(
                    f"There is no MCP server {name}; there are {', '.join(servers)}."
                )
            said = await _ask(servers[name], Steer(what=what, code="".join(more)))
            return CommandAnswer(said.words, buttons=said.buttons)
    return CommandAnswer(USAGE)


async def _ask(server: Address[ServerMail], steer: Steer) -> Steered:
    with trio.move_on_after(LIMIT):
        try:
            return await server.ask(steer)
        except ActorUnavailable as error:
            return Steered(f"It does not answer now: {error}.")
    return Steered(f"{server.name} does not answer now.")
