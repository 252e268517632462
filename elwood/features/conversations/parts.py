"""The tool and the command that search conversations."""

from functools import partial
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.route import Route
from elwood.agent.models.settings import ModelSettings, can_think
from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.settings import SessionSettings
from elwood.agent.tools.tool import Output, Tool, ToolContext, ToolFailure, always
from elwood.features.conversations.extension import TitleChooser
from elwood.features.conversations.store import SearchOutcome, find
from elwood.features.conversations.turns import LONG_PART, SHORT_PART, MatchingTurn, format_turn
from elwood.foundation.text.words import parse_query

MOST, USUAL = 20, 5
NOTHING = "No conversation contains any of these words."


class ConversationQuery(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[
        str, Meta(min_length=1, max_length=500, description="Words from messages or answers")
    ]
    limit: Annotated[int, Meta(ge=1, le=MOST, description="Maximum number of turns")] = USUAL


class ConversationSearch:
    """Search the conversations of the requester, one search at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._reading = trio.Lock()

    async def find(self, query: str, limit: int, person: str, route: Route) -> SearchOutcome:
        """Find turns of *person* alone and, if *route* is a private chat, all turns there.

        In a private chat only that person and their tasks speak.
        """

        def belongs(turn: MatchingTurn) -> bool:
            is_here = route.private and turn.route.private and turn.route.is_same_chat(route)
            return is_here or turn.people == {person}

        state = self._core.paths.state
        async with self._reading:
            return await self._core.environment.blocking(lambda: find(state, query, limit, belongs))

    async def run_tool(self, given: ConversationQuery, context: ToolContext) -> Output:
        if not parse_query(given.query):
            raise ToolFailure("query contains no words; give words to search for")
        result = await self.find(given.query, given.limit, context.principal, context.route)
        untrusted = dict.fromkeys(turn.session for turn in result.turns if turn.untrusted)
        origin = f"conversations: {', '.join(untrusted)}" if untrusted else ""
        text = self._format(result, LONG_PART) or NOTHING
        return Output(text, bool(untrusted), private=True, origin=origin)

    async def run_command(self, call: CommandCall) -> CommandAnswer:
        if not parse_query(call.given):
            return CommandAnswer("Tell me the words to search for: /search WORDS")
        request = call.received
        result = await self.find(call.given, USUAL, request.principal, request.route)
        head = "The best matches first:" if result.turns else NOTHING
        return CommandAnswer(head, self._format(result))

    def _format(self, result: SearchOutcome, limit: int = SHORT_PART) -> str:
        zone = self._core.clock.zone
        turns = [format_turn(turn, result.words, zone, limit) for turn in result.turns]
        return "\n\n".join([*turns, *result.left_out])


async def build(core: Core, others: Gathered) -> Parts:
    search = ConversationSearch(core)
    idle, roles = core.config.get(SessionSettings).idle, core.config.get(ModelSettings).roles
    has_cheap = "cheap" in roles and can_think(core.config, "cheap")
    chooser = partial(TitleChooser, core.models.ask, core.redactor, idle)
    return Parts(
        sessions=[chooser] if has_cheap else [],
        tools=[
            Tool(
                name="search_conversations",
                id="conversations.turn.search",
                description=(
                    "Search the earlier conversations with this person, and this "
                    "one: it finds the turns that contain most of the words, "
                    "newest first, with their dates. A word finds only words with "
                    "the same beginning: try synonyms."
                ),
                input=ConversationQuery,
                run=search.run_tool,
                risk="read",
                effect="pure",
                target=lambda given: given.query,
                plan=always(ReadFiles(), "search your conversations"),
                gives=PRIVATE,
            )
        ],
        commands=[
            SlashCommand(
                name="search",
                help="search our conversations",
                usage="/search WORDS: find these words in all our conversations.",
                run=search.run_command,
                group="What I know and plan",
            )
        ],
    )
