"""MCP servers, as the app sees them."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand

if TYPE_CHECKING:
    from elwood.agent.parts import Gathered, Parts
    from elwood.agent.session.core import Core

COMMAND = CliCommand(
    "auth",
    "Log in to a service that Elwood uses.",
    within=(
        CliCommand(
            "mcp",
            "log in to an MCP server with auth = oauth, by a browser",
            imported("elwood.features.mcp.cli", "log_in"),
            lambda parser: parser.add_argument("name", metavar="NAME", help="of the server"),
            needs="secrets",
        ),
    ),
)


async def build(core: "Core", others: "Gathered") -> "Parts":
    """Make the servers' actors; what that takes is imported only if there is a server."""
    from elwood.agent.parts import Parts
    from elwood.features.mcp.commands import mcp
    from elwood.features.mcp.settings import McpServers

    if not core.config.of(McpServers).by_name:
        return Parts(commands=[mcp({})])
    from elwood.features.mcp import parts

    return await parts.build(core, others)


FEATURE = Feature(
    name="mcp", build=build, settings=("elwood.features.mcp.settings:McpServers",), cli=(COMMAND,)
)
