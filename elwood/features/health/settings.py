from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, between, setting


@attrs.frozen(kw_only=True)
class HealthSettings:
    SECTION: ClassVar = Section("health", "When a disk is too full.")

    disk_warning: float = setting(
        90.0, help="per cent of a disk in use from which you are told", check=between(1, 100)
    )
    disk_full: float = setting(
        95.0, help="per cent from which no new work is taken", check=between(1, 100)
    )
