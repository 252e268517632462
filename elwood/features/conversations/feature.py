from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, imported
from elwood.foundation.command_line import CliCommand, count

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("query", metavar="WORD", nargs="+", help="words that were said")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--of", metavar="PERSON", help="with this person, not you: tg:123, console")
    whose.add_argument("--all", action="store_true", help="with all people")
    parser.add_argument("--limit", metavar="N", type=count, default=10, help="how many at most")


COMMAND = CliCommand(
    "search",
    "Find what was said in conversations.",
    imported("elwood.features.conversations.cli", "search"),
    _arguments,
)

FEATURE = Feature(
    name="conversations",
    build=imported("elwood.features.conversations.parts", "build"),
    cli=(COMMAND,),
    tools={"search_conversations": "conversations.turn.search"},
)
