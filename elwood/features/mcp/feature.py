"""MCP servers, as the app sees them."""

from elwood.agent.feature import Feature, imported
from elwood.features.mcp.settings import McpServers
from elwood.foundation.command_line import CliCommand

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

FEATURE = Feature(
    name="mcp",
    build=imported("elwood.features.mcp.parts", "build"),
    settings=(McpServers,),
    cli=(COMMAND,),
)
