"""How much is remembered, and by what it is found."""

import attrs


@attrs.frozen(kw_only=True)
class MemorySettings:
    """*embeddings* names a model, ``provider/model``; without one notes are found by words alone.

    *offered* is how many tokens of fitting notes a message may bring along, 0 for none.
    """

    embeddings: str | None = None
    max_notes: int = 100_000
    offered: int = 600
