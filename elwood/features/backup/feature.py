"""Backups, as the app sees them."""

from argparse import ArgumentParser
from pathlib import Path
from typing import ClassVar

import attrs

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand, CliFailure, json_switch
from elwood.foundation.settings import Config, Paths, Section, at_least, none_or, setting

# Below the state folder: a restore that has begun.
STAGE = "restoring"
CLI = "elwood.features.backup.cli"


@attrs.frozen(kw_only=True)
class BackupSettings:
    """Where backups go and how many stay; *every* in seconds (0: never), *size* in megabytes."""

    SECTION: ClassVar = Section(
        "backup",
        "Copies of the state folder and the workspace. Beside the newest `keep`, the last of each "
        "of the last four weeks stays. See docs/operating.md.",
    )

    folder: Path | None = setting(
        None,
        help="folder of the backups; a second disk is better",
        default="`backups` in paths.state",
        example='"/mnt/backups/elwood"',
    )
    keep: int = setting(
        7, help="newest backups that stay, beside those of the last weeks", check=at_least(1)
    )
    every: float = setting(
        86_400.0, help="seconds between two backups; 0 for none", check=none_or(60, 366 * 86_400)
    )
    size: int = setting(4096, help="megabytes of one backup at most, unpacked", check=at_least(1))


def backup_folder(config: Config) -> Path:
    return config.of(BackupSettings).folder or config.of(Paths).state / "backups"


def mend(config: Config) -> str:
    """Bring a restore to its end that was cut off."""
    state = config.of(Paths).state
    if not (state / STAGE).exists():
        return ""  # importing what can do it, and unpack archives, takes 20 ms and 1 MB
    from elwood.features.backup.restore import mend as finish
    from elwood.features.backup.rules import BackupFailed

    try:
        return "a restore that was cut off was brought to its end" if finish(state) else ""
    except BackupFailed as error:
        raise CliFailure(error) from error


def _yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_restore(parser: ArgumentParser) -> None:
    parser.add_argument("which", metavar="N", help="its number in the list, or a file")
    _yes(parser)


COMMAND = CliCommand(
    "backup",
    "Take a backup, list them, or put one in place.",
    within=(
        CliCommand("now", "take one, beside a running Elwood or without", imported(CLI, "now")),
        CliCommand(
            "list", "number them, the newest first", imported(CLI, "show_backups"), json_switch
        ),
        CliCommand(
            "restore",
            "put one in place; what is there is moved aside",
            imported(CLI, "restore"),
            _of_restore,
        ),
    ),
)
RESET = CliCommand(
    "reset",
    "Begin anew: move conversations, notes, tasks and permissions aside.",
    imported(CLI, "reset"),
    _yes,
)

FEATURE = Feature(
    name="backup",
    build=imported("elwood.features.backup.parts", "build"),
    settings=(BackupSettings,),
    cli=(COMMAND, RESET),
    checks=(imported("elwood.features.backup.parts", "check"),),
    mend=mend,
)
