"""What can be set about HEARTBEAT.md."""

from collections.abc import Iterator
from typing import ClassVar

import attrs

from elwood.agent.conversation.settings import Owner
from elwood.agent.models.settings import is_role
from elwood.features.tasks.notation import advice, read_hours
from elwood.foundation.settings import (
    BadSetting,
    Complaint,
    Loaded,
    Section,
    at_least,
    between,
    setting,
)


def is_hours(text: str) -> None:
    """Check for hours of the day, maybe of some days only."""
    hours = read_hours(text)
    if isinstance(hours, str):
        raise BadSetting(*advice(hours))


def _owner_has_hours(loaded: Loaded) -> Iterator[Complaint]:
    try:
        is_hours(loaded.config.of(Owner).hours)
    except BadSetting as error:
        yield ("owner", "hours"), error.what, error.remedy


@attrs.frozen(kw_only=True)
class HeartbeatSettings:
    """How HEARTBEAT.md is gone through: each *every* seconds, within *hours*, by *model*.

    *hours* "" are the owner's.  *tokens* and *usd* bound the checklist, and each entry, in a day.
    """

    SECTION: ClassVar = Section(
        "heartbeat",
        "HEARTBEAT.md of the workspace: a checklist that is gone through at intervals, and tasks. "
        "Nothing in it, or nothing that changed, costs nothing. See docs/operating.md.",
        verify=_owner_has_hours,
    )

    on: bool = setting(True, help="whether it is looked at")
    every: float = setting(
        1800.0,
        help="seconds between two looks at the checklist",
        check=between(60, 366 * 86_400),
    )
    hours: str = setting(
        "", help="hours in which that is done", check=is_hours, default="owner.hours"
    )
    model: str = setting(
        "cheap",
        help="`cheap` (models.summarizer), `default`, or provider/name",
        check=is_role,
    )
    tokens: int = setting(
        500_000, help="most tokens a day, of the checklist and of each entry", check=at_least(1)
    )
    usd: float = setting(
        0.50, help="most US dollars a day, of the checklist and of each entry", check=at_least(0)
    )

    def roles(self) -> tuple[str, ...]:
        """Name what the checklist is gone through with."""
        return (self.model,)
