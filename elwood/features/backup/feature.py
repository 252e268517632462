from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, CliFailure, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from elwood.foundation.settings import Config

CLI = "elwood.features.backup.cli"


def mend(config: "Config") -> str:
    """Finish an interrupted restore."""
    from elwood.features.backup.settings import STAGE
    from elwood.foundation.settings import Paths

    state = config.get(Paths).state
    if not (state / STAGE).exists():
        return ""  # importing tarfile and its users takes 20 ms and 1 MB
    from elwood.features.backup.restore import mend as finish
    from elwood.features.backup.rules import BackupFailed

    try:
        return "finished an interrupted restore" if finish(state) else ""
    except BackupFailed as error:
        raise CliFailure(error) from error


def _add_yes(parser: "ArgumentParser") -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_restore_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "which", metavar="N", help="its number in the list, or the path of a backup file"
    )
    _add_yes(parser)


COMMAND = CliCommand(
    "backup",
    "Create, list or restore backups.",
    within=(
        CliCommand(
            "now", "Create a backup. Elwood may be running.", import_lazily(CLI, "now"), json_switch
        ),
        CliCommand(
            "list",
            "List the backups, the newest first.",
            import_lazily(CLI, "show_backups"),
            json_switch,
        ),
        CliCommand(
            "restore",
            "Restore a backup. The present files are moved aside.",
            import_lazily(CLI, "restore"),
            _add_restore_arguments,
        ),
    ),
)
RESET = CliCommand(
    "reset",
    "Start over: move all conversations, notes, tasks and permissions aside.",
    import_lazily(CLI, "reset"),
    _add_yes,
)

FEATURE = Feature(
    name="backup",
    build=import_lazily("elwood.features.backup.parts", "build"),
    settings=("elwood.features.backup.settings:BackupSettings",),
    cli=(COMMAND, RESET),
    checks=(import_lazily("elwood.features.backup.parts", "check"),),
    mend=mend,
    chores=("backup",),
    extract_anchors=import_lazily("elwood.features.backup.restore", "extract_anchors"),
)
