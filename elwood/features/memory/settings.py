"""Settings of the memory: ``[memory]`` and ``[learning]``, also of agent.toml."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

from elwood.agent.models.settings import is_model
from elwood.foundation.settings import Complaint, Loaded, Section, at_least, between, setting


def _makes_vectors(loaded: Loaded) -> Iterator[Complaint]:
    if (loaded.config.get(MemorySettings).embeddings or "").startswith("offline/"):
        what, remedy = "the offline model has no embeddings", "choose another, or remove it"
        yield ("memory", "embeddings"), what, remedy


@attrs.frozen(kw_only=True)
class MemorySettings:
    """Settings of notes; without *embeddings* they are found by words alone.

    If *offered* is 0, messages bring no notes.
    """

    SECTION: ClassVar = Section(
        "memory",
        "Notes across conversations. See docs/guides/memory.md.",
        verify=_makes_vectors,
        advice=(
            "Notes are found by their words. To find them also by their meaning, set "
            'memory.embeddings:\n  "ollama/nomic-embed-text" costs nothing: it runs on this '
            "machine (274 MB; ollama pull nomic-embed-text);\n"
            '  "openai/text-embedding-3-small" costs about $0.02 per million tokens, a cent for '
            "10,000 short notes, and sends the notes there."
        ),
    )

    embeddings: str | None = setting(
        None,
        help="embedding model for notes, as provider/name; the notes are sent to it",
        check=is_model,
        example='"ollama/nomic-embed-text"',
    )
    max_notes: int = setting(100_000, help="maximum number of notes", check=between(1, 1_000_000))
    offered: int = setting(
        600, help="maximum tokens of notes that are added to a message", check=at_least(0)
    )


@attrs.frozen(kw_only=True)
class LearningSettings:
    """Settings of the observer.

    By default the owner confirms each fact; the mode `auto` keeps those seen *threshold* times.
    """

    SECTION: ClassVar = Section(
        "learning",
        "Facts noticed in conversations. Each pause after something new costs one short call of "
        "the role `observer`, less than a cent with the default; it counts against `limits`.",
    )

    mode: Literal["auto", "suggest", "off"] = setting(
        "suggest",
        help="suggest: ask you before it remembers a fact; auto: remember facts seen often enough; "
        "off: call no model",
    )
    threshold: int = setting(
        3, help="conversations in which a fact must be seen", check=between(1, 100)
    )
    quiet: float = setting(
        120.0, help="seconds of silence before a conversation is read for facts", check=at_least(10)
    )
    calls_per_day: int = setting(
        50, help="maximum calls of the observer per day", check=between(1, 1000)
    )


@attrs.frozen(kw_only=True)
class OwnLearning:
    """Limits that the assistant sets for itself, within those of config.toml."""

    SECTION: ClassVar = Section("learning", "Less learning than config.toml allows, never more.")

    on: bool = setting(True, help="notice facts in conversations")
    threshold: int = setting(
        1,
        help="minimum number of conversations in which a fact must be seen",
        check=between(1, 100),
    )
