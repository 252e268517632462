from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "text",
        metavar="COMMAND",
        help='the whole command in quotes, for example "git push", or the name of a tool',
    )
    json_switch(parser)


COMMAND = CliCommand(
    "policy",
    "Explain the rules for commands.",
    within=(
        CliCommand(
            "explain",
            "Show whether a command or a tool would run, need your approval or be refused.",
            import_lazily("elwood.features.shell.cli", "explain"),
            _arguments,
        ),
    ),
)

FEATURE = Feature(
    name="shell",
    build=import_lazily("elwood.features.shell.parts", "build"),
    settings=("elwood.foundation.sandbox.settings:SandboxSettings",),
    cli=(COMMAND,),
    checks=(import_lazily("elwood.features.shell.parts", "check"),),
    tools={"run_command": "shell.command.run"},
    lent=import_lazily("elwood.features.shell.parts", "list_mounts"),
)
