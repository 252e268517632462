"""What can be set about conversations, and what is learned from them."""

from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import Section, at_least, between, none_or, setting

# The assistant's half of the configuration, in the state folder.
AGENT_FILE = "agent.toml"


@attrs.frozen(kw_only=True)
class SessionSettings:
    """Life of a conversation; times in seconds."""

    SECTION: ClassVar = Section("sessions", "Conversations.")

    idle: float = setting(
        600.0, help="seconds after which a quiet conversation leaves memory", check=at_least(1)
    )
    in_memory: int = setting(
        64,
        help="conversations that stay in memory, besides those with work left",
        check=between(1, 10_000),
    )
    archive: float = setting(
        86_400.0, help="seconds after which a quiet conversation is put away", check=at_least(60)
    )
    keep: float = setting(
        63_072_000.0,
        help="seconds for which older parts of logs are kept, and conversations in which nothing "
        "happens (2 years); 0: for ever",
        check=none_or(2_592_000, 3_153_600_000),
    )
    keep_runs: float = setting(
        2_592_000.0,
        help="seconds for which the same is kept of the runs of tasks (30 days); 0: as long as "
        "of conversations",
        check=none_or(604_800, 3_153_600_000),
    )


@attrs.frozen(kw_only=True)
class LearningSettings:
    """How things noticed become memories; times in seconds.

    A quiet stretch costs one short call of the cheap model, at most *calls_per_day*.  By default
    nothing is kept without the owner's tap: `auto` keeps what was seen *threshold* times.
    *reflections* on the daily notes are written each week and month, if anything was done.
    """

    SECTION: ClassVar = Section(
        "learning",
        "What is noticed in conversations. A quiet stretch with something new costs one short call "
        "of the role `observer`, less than a cent with the default; it counts against `limits`.",
    )

    mode: Literal["auto", "suggest", "off"] = setting(
        "suggest",
        help="suggest asks you before anything noticed is remembered; auto remembers what was seen "
        "often enough; off calls no model",
    )
    threshold: int = setting(
        3, help="conversations in which the same must be seen", check=between(1, 100)
    )
    quiet: float = setting(
        120.0, help="seconds of silence before a conversation is looked at", check=at_least(10)
    )
    calls_per_day: int = setting(
        50, help="most calls of the observer for it", check=between(1, 1000)
    )
    reflections: bool = setting(
        True, help="write reflections on what was done, each week and month"
    )
