from pathlib import Path
from typing import ClassVar

import attrs

from elwood.foundation.settings import Config, Paths, Section, at_least, none_or, setting

# Folder of a restore in progress, in the state folder.
STAGE = "restoring"


@attrs.frozen(kw_only=True)
class BackupSettings:
    """Settings of backups."""

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
