"""The console, as the app sees it: terminals that join, and a house that somebody sits in."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser

CLI = "elwood.features.console.cli"


def _of_watch(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "session", metavar="SESSION", nargs="?", default="console", help="which (console)"
    )
    parser.add_argument("--plain", action="store_true", help="print lines only")


WATCH = CliCommand(
    "watch", "Look on while others talk with the running Elwood.", imported(CLI, "watch"), _of_watch
)

FEATURE = Feature(
    name="console",
    build=imported("elwood.features.console.parts", "join"),
    cli=(WATCH,),
    owner=lambda config: "console",
    is_channel=True,
)
# What is typed, of which the app starts the house if none runs.
chat = imported(CLI, "chat")
once = imported(CLI, "once")
# Of a house of one's own: what is done there at a socket, in a conversation.
sit = imported("elwood.features.console.parts", "sit")
