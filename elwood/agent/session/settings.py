"""What can be set about the life of conversations, and when something counts as stuck."""

from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, at_least, setting


@attrs.frozen(kw_only=True)
class SessionSettings:
    """Life of a conversation; times in seconds."""

    SECTION: ClassVar = Section("sessions", "Conversations.")

    idle: float = setting(
        600.0,
        help="seconds after which a quiet conversation leaves memory",
        check=at_least(1),
    )
    archive: float = setting(
        86_400.0,
        help="seconds after which a quiet conversation is put away",
        check=at_least(60),
    )


@attrs.frozen(kw_only=True)
class WatchdogSettings:
    """After how many seconds something is stuck and told to the owner."""

    SECTION: ClassVar = Section(
        "watchdog", "When something counts as stuck: it is then told to the owner."
    )

    turn: float = setting(
        1200.0, help="seconds after which an answer under way is stuck", check=at_least(1)
    )
    poll: float = setting(120.0, help="seconds after which a poll is stuck", check=at_least(1))
    delivery: float = setting(
        60.0, help="seconds after which an undelivered reply is stuck", check=at_least(1)
    )
