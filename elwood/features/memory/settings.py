"""How much is remembered, by what it is found, and how things noticed become memories."""

from typing import ClassVar, Literal

import attrs

from elwood.agent.models.settings import is_model
from elwood.foundation.settings import Section, at_least, between, setting


@attrs.frozen(kw_only=True)
class MemorySettings:
    """*embeddings* names a model, ``provider/model``; without one notes are found by words alone.

    *offered* is how many tokens of fitting notes a message may bring along, 0 for none.
    """

    SECTION: ClassVar = Section(
        "memory", "What is remembered across conversations. See docs/operating.md."
    )

    embeddings: str | None = setting(
        None,
        help="a model that makes vectors of notes, as provider/name; they are sent to it",
        check=is_model,
        example='"ollama/nomic-embed-text"',
    )
    max_notes: int = setting(100_000, help="most notes that are kept", check=between(1, 1_000_000))
    offered: int = setting(
        600, help="most tokens of notes that go along with a message", check=at_least(0)
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
        "of models.summarizer, less than a cent with the default; it counts against `limits`.",
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
        120.0,
        help="seconds of silence before a conversation is looked at",
        check=at_least(10),
    )
    calls_per_day: int = setting(
        50, help="most calls of models.summarizer for it", check=between(1, 1000)
    )
    reflections: bool = setting(
        True, help="write reflections on what was done, each week and month"
    )
