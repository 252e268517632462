"""How much is remembered, by what it is found, and how things noticed become memories."""

from typing import Literal

import attrs

LearningMode = Literal["auto", "suggest", "off"]


@attrs.frozen(kw_only=True)
class MemorySettings:
    """*embeddings* names a model, ``provider/model``; without one notes are found by words alone.

    *offered* is how many tokens of fitting notes a message may bring along, 0 for none.
    """

    embeddings: str | None = None
    max_notes: int = 100_000
    offered: int = 600


@attrs.frozen(kw_only=True)
class LearningSettings:
    """How things noticed become memories; times in seconds.

    A quiet stretch costs one short call of the cheap model, at most *calls_per_day*.  By default
    nothing is kept without the owner's tap: `auto` keeps what was seen *threshold* times.
    *reflections* on the daily notes are written each week and month, if anything was done.
    """

    mode: LearningMode = "suggest"
    threshold: int = 3
    quiet: float = 120.0
    calls_per_day: int = 50
    reflections: bool = True
