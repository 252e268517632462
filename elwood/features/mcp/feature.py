from contextlib import suppress
from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, LiveTools, import_lazily
from elwood.foundation.command_line import CliCommand, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

    from elwood.agent.parts import Gathered, Parts
    from elwood.agent.session.core import Core
    from elwood.foundation.command_line import Needs
    from elwood.foundation.settings import Config


def _cli(
    name: str,
    help: str,
    run: str,
    arguments: "Callable[[ArgumentParser], object]",
    needs: "Needs" = "settings",
) -> CliCommand:
    return CliCommand(
        name, help, import_lazily("elwood.features.mcp.cli", run), arguments, (), needs
    )


def _add_name(parser: "ArgumentParser") -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the server")


def _add_arguments(parser: "ArgumentParser") -> None:
    what = "its name in Elwood; options go before it"
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=what)
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="after --: how to start it")
    parser.add_argument("--url", default="", help="the address of a remote server")
    what = "the block that its README shows: a file, or - for standard input"
    parser.add_argument("--json", default="", metavar="FILE", help=what)
    what = "a variable of its environment; a value that looks like a secret is stored as a secret"
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help=what)
    what = "a header that each request to --url carries; it is kept as a secret"
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help=what)
    what = "a folder that it can read; with :rw at the end it can also write"
    parser.add_argument("--mount", action="append", default=[], metavar="FOLDER", help=what)
    parser.add_argument("--network", action="store_true", help="let it use the network")
    what = "it needs a login: run `elwood auth mcp NAME` afterwards"
    parser.add_argument("--oauth", action="store_true", help=what)
    what = "http (the default), or sse for an older server"
    parser.add_argument("--transport", choices=("http", "sse"), default="http", help=what)


def _steer(what: str, help: str, words: str = "", about: str = "") -> CliCommand:
    def arguments(parser: "ArgumentParser") -> None:
        _add_name(parser)
        parser.set_defaults(what=what, words=())
        if words:
            parser.add_argument("words", metavar=words, nargs="*", help=about)

    return _cli(what, help, "steer", arguments)


MCP = CliCommand(
    "mcp",
    "Add, list, test and remove tool servers (MCP).",
    within=(
        _cli("add", "Add a server and start it.", "add", _add_arguments),
        _cli("list", "List the servers.", "list_servers", json_switch),
        _cli(
            "probe",
            "Start a server, and show its tools or its errors.",
            "probe",
            _add_name,
            "secrets",
        ),
        _steer(
            "show",
            "Show a server of the running Elwood and its tools, or all of one tool.",
            "TOOL",
            "show this tool with its arguments",
        ),
        _steer(
            "accept",
            "Show the new tools of a server, or accept them by the code below them.",
            "CODE",
            "accept exactly the tools with this code",
        ),
        _steer("omit", "Leave tools of a server out.", "TOOL", "the tools"),
        _steer("enable", "Turn a server on."),
        _steer("disable", "Turn a server off."),
        _cli(
            "remove", "Stop and forget a server that was added by a command.", "remove", _add_name
        ),
    ),
)
COMMAND = CliCommand(
    "auth",
    "Log in to a service that Elwood uses.",
    within=(
        _cli(
            "mcp",
            'Log in to an MCP server (auth = "oauth") in a browser.',
            "log_in",
            _add_name,
            "secrets",
        ),
    ),
)


async def build(core: "Core", others: "Gathered") -> "Parts":
    """Create the servers' actors."""
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
    cli=(COMMAND, MCP),
    checks=(import_lazily("elwood.features.mcp.check", "check"),),
    live=get_live_tools,
    tools={
        "read_resource": "mcp.resource.read",
        "read_prompt": "mcp.prompt.read",
        "search_tools": "mcp.tool.search",
    },
)
