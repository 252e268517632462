from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, count, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

CLI = "elwood.features.memory.cli"


def _of_list(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "--limit", metavar="N", type=count, default=50, help="maximum number of notes"
    )
    kinds, statuses = (
        ["fact", "preference", "procedure", "episode"],
        ["active", "pending", "archived"],
    )
    parser.add_argument("--kind", choices=kinds, help="only notes of this kind")
    parser.add_argument("--status", choices=statuses, help="only notes with this status")
    json_switch(parser)


def _of_search(parser: "ArgumentParser") -> None:
    parser.add_argument("query", metavar="WORD", nargs="+", help="words to search for")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=10, help="maximum number of notes"
    )
    json_switch(parser)


def _of_note(parser: "ArgumentParser") -> None:
    parser.add_argument("key", metavar="KEY", type=_key, help="key of the note")


def _of_forget(parser: "ArgumentParser") -> None:
    parser.add_argument("keys", metavar="KEY", nargs="+", type=_key, help="keys of the notes")


def _key(key: str) -> str:
    import re
    from argparse import ArgumentTypeError

    from elwood.foundation.text.words import KEY

    if not re.fullmatch(KEY, key):
        raise ArgumentTypeError("a key has 1 to 64 lowercase letters, digits and hyphens")
    return key


COMMAND = CliCommand(
    "memory",
    "Show, search or forget notes.",
    within=(
        CliCommand("list", "List the newest notes.", import_lazily(CLI, "list_notes"), _of_list),
        CliCommand("search", "Find notes by words.", import_lazily(CLI, "search"), _of_search),
        CliCommand("show", "Print the file of a note.", import_lazily(CLI, "show"), _of_note),
        CliCommand(
            "forget",
            "Delete notes for good; Elwood must be running.",
            import_lazily(CLI, "forget"),
            _of_forget,
        ),
    ),
)


FEATURE = Feature(
    name="memory",
    build=import_lazily("elwood.features.memory.parts", "build"),
    settings=(
        "elwood.features.memory.settings:MemorySettings",
        "elwood.features.memory.settings:LearningSettings",
    ),
    cli=(COMMAND,),
    own=("elwood.features.memory.settings:OwnLearning",),
    chores=("memory",),
    tools={
        "save_memory": "memory.note.save",
        "search_memory": "memory.note.search",
        "forget_memory": "memory.note.forget",
    },
)
