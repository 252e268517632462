"""Settings of conversations."""

from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, at_least, between, none_or, setting

# The assistant's part of the configuration, in the state folder.
AGENT_FILE = "agent.toml"


@attrs.frozen(kw_only=True)
class SessionSettings:
    """Life of a conversation; times in seconds."""

    SECTION: ClassVar = Section("sessions", "Conversations.")

    idle: float = setting(
        600.0, help="seconds after which an idle conversation leaves memory", check=at_least(1)
    )
    in_memory: int = setting(
        128, help="maximum number of idle conversations kept in memory", check=between(1, 10_000)
    )
    archive: float = setting(
        86_400.0, help="seconds after which an idle conversation is archived", check=at_least(60)
    )
    keep: float = setting(
        63_072_000.0,
        help="seconds for which older parts of logs and idle conversations are stored (2 years); "
        "0: forever",
        check=none_or(2_592_000, 3_153_600_000),
    )
    keep_runs: float = setting(
        2_592_000.0,
        help="the same for the runs of tasks (30 days); 0: as long as conversations",
        check=none_or(604_800, 3_153_600_000),
    )
