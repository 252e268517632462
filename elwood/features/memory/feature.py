"""The memory, as the app sees it."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from typing import ClassVar

import attrs

from elwood.agent.feature import Feature, imported
from elwood.agent.models.settings import is_model
from elwood.agent.session.settings import LearningSettings
from elwood.foundation.command_line import CliCommand, count, json_switch
from elwood.foundation.settings import Complaint, Loaded, Section, at_least, between, setting
from elwood.foundation.text.words import KEY

CLI = "elwood.features.memory.cli"


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


def _of_list(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=50, help="how many at most")
    kinds, statuses = (
        ["fact", "preference", "procedure", "episode"],
        ["active", "pending", "archived"],
    )
    parser.add_argument("--kind", choices=kinds, help="only of this kind")
    parser.add_argument("--status", choices=statuses, help="only of this status")
    json_switch(parser)


def _of_search(parser: ArgumentParser) -> None:
    parser.add_argument("query", metavar="WORD", nargs="+", help="words that they should have")
    parser.add_argument("--limit", metavar="N", type=count, default=10, help="how many at most")
    json_switch(parser)


def _of_note(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", type=_key, help="the note")


def _of_forget(parser: ArgumentParser) -> None:
    parser.add_argument("keys", metavar="KEY", nargs="+", type=_key, help="the notes")


def _key(key: str) -> str:
    if not re.fullmatch(KEY, key):
        raise ArgumentTypeError("a key has 1 to 64 small letters, digits and hyphens")
    return key


COMMAND = CliCommand(
    "memory",
    "Show, search or forget what is remembered.",
    within=(
        CliCommand("list", "List the newest notes.", imported(CLI, "list_notes"), _of_list),
        CliCommand("search", "Find notes by words.", imported(CLI, "search"), _of_search),
        CliCommand("show", "Print a note as its file is.", imported(CLI, "show"), _of_note),
        CliCommand(
            "forget",
            "Have the running Elwood forget notes for good.",
            imported(CLI, "forget"),
            _of_forget,
        ),
    ),
)


@attrs.frozen(kw_only=True)
class OwnLearning:
    """How the assistant holds itself back from learning; config.toml says how far it may go."""

    SECTION: ClassVar = Section("learning", "Less learning than config.toml allows, never more.")

    on: bool = setting(True, help="whether anything is noticed in conversations")
    threshold: int = setting(
        1, help="conversations in which the same must be seen, at least", check=between(1, 100)
    )


FEATURE = Feature(
    name="memory",
    build=imported("elwood.features.memory.parts", "build"),
    settings=(MemorySettings, LearningSettings),
    cli=(COMMAND,),
    own=(OwnLearning,),
    tools={
        "save_memory": "memory.note.save",
        "search_memory": "memory.note.search",
        "forget_memory": "memory.note.forget",
    },
)
