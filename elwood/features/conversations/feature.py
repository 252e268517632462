from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.foundation.command_line import CliCommand, count, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("query", metavar="WORD", nargs="+", help="words to search for")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--of",
        metavar="PERSON",
        help="search the conversations with this person (tg:123, console) instead of yours",
    )
    whose.add_argument("--all", action="store_true", help="search the conversations with everyone")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=10, help="maximum number of results"
    )
    json_switch(parser)


COMMAND = CliCommand(
    "search",
    "Search the conversations.",
    import_lazily("elwood.features.conversations.cli", "search"),
    _arguments,
)

FEATURE = Feature(
    name="conversations",
    build=import_lazily("elwood.features.conversations.parts", "build"),
    cli=(COMMAND,),
    tools={"search_conversations": "conversations.turn.search"},
)
