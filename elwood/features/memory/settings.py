"""How much is remembered, and by what it is found."""

from typing import ClassVar

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
