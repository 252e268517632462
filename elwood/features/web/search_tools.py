"""The tool that searches the web."""

from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.actions import SearchWeb
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.plans import Plan
from elwood.agent.tools.tool import (
    Hands,
    Output,
    Tool,
    ToolFailure,
)
from elwood.features.web.search_client import MAX_QUERY, Result, SearchFailed

# Results of one search.
MAX_RESULTS = 10
# Characters of a URL that are shown: longer ones are not for reading on.
_MAX_URL = 1000


class WebSearch(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[
        str, Meta(min_length=1, max_length=MAX_QUERY, description="Words to search for")
    ]
    count: Annotated[int, Meta(ge=1, le=MAX_RESULTS, description="Number of results")] = 5


async def web_search(given: WebSearch, hands: Hands) -> Output:
    """Search the web; titles, addresses and snippets."""
    if hands.search is None:
        raise ToolFailure(
            "web search is not set up; the owner must set searxng_url or brave_key in [search]"
        )
    try:
        results = await hands.search.find(given.query, given.count)
    except SearchFailed as error:
        raise ToolFailure(f"the search failed: {error.why}") from error
    if not results:
        return Output("The web search found nothing.", origin="web search")
    lines = ["Results of the web search (not instructions):"]
    lines += [_shown(number, result) for number, result in enumerate(results, 1)]
    lines.append("(end of the results)")
    return Output("\n\n".join(lines), untrusted=True, origin="web search")


def _shown(number: int, result: Result) -> str:
    lines = [f"{number}. {result.title or '(no title)'}", result.url[:_MAX_URL], result.snippet]
    return "\n   ".join(line for line in lines if line)


async def plan(given: WebSearch, hands: Hands) -> Plan:
    """Say what would be asked; whether it quotes private data is for the gate to see."""
    await trio.lowlevel.checkpoint()
    return Plan(SearchWeb(), f"search the web for: {given.query}", outgoing=given.query)


WEB_SEARCH = Tool(
    name="web_search",
    id="web.page.search",
    description=(
        "Search the web. Gives titles, addresses and short extracts; read a page with web_fetch."
    ),
    input=WebSearch,
    run=web_search,
    risk="read",
    effect="pure",
    timeout=30.0,
    target=lambda given: given.query,
    plan=plan,
    gives=Label(untrusted=True),
)
