"""Backups, as the app sees them."""

from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, imported
from elwood.features.backup.cli import COMMAND
from elwood.features.backup.settings import STAGE, BackupSettings
from elwood.foundation.command_line import CliFailure

if TYPE_CHECKING:
    from elwood.foundation.settings import Config


def mend(config: "Config") -> str:
    """Bring a restore to its end that was cut off."""
    from elwood.foundation.settings import Paths

    state = config.of(Paths).state
    if not (state / STAGE).exists():
        return ""  # importing what can do it, and unpack archives, takes 20 ms and 1 MB
    from elwood.features.backup.restore import mend as finish
    from elwood.features.backup.rules import BackupFailed

    try:
        return "a restore that was cut off was brought to its end" if finish(state) else ""
    except BackupFailed as error:
        raise CliFailure(error) from error


FEATURE = Feature(
    name="backup",
    build=imported("elwood.features.backup.parts", "build"),
    settings=(BackupSettings,),
    cli=(COMMAND,),
    checks=(imported("elwood.features.backup.parts", "check"),),
    mend=mend,
)
