"""Doctor check: the servers of the running Elwood that only the owner can start again."""

from functools import partial

from elwood.features.mcp.settings import McpServers
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.net.control import ServiceUnreachable, ask
from elwood.foundation.settings import Paths


async def check(context: CheckContext) -> list[Finding]:
    config = context.config
    if not config.get(McpServers).by_name:
        return []
    try:
        answer = await context.blocking(partial(ask, config.get(Paths).runtime, "mcp", "troubles"))
    except ServiceUnreachable:
        return []  # another check reports it
    remedy = "run elwood mcp probe NAME, and then type /mcp restart NAME in a chat"
    return [Finding("warning", "mcp", answer.text, remedy)] if answer.text else []
