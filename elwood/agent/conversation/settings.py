"""What can be set about the owner, and what bounds one turn, whatever it is about."""

from typing import ClassVar
from zoneinfo import ZoneInfo

import attrs

from elwood.foundation.settings import Section, at_least, between, is_timezone, setting


@attrs.frozen(kw_only=True)
class Owner:
    """The person Elwood works for, who may be bothered in *hours*."""

    SECTION: ClassVar = Section("owner", "You.")

    name: str = setting("", help="what Elwood calls you", example='"Ada"')
    timezone: str = setting(
        "UTC", help="the time zone you live in, by its IANA name", check=is_timezone
    )
    hours: str = setting(
        "08:00-22:00", help="when you may be bothered: `08:00-22:00`, `mon-fri 8-18`, `always`"
    )

    @property
    def zone(self) -> ZoneInfo:
        """Where the owner lives."""
        return ZoneInfo(self.timezone)


@attrs.frozen(kw_only=True)
class TurnSettings:
    """Limits of a turn: model responses with calls, tools, tokens of context, and seconds.

    *model_deadline* covers everything that one response takes: waits, retries, other models.  It
    is a little less than the *deadline*, so that a provider's trouble is told by its name.
    """

    SECTION: ClassVar = Section("turn", "Bounds of one answer.")

    max_rounds: int = setting(20, help="most model calls for one answer", check=between(1, 1000))
    deadline: float = setting(900.0, help="seconds for one answer", check=between(1, 86_400))
    model_deadline: float = setting(
        840.0, help="seconds for one model call, retries included", check=between(1, 86_400)
    )
    tool_deadline: float = setting(
        660.0, help="seconds for one tool call", check=between(1, 86_400)
    )
    max_tools: int = setting(128, help="most tools that a model is shown", check=between(1, 1000))
    context_tokens: int = setting(
        150_000, help="most tokens of history sent to a model", check=at_least(1000)
    )
