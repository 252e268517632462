from contextlib import suppress
from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, LiveTools, import_lazily
from elwood.foundation.command_line import CliCommand

if TYPE_CHECKING:
    from elwood.agent.parts import Gathered, Parts
    from elwood.agent.session.core import Core
    from elwood.foundation.settings import Config

COMMAND = CliCommand(
    "auth",
    "Log in to a service that Elwood uses.",
    within=(
        CliCommand(
            "mcp",
            'Log in to an MCP server (auth = "oauth") in a browser.',
            import_lazily("elwood.features.mcp.cli", "log_in"),
            lambda parser: parser.add_argument(
                "name", metavar="NAME", help="the name of the server"
            ),
            needs="secrets",
        ),
    ),
)


async def build(core: "Core", others: "Gathered") -> "Parts":
    """Create the servers' actors; import them only if a server is configured."""
    from elwood.agent.parts import Parts
    from elwood.features.mcp.commands import mcp_command
    from elwood.features.mcp.settings import McpServers

    if not core.config.get(McpServers).by_name:
        return Parts(commands=[mcp_command({})])
    from elwood.features.mcp import parts

    return await parts.build(core, others)


def get_live_tools(config: "Config") -> LiveTools:
    """Return the accepted tools, and the name prefix of each server's tools."""
    from elwood.features.mcp.settings import McpServers
    from elwood.foundation.settings import Paths

    servers = config.get(McpServers).by_name
    prefixes = {f"{name}__": f"mcp.{name}." for name in servers}
    if not servers or Paths not in config.values:
        return LiveTools(prefixes=prefixes)
    from elwood.features.mcp.definitions import model_name
    from elwood.features.mcp.store import book_path, read_book

    ids = dict[str, str]()
    for name in servers:
        with suppress(OSError):  # the command may run as a user without access
            book = read_book(book_path(config.get(Paths).state, name))
            ids |= {model_name(name, tool): f"mcp.{name}.{tool}" for tool in book.accepted}
    return LiveTools(ids, prefixes)


FEATURE = Feature(
    name="mcp",
    build=build,
    settings=("elwood.features.mcp.settings:McpServers",),
    cli=(COMMAND,),
    live=get_live_tools,
    tools={"read_resource": "mcp.resource.read", "read_prompt": "mcp.prompt.read"},
)
