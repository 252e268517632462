"""Web search by Brave or by the owner's own SearXNG.

Both are servers that the owner chose, so their addresses are not checked: SearXNG may well run on
this machine.  What they return is the word of strangers.
"""

import re
from collections.abc import Iterable, Mapping
from html import unescape
from typing import TypeVar
from urllib.parse import urlencode

import msgspec
import trio

from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.http import Client, Interrupted, Unreachable

T = TypeVar("T")

# Seconds for an answer, and for the wait between its parts.
DEADLINE = 20.0
READ_TIMEOUT = 10.0
# Bytes of an answer: ten results have a few kilobytes.
MAX_ANSWER = 2 * 1024 * 1024
# Characters of a query.
MAX_QUERY = 400
# Characters of a title and of a snippet that are kept.
MAX_TITLE = 300
MAX_SNIPPET = 1000
_TAG = re.compile("</?[a-zA-Z][^<>]*>")


class SearchFailed(Exception):
    """The search gave no results; the text is for the model and the operator, in our own words."""


class WebResult(msgspec.Struct, frozen=True):
    """A page that was found; every field is the word of strangers."""

    title: str
    url: str
    snippet: str


class _Found(msgspec.Struct):
    url: str | None = None
    title: str | None = None
    description: str | None = None  # Brave
    content: str | None = None  # SearXNG


class _BraveWeb(msgspec.Struct):
    results: list[_Found] = []


class _BraveAnswer(msgspec.Struct):
    web: _BraveWeb | None = None


class _SearXNGAnswer(msgspec.Struct):
    results: list[_Found] = []
    unresponsive_engines: list[msgspec.Raw] = []


_KEY = "Brave does not accept the key; the owner must set another brave_key"
_BRAVE = {
    401: _KEY,
    403: _KEY,
    402: "the quota of searches at Brave is used up",
    422: "Brave does not accept this query, or not the key; make it shorter or simpler",
    429: "Brave wants fewer searches, now or in this month; try again later",
}
_SEARXNG = {
    403: (
        "SearXNG does not give JSON; its owner must add 'json' to search.formats in the "
        "settings.yml of SearXNG"
    ),
    404: "there is no SearXNG at this address; the owner must correct searxng_url",
    429: "the limiter of SearXNG refuses us; its owner must switch it off or allow us",
}


async def find(
    settings: SearchSettings, client: Client, query: str, count: int
) -> tuple[WebResult, ...]:
    """Return up to *count* results, the best first, from who *settings* name.

    Raises SearchFailed.
    """
    if settings.searxng_url is not None:
        asked = urlencode({"q": query, "format": "json"})
        url = f"{settings.searxng_url.rstrip('/')}/search?{asked}"
        body = await _get(client, "SearXNG", url, {}, _SEARXNG)
        found = _decoded("SearXNG", body, _SearXNGAnswer)
        if not found.results and found.unresponsive_engines:
            number = len(found.unresponsive_engines)
            raise SearchFailed(f"none of the search engines behind SearXNG answered ({number})")
        return _results(found.results, count)
    if settings.brave_key is not None:
        asked = urlencode({"q": query, "count": count, "text_decorations": "false"})
        url = f"{settings.brave_url.rstrip('/')}/res/v1/web/search?{asked}"
        headers = {"x-subscription-token": settings.brave_key.reveal()}
        body = await _get(client, "Brave", url, headers, _BRAVE)
        answer = _decoded("Brave", body, _BraveAnswer)
        return _results(answer.web.results if answer.web is not None else (), count)
    raise SearchFailed("the owner must set searxng_url or brave_key in [search]")


async def _get(
    client: Client, name: str, url: str, headers: Mapping[str, str], troubles: Mapping[int, str]
) -> bytes:
    headers = {**headers, "accept": "application/json"}
    try:
        with trio.fail_after(DEADLINE):
            answer = await client.get(
                url, headers=headers, read_timeout=READ_TIMEOUT, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        raise SearchFailed(f"{name} could not be asked: {error.why}") from error
    except trio.TooSlowError as error:
        raise SearchFailed(f"{name} did not answer within {DEADLINE:g} s") from error
    if answer.status != 200:
        unknown = f"{name} answered with status {answer.status}; it may work later"
        raise SearchFailed(troubles.get(answer.status, unknown))
    return answer.body


def _decoded(name: str, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SearchFailed(f"the answer of {name} is not readable") from error


def _results(found: Iterable[_Found], count: int) -> tuple[WebResult, ...]:
    """Clean what was found, and drop what has no web address or was found twice."""
    results: dict[str, WebResult] = {}
    for each in found:
        url = each.url or ""
        if url.startswith(("http://", "https://")) and not any(map(str.isspace, url)):
            snippet = _text(each.description or each.content or "", MAX_SNIPPET)
            key = url.partition("#")[0].rstrip("/")
            results.setdefault(key, WebResult(_text(each.title or "", MAX_TITLE), url, snippet))
    return tuple(results.values())[:count]


def _text(html: str, limit: int) -> str:
    words = unescape(_TAG.sub("", html[: 4 * limit])).split()
    return " ".join(words)[:limit]
