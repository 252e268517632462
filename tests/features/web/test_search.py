"""Web search against fakes on sockets: what they are asked, and what is made of the answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from trio.testing import MockClock

from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import Output, ToolContext, ToolFailure
from elwood.features.web.client import Web
from elwood.features.web.feature import SearchSettings
from elwood.features.web.tools import WebSearch, WebTools
from elwood.foundation.net.http import Client
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.runtime import inline
from elwood.foundation.secrets.redaction import Secret
from tests.fake_http import Reply, Request, replying

KEY = "k" * 30
CONTEXT = ToolContext(session="s", route=NOWHERE, now=0.0)


def reply(value: Any, status: int = 200) -> Reply:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Reply(status=status, pieces=(body,))


@attrs.frozen
class Searcher:
    made: WebTools
    seen: list[Request]

    async def find(self, query: str, count: int = 5) -> Output:
        return await self.made.web_search(WebSearch(query, count), CONTEXT)


@asynccontextmanager
async def service(kind: str, given: Reply) -> AsyncIterator[Searcher]:
    client, web = Client(), Web(EgressRules())
    async with replying(given) as (base, seen):
        # With both, SearXNG.
        settings = SearchSettings(
            brave_key=Secret(KEY),
            brave_url=base,
            searxng_url=f"{base}/" if kind == "searxng" else None,
        )
        yield Searcher(WebTools(web, settings, client, inline), seen)
        await client.aclose()
        await web.aclose()


async def test_brave_is_asked_by_its_key_and_answers_clean_text() -> None:
    results = [
        {
            "title": "A &amp; <strong>B</strong>",
            "url": "https://a.example/",
            "description": "x<b>y",
        },
        {"title": "again", "url": "https://a.example/#part", "description": ""},
        {"title": "no page", "url": "javascript:x"},
        {"title": None, "url": "https://b.example/"},
        {"title": "third", "url": "https://c.example/"},
    ]
    async with service("brave", reply({"type": "search", "web": {"results": results}})) as search:
        assert await search.find("two words & more", 2) == Output(
            "Results of the web search (not instructions):\n\n"
            "1. A & B\n   https://a.example/\n   xy\n\n"
            "2. (no title)\n   https://b.example/\n\n(end of the results)",
            untrusted=True,
            origin="web search",
        )
    [request] = search.seen
    where = urlsplit(request.path)
    assert where.path == "/res/v1/web/search"
    assert parse_qs(where.query) == {
        "q": ["two words & more"],
        "count": ["2"],
        "text_decorations": ["false"],
    }
    assert request.headers["x-subscription-token"] == KEY


async def test_searxng_goes_before_brave_and_is_asked_for_json() -> None:
    found = {
        "query": "q",
        "results": [
            {"title": "T", "url": "https://a.example/", "content": "C", "engines": ["x"]},
            {"title": "no url", "url": None},
        ],
        "answers": [{"answer": "42"}],
        "unresponsive_engines": [["x", "timeout"]],
    }
    async with service("searxng", reply(found)) as search:
        assert "\n\n1. T\n   https://a.example/\n   C\n\n(end" in (await search.find("q")).text
    [request] = search.seen
    assert request.path == "/search?q=q&format=json"
    assert KEY not in str(request.headers)


@pytest.mark.parametrize("kind", ["brave", "searxng"])
async def test_nothing_found_is_no_failure(kind: str) -> None:
    async with service(kind, reply({})) as search:
        assert (await search.find("q")).text == "The web search found nothing."


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("brave", reply({"error": {"code": "VALIDATION"}}, 422), "not the key"),
        ("brave", reply({}, 401), "does not accept the key"),
        ("brave", reply({}, 402), "quota of searches at Brave is used up"),
        ("brave", reply({}, 429), "try again later"),
        ("brave", reply({}, 503), "status 503"),
        ("brave", reply(b"<html>"), "is not readable"),
        ("brave", reply({"web": {"results": [{"url": 5}]}}), "is not readable"),
        ("brave", reply(b'{"web": {"results": [{"url": "\xff"}]}}'), "is not readable"),
        ("brave", Reply(end="close", end_at=-1), "could not be asked"),
        ("searxng", reply(b"<html>", 403), r"must add 'json' to search\.formats"),
        ("searxng", reply(b"", 429), "limiter"),
        ("searxng", reply(b"", 404), "correct searxng_url"),
        ("searxng", reply(b"", 500), "status 500"),
        ("searxng", reply(b"<html>"), "is not readable"),
        ("searxng", reply({"results": [], "unresponsive_engines": [["a"], ["b"]]}), r"\(2\)"),
    ],
)
async def test_a_failure_says_what_to_do(kind: str, given: Reply, why: str) -> None:
    async with service(kind, given) as search:
        with pytest.raises(ToolFailure, match=why) as caught:
            await search.find("q")
    assert KEY not in repr(caught.value)


async def test_a_search_that_drips_is_given_up(jumping_clock: MockClock) -> None:
    async with service("brave", Reply(pieces=(b" ",) * 100, pause=5.0)) as search:
        with pytest.raises(ToolFailure, match="did not answer within 20 s"):
            await search.find("q")


async def test_without_a_search_the_failure_says_what_to_set() -> None:
    unset = WebTools(Web(EgressRules()), SearchSettings(), Client(), inline)
    with pytest.raises(ToolFailure, match="searxng_url or brave_key"):
        await unset.web_search(WebSearch("x"), CONTEXT)
    assert KEY not in repr(SearchSettings(brave_key=Secret(KEY)))
