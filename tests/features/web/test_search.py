"""The search clients against fakes on sockets: what they ask, and what is made of the answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from trio.testing import MockClock

from elwood.features.web.search_client import (
    Brave,
    Search,
    SearchFailed,
    SearXNG,
    WebResult,
    search_of,
)
from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.fake_http import JUMP, Reply, Request, serving

KEY = "k" * 30


def reply(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(
        status=status,
        headers={name.replace("_", "-"): text for name, text in headers.items()},
        pieces=(value if isinstance(value, bytes) else json.dumps(value).encode(),),
    )


@asynccontextmanager
async def service(
    kind: str, given: Reply, seen: list[Request] | None = None
) -> AsyncIterator[Search]:
    async def answer(request: Request) -> Reply:
        await trio.lowlevel.checkpoint()
        if seen is not None:
            seen.append(request)
        return given

    client = Client()
    async with serving(answer) as base:
        if kind == "brave":
            settings = SearchSettings(brave_key=Secret(KEY), brave_url=base)
        else:
            settings = SearchSettings(searxng_url=f"{base}/")
        search = search_of(settings, client)
        assert search is not None
        yield search
        await client.aclose()


async def test_brave_is_asked_by_its_key_and_answers_clean_text() -> None:
    found = {
        "type": "search",
        "web": {
            "results": [
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
        },
    }
    seen: list[Request] = []
    async with service("brave", reply(found), seen) as search:
        results = await search.find("two words & more", 2)
    assert results == (
        WebResult("A & B", "https://a.example/", "xy"),
        WebResult("", "https://b.example/", ""),
    )
    [request] = seen
    where = urlsplit(request.path)
    assert where.path == "/res/v1/web/search"
    assert parse_qs(where.query) == {
        "q": ["two words & more"],
        "count": ["2"],
        "text_decorations": ["false"],
    }
    assert request.headers["x-subscription-token"] == KEY


async def test_searxng_is_asked_for_json() -> None:
    found = {
        "query": "q",
        "results": [
            {"title": "T", "url": "https://a.example/", "content": "C", "engines": ["x"]},
            {"title": "no url", "url": None},
        ],
        "answers": [{"answer": "42"}],
        "unresponsive_engines": [["x", "timeout"]],
    }
    seen: list[Request] = []
    async with service("searxng", reply(found), seen) as search:
        assert await search.find("q", 10) == (WebResult("T", "https://a.example/", "C"),)
    assert seen[0].path == "/search?q=q&format=json"


@pytest.mark.parametrize("kind", ["brave", "searxng"])
async def test_nothing_found_is_no_failure(kind: str) -> None:
    async with service(kind, reply({})) as search:
        assert await search.find("q", 5) == ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (reply({"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, 422), "does not accept the key"),
        (reply({"error": {"code": "VALIDATION"}}, 422), "does not accept this query"),
        (reply(b"<html>", 422), "does not accept this query"),
        (reply({}, 401), "does not accept the key"),
        (reply({}, 402), "quota of searches at Brave is used up"),
        (reply({}, 429, x_ratelimit_reset="3, 1000"), "try again in 3 s"),
        (reply({}, 429, x_ratelimit_reset="1, 9", x_ratelimit_remaining="0, 0"), "of this month"),
        (reply({}, 429, x_ratelimit_reset="soon"), "try again later"),
        (reply({}, 503), "status 503"),
        (reply(b"<html>"), "is not readable"),
        (reply({"web": {"results": [{"url": 5}]}}), "is not readable"),
        (reply(b'{"web": {"results": [{"url": "\xff"}]}}'), "is not readable"),
        (Reply(end="close", end_at=-1), "could not be asked"),
    ],
)
async def test_a_failure_of_brave_says_what_to_do(given: Reply, why: str) -> None:
    async with service("brave", given) as search:
        with pytest.raises(SearchFailed, match=why) as caught:
            await search.find("q", 5)
    assert KEY not in repr(caught.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (reply(b"<html>", 403), r"must add 'json' to search\.formats"),
        (reply(b"", 429), "limiter"),
        (reply(b"", 404), "correct searxng_url"),
        (reply(b"", 500), "status 500"),
        (reply(b"<html>"), "is not readable"),
        (reply({"results": [], "unresponsive_engines": [["a", "x"], ["b", "y"]]}), r"\(2\)"),
    ],
)
async def test_a_failure_of_searxng_says_what_to_do(given: Reply, why: str) -> None:
    async with service("searxng", given) as search:
        with pytest.raises(SearchFailed, match=why):
            await search.find("q", 5)


async def test_a_search_that_drips_is_given_up(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = JUMP
    async with service("brave", Reply(pieces=(b" ",) * 100, pause=5.0)) as search:
        with pytest.raises(SearchFailed, match="did not answer within 20 s"):
            await search.find("q", 5)


def test_searxng_goes_before_brave_and_nothing_is_none() -> None:
    client = Client()
    both = SearchSettings(brave_key=Secret(KEY), searxng_url="http://127.0.0.1:1")
    assert isinstance(search_of(both, client), SearXNG)
    assert isinstance(search_of(SearchSettings(brave_key=Secret(KEY)), client), Brave)
    assert search_of(SearchSettings(), client) is None
    assert KEY not in repr(both)
