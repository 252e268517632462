"""The console feature: terminals that join, and a terminal in the process of the app."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand

if TYPE_CHECKING:
    from argparse import ArgumentParser

CLI = "elwood.features.console.cli"


def _watch_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        default="console",
        help="the conversation (default: console)",
    )
    parser.add_argument(
        "--plain", action="store_true", help="plain lines, without colors or cursor movement"
    )


WATCH = CliCommand(
    "watch",
    "Watch a conversation of the running Elwood (read-only).",
    import_lazily(CLI, "watch"),
    _watch_arguments,
)

FEATURE = Feature(
    name="console",
    build=import_lazily("elwood.features.console.parts", "join"),
    cli=(WATCH,),
    settings=("elwood.features.console.settings:ConsoleSettings",),
    owner=lambda config: "console",
    is_channel=True,
)
# Commands for which the app starts Elwood in this process if none runs.
chat = import_lazily(CLI, "chat")
once = import_lazily(CLI, "once")
# Builds the parts of such an app: one terminal in one session.
sit = import_lazily("elwood.features.console.parts", "sit")
