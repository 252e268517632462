"""Settings that the assistant changes itself: ``[personality]`` of agent.toml."""

from typing import ClassVar

import attrs

from elwood.foundation.settings import BadSetting, Section, setting

# Characters, sent with each request.
MAX_PERSONALITY = 4_000


def _check_length(text: str) -> None:
    if len(text) > MAX_PERSONALITY:
        raise BadSetting(f"longer than {MAX_PERSONALITY:,} characters", "shorten it")


@attrs.frozen(kw_only=True)
class Personality:
    """How the assistant speaks and behaves, in addition to the documents of the workspace."""

    SECTION: ClassVar = Section(
        "personality", "The assistant's personality; SOUL.md takes precedence."
    )

    text: str = setting("", help="a few sentences, part of every prompt", check=_check_length)
