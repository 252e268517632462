"""Web search by Brave or by the owner's own SearXNG.

Both are servers that the owner chose, so their addresses are not checked: SearXNG may well run on
this machine.  What they return is the word of strangers.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from html import unescape
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import msgspec
import trio

from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.http import Answer, Client, Interrupted, Unreachable

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
    """The search gave no results; *why* is for the model and the operator, in our own words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class WebResult(msgspec.Struct, frozen=True):
    """A page that was found; every field is the word of strangers."""

    title: str
    url: str
    snippet: str


class Search(Protocol):
    """Searches the web."""

    async def find(self, query: str, count: int) -> tuple[WebResult, ...]:
        """Return up to *count* results, the best first.  Raises SearchFailed."""


def search_of(settings: SearchSettings, client: Client) -> Search | None:
    """Make the search that *settings* ask for, if any; *client* stays the caller's to close."""
    if settings.searxng_url is not None:
        return SearXNG(client, settings.searxng_url)
    if settings.brave_key is not None:
        return Brave(client, settings.brave_url, settings.brave_key.reveal)
    return None


class _Found(msgspec.Struct):
    url: str | None = None
    title: str | None = None
    description: str | None = None  # Brave
    content: str | None = None  # SearXNG


class _BraveWeb(msgspec.Struct):
    results: list[_Found] = []


class _BraveAnswer(msgspec.Struct):
    web: _BraveWeb | None = None


class _BraveError(msgspec.Struct):
    code: str = ""


class _BraveRefusal(msgspec.Struct):
    error: _BraveError | None = None


class Brave:
    """The search API of Brave; *key* gives the subscription token."""

    def __init__(self, client: Client, base: str, key: Callable[[], str]) -> None:
        self._client = client
        self._base = base.rstrip("/")
        self._key = key

    async def find(self, query: str, count: int) -> tuple[WebResult, ...]:
        """Return up to *count* results, the best first.  Raises SearchFailed."""
        asked = urlencode({"q": query, "count": count, "text_decorations": "false"})
        headers = {"x-subscription-token": self._key(), "accept": "application/json"}
        url = f"{self._base}/res/v1/web/search?{asked}"
        answer = await _get(self._client, "Brave", url, headers)
        if answer.status != 200:
            raise SearchFailed(_brave_trouble(answer))
        found = _decoded("Brave", answer.body, _BraveAnswer)
        return _results(found.web.results if found.web is not None else (), count)


class _SearXNGAnswer(msgspec.Struct):
    results: list[_Found] = []
    unresponsive_engines: list[msgspec.Raw] = []


class SearXNG:
    """A SearXNG server of the owner's at *base*."""

    def __init__(self, client: Client, base: str) -> None:
        self._client = client
        self._base = base.rstrip("/")

    async def find(self, query: str, count: int) -> tuple[WebResult, ...]:
        """Return up to *count* results, the best first.  Raises SearchFailed."""
        url = f"{self._base}/search?{urlencode({'q': query, 'format': 'json'})}"
        answer = await _get(self._client, "SearXNG", url, {"accept": "application/json"})
        if answer.status != 200:
            raise SearchFailed(_searxng_trouble(answer))
        found = _decoded("SearXNG", answer.body, _SearXNGAnswer)
        if not found.results and found.unresponsive_engines:
            number = len(found.unresponsive_engines)
            raise SearchFailed(f"none of the search engines behind SearXNG answered ({number})")
        return _results(found.results, count)


async def _get(client: Client, name: str, url: str, headers: Mapping[str, str]) -> Answer:
    try:
        with trio.fail_after(DEADLINE):
            return await client.get(
                url, headers=headers, read_timeout=READ_TIMEOUT, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        raise SearchFailed(f"{name} could not be asked: {error.why}") from error
    except trio.TooSlowError as error:
        raise SearchFailed(f"{name} did not answer within {DEADLINE:g} s") from error


def _decoded(name: str, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SearchFailed(f"the answer of {name} is not readable") from error


def _brave_trouble(answer: Answer) -> str:
    try:
        refusal = msgspec.json.decode(answer.body, type=_BraveRefusal)
        code = refusal.error.code if refusal.error is not None else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = ""
    match answer.status, code:
        case ((401 | 403), _):
            return "Brave does not accept the key; the owner must set another brave_key"
        case 422, "SUBSCRIPTION_TOKEN_INVALID":
            return "Brave does not accept the key; the owner must set another brave_key"
        case 422, _:
            return "Brave does not accept this query; make it shorter or simpler"
        case 402, _:
            return "the quota of searches at Brave is used up"
        case 429, _:
            return f"Brave wants fewer searches; {_pause(answer.headers)}"
        case status, _:
            return f"Brave answered with status {status}; it may work later"


def _pause(headers: Mapping[str, str]) -> str:
    """Say from Brave's headers, a value for each of its windows, how long to wait."""
    first = headers.get("x-ratelimit-reset", "").partition(",")[0].strip()
    rest = headers.get("x-ratelimit-remaining", "").split(",")
    if len(rest) > 1 and rest[-1].strip() == "0":
        return "the quota of this month is used up"
    is_number = first.isascii() and first.isdecimal() and len(first) < 6
    return f"try again in {int(first) or 1} s" if is_number else "try again later"


def _searxng_trouble(answer: Answer) -> str:
    match answer.status:
        case 403:
            return (
                "SearXNG does not give JSON; its owner must add 'json' to search.formats in the "
                "settings.yml of SearXNG"
            )
        case 429:
            return "the limiter of SearXNG refuses us; its owner must switch it off or allow us"
        case 404:
            return "there is no SearXNG at this address; the owner must correct searxng_url"
        case status:
            return f"SearXNG answered with status {status}; it may work later"


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
