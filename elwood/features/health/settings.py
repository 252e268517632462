from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, between, setting


@attrs.frozen(kw_only=True)
class HealthSettings:
    SECTION: ClassVar = Section("health", "Limits for full disks.")

    disk_warning: float = setting(
        90.0, help="percentage of a disk in use at which Elwood warns you", check=between(1, 100)
    )
    disk_full: float = setting(
        95.0, help="percentage at which Elwood accepts no new work", check=between(1, 100)
    )
