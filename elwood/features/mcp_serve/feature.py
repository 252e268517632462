"""Elwood as an MCP server, for editors and other agents, as the app sees it."""

from argparse import Namespace
from typing import TYPE_CHECKING, ClassVar

import attrs

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand, CliFailure
from elwood.foundation.settings import Section, between, setting

if TYPE_CHECKING:
    from elwood.foundation.settings import Config


@attrs.frozen(kw_only=True)
class McpServeSettings:
    """What other programs may do besides looking things up."""

    SECTION: ClassVar = Section(
        "mcp_serve",
        "What `elwood mcp-serve` offers to editors and other agents. See docs/operating.md.",
    )

    ask: bool = setting(
        False, help="let them ask you something, too; what they say counts as a stranger's words"
    )
    patience: float = setting(
        600.0, help="seconds that they wait for an answer", check=between(1, 3600)
    )


def _serve(config: "Config", given: Namespace) -> int:
    try:
        from elwood.features.mcp_serve.cli import serve
    except ModuleNotFoundError as error:
        why = f"{error.name} is missing; install it: pip install 'elwood[mcp]'"
        raise CliFailure(why) from error
    return serve(config)


COMMAND = CliCommand(
    "mcp-serve",
    "Let an editor or another agent use Elwood: an MCP server on stdin, stdout.",
    _serve,
)

FEATURE = Feature(
    name="mcp_serve",
    build=imported("elwood.features.mcp_serve.parts", "build"),
    settings=(McpServeSettings,),
    cli=(COMMAND,),
)
