"""What can be set about the memory: ``[memory]`` of config.toml, ``[learning]`` of agent.toml."""

from collections.abc import Iterator
from typing import ClassVar

import attrs

from elwood.agent.models.settings import is_model
from elwood.foundation.settings import Complaint, Loaded, Section, at_least, between, setting


def _makes_vectors(loaded: Loaded) -> Iterator[Complaint]:
    if (loaded.config.of(MemorySettings).embeddings or "").startswith("offline/"):
        what, remedy = "the offline model makes no vectors", "name another, or leave it out"
        yield ("memory", "embeddings"), what, remedy


@attrs.frozen(kw_only=True)
class MemorySettings:
    """*embeddings* names a model, ``provider/model``; without one notes are found by words alone.

    *offered* is how many tokens of fitting notes a message may bring along, 0 for none.
    """

    SECTION: ClassVar = Section(
        "memory",
        "What is remembered across conversations. See docs/operating.md.",
        verify=_makes_vectors,
        advice=(
            "Notes are found by their words. To find them by their meaning, too, set "
            'memory.embeddings:\n  "ollama/nomic-embed-text" costs nothing: it runs on this '
            "machine (274 MB; ollama pull nomic-embed-text);\n"
            '  "openai/text-embedding-3-small" costs about $0.02 per million tokens, a cent for '
            "10,000 short notes, which are sent there."
        ),
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
class OwnLearning:
    """How the assistant holds itself back from learning; config.toml says how far it may go."""

    SECTION: ClassVar = Section("learning", "Less learning than config.toml allows, never more.")

    on: bool = setting(True, help="whether anything is noticed in conversations")
    threshold: int = setting(
        1, help="conversations in which the same must be seen, at least", check=between(1, 100)
    )
