"""The feature "Elwood as an MCP server", for editors and other agents."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, CliFailure

if TYPE_CHECKING:
    from argparse import Namespace

    from elwood.foundation.settings import Config


def _serve(config: "Config", given: "Namespace") -> int:
    try:
        from elwood.features.mcp_serve.cli import serve
    except ModuleNotFoundError as error:
        why = f"{error.name} is missing; install it: pip install 'elwood[mcp]'"
        raise CliFailure(why) from error
    return serve(config)


COMMAND = CliCommand(
    "mcp-serve",
    "Serve MCP on stdin and stdout, so that an editor or another agent can use Elwood.",
    _serve,
)

FEATURE = Feature(
    name="mcp_serve",
    build=import_lazily("elwood.features.mcp_serve.parts", "build"),
    settings=("elwood.features.mcp_serve.settings:McpServeSettings",),
    cli=(COMMAND,),
    sessions="mcp-",
)
