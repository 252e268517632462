"""What can be set about the memory: ``[memory]`` and ``[learning]``, also of agent.toml."""

from collections.abc import Iterator
from typing import ClassVar, Literal

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
class LearningSettings:
    """How things noticed become memories; times in seconds.

    A quiet stretch costs one short call of the cheap model, at most *calls_per_day*.  By default
    nothing is kept without the owner's tap: `auto` keeps what was seen *threshold* times.
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


@attrs.frozen(kw_only=True)
class OwnLearning:
    """How the assistant holds itself back from learning; config.toml says how far it may go."""

    SECTION: ClassVar = Section("learning", "Less learning than config.toml allows, never more.")

    on: bool = setting(True, help="whether anything is noticed in conversations")
    threshold: int = setting(
        1, help="conversations in which the same must be seen, at least", check=between(1, 100)
    )
