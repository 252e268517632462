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
        "Backups of the state folder and the workspace. Elwood keeps the newest "
        "`keep` backups and the last one of each of the last four weeks. See "
        "docs/guides/backup.md.",
    )

    folder: Path | None = setting(
        None,
        help="folder of the backups, preferably on a second disk",
        default="`backups` in paths.state",
        example='"/mnt/backups/elwood"',
    )
    keep: int = setting(
        7,
        help="number of newest backups to keep, in addition to the weekly ones",
        check=at_least(1),
    )
    every: float = setting(
        86_400.0,
        help="seconds between two backups; 0: no automatic backups",
        check=none_or(60, 366 * 86_400),
    )
    size: int = setting(4096, help="maximum megabytes of one backup, unpacked", check=at_least(1))


def backup_folder(config: Config) -> Path:
    return config.get(BackupSettings).folder or config.get(Paths).state / "backups"
