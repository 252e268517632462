"""HTTP client for untrusted servers: each hop of a request is checked.

No cookie, key or proxy of the owner or the environment is used.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import urlencode

import attrs
import msgspec
import trio

from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.egress import (
    Resolve,
    WebFailed,
    Windows,
    is_reachable,
    pin_route,
    refusal,
    resolve_host,
)
from elwood.foundation.net.http import Client, Exchange, Interrupted, Route, Unreachable
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import RefusedUrl, Url, follow, parse
from elwood.foundation.text.characters import unescape_entities

T = TypeVar("T")

# Bytes kept of a body, after decompression: a long page of text has less than one million.
MAX_BODY = 3 * 1024 * 1024
# Seconds for a whole request with all its hops, and for each wait for more bytes.
DEADLINE = 40.0
READ_TIMEOUT = 20.0
# Concurrent requests; more requests wait.
CONNECTIONS = 8
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = {
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5"
}


@attrs.frozen
class WebPage:
    """Answer of a server.  All fields but *url* are untrusted."""

    status: int
    url: str  # final address, after redirects
    content_type: str
    body: bytes = attrs.field(repr=False)
    cut: bool = False  # *body* is incomplete
    location: str = ""  # target of a redirect


def _make_client(route: Route) -> Client:
    return Client(connections=CONNECTIONS, route=route)


class Web:
    """Fetches from and sends to the web, under *rules*; close it with ``aclose``.

    *allow* returns True for addresses that may be connected to, *resolve* looks up names, *client*
    creates the HTTP client.
    """

    def __init__(
        self,
        rules: EgressRules,
        *,
        allow: Callable[[str], bool] = is_reachable,
        resolve: Resolve = resolve_host,
        client: Callable[[Route], Client] = _make_client,
        limit: int = MAX_BODY,
        deadline: float = DEADLINE,
    ) -> None:
        self.rules = rules
        self._make_client = client(pin_route(allow, resolve))
        self._windows = Windows(rules.per_minute, rules.per_minute_all)
        self._sent = Windows(rules.per_minute_sent, rules.per_minute_sent)
        self._limit = limit
        self._deadline = deadline

    async def fetch(self, url: str) -> WebPage:
        """Return the page at *url*, or where it redirects to.  Raises WebFailed."""
        return await self._request("GET", url)

    async def send(self, method: str, url: str, body: bytes, content_type: str) -> WebPage:
        """Send *body* to *url*, which may change something.  Raises WebFailed.

        It is sent to that address only: the target of a redirect is part of the answer.
        """
        if (wait := self._sent.wait("", trio.current_time())) > 0:
            most = self.rules.per_minute_sent
            raise WebFailed(f"at most {most} requests may be sent per minute; wait {wait:.0f} s")
        return await self._request(method, url, (body, content_type))

    async def aclose(self) -> None:
        await self._make_client.aclose()

    async def _request(
        self, method: str, text: str, content: tuple[bytes, str] | None = None
    ) -> WebPage:
        url = parse(text, self.rules.ports)
        if isinstance(url, RefusedUrl):
            raise WebFailed(url.why)
        hop = _Hop(url)
        with trio.move_on_after(self._deadline):
            while True:
                page, led = await self._send_hop(hop, method, content)
                if led is None or content is not None:
                    return page
                hop = _Hop(led, hop.number + 1, hop.url.host)
        raise _make_failure(hop, f"no complete response within {self._deadline:g} s", is_sent=True)

    def _check_hop(self, hop: "_Hop") -> None:
        why = refusal(self.rules, hop.url, hop.number)
        if why is None and (wait := self._windows.wait(hop.url.host, trio.current_time())) > 0:
            why = f"too many web requests in one minute; wait {wait:.0f} s"
        if why is not None:
            raise WebFailed(why, text_from=hop.sent_by)

    async def _send_hop(
        self, hop: "_Hop", method: str, content: tuple[bytes, str] | None
    ) -> tuple[WebPage, Url | None]:
        """Send one request; return the page (of a redirect without its body) and its target."""
        self._check_hop(hop)
        body, content_type = content or (None, "")
        exchange = self._make_client.stream(
            method,
            hop.url.text,
            body,
            headers=_ACCEPT if content is None else {},
            read_timeout=READ_TIMEOUT,
            content_type=content_type,
        )
        try:
            async with exchange as answer:
                location = _redirect_target(answer) if answer.status in _REDIRECTS else ""
                if not location:
                    return await self._read_page(hop, answer), None
                led = follow(hop.url, location, hop.number, self.rules.ports)
                if isinstance(led, RefusedUrl):
                    raise WebFailed(led.why, is_sent=True, text_from=hop.url.host)
                return WebPage(answer.status, hop.url.text, "", b"", location=led.text), led
        except WebFailed as error:
            error.text_from = error.text_from or hop.sent_by
            raise
        except Unreachable as error:
            raise _make_failure(hop, error.why, is_sent=False) from error
        except Interrupted as error:
            raise _make_failure(hop, error.why, is_sent=True) from error

    async def _read_page(self, hop: "_Hop", answer: Exchange) -> WebPage:
        parts = []
        room = self._limit
        async for part in answer:
            parts.append(part[:room])
            room -= len(part)
            if room < 0:
                break
        content_type = answer.headers.get("content-type", "")
        return WebPage(answer.status, hop.url.text, content_type, b"".join(parts), room < 0)


class _Hop(msgspec.Struct, frozen=True):
    """One request of a chain; *sent_by* is the host that redirected here."""

    url: Url
    number: int = 0
    sent_by: str = ""


def _make_failure(hop: _Hop, why: str, *, is_sent: bool) -> WebFailed:
    return WebFailed(f"{hop.url.host}: {why}", is_sent=is_sent, text_from=hop.sent_by)


def _redirect_target(answer: Exchange) -> str:
    """Return the redirect target; raw UTF-8 in a header is common and accepted."""
    location = answer.headers.get("location", "").strip(" ")
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return location


# --- search, by Brave or by the owner's own SearXNG -----------------------------------------------

# The owner chose both servers, so their addresses are not checked: SearXNG may well run on this
# machine.  Their results are untrusted.

# Seconds for an answer.
SEARCH_DEADLINE = 20.0
# Bytes of an answer: ten results have a few kilobytes.
MAX_ANSWER = 2 * 1024 * 1024
# Characters of a query.
MAX_QUERY = 400
# Characters kept of a title and of a snippet.
MAX_TITLE = 300
MAX_SNIPPET = 1000
_TAG = re.compile("</?[a-zA-Z][^<>]*>")


class SearchFailed(Exception):
    """The search failed; the text is for the model and the operator, in our own words."""


class WebResult(msgspec.Struct, frozen=True):
    """A search result; all fields are untrusted."""

    title: str
    url: str
    snippet: str


class _RawResult(msgspec.Struct):
    url: str | None = None
    title: str | None = None
    description: str | None = None  # Brave
    content: str | None = None  # SearXNG


class _BraveWeb(msgspec.Struct):
    results: list[_RawResult] = []


class _BraveAnswer(msgspec.Struct):
    web: _BraveWeb | None = None


class _SearXNGAnswer(msgspec.Struct):
    results: list[_RawResult] = []
    unresponsive_engines: list[msgspec.Raw] = []


# The remedy for each status of an answer.
_HINTS = {
    401: "the owner must set another brave_key",
    403: "the owner must set another brave_key, or add 'json' to search.formats of SearXNG",
    404: "the owner must correct searxng_url",
    422: "make the query shorter or simpler, or the owner must set another brave_key",
    429: "the search limit is reached, for now or for this month; try again later",
}


async def find(
    settings: SearchSettings, client: Client, query: str, count: int
) -> tuple[WebResult, ...]:
    """Return up to *count* results, the best first.  Raises SearchFailed."""
    if settings.searxng_url is not None:
        query_string = urlencode({"q": query, "format": "json"})
        url = f"{settings.searxng_url.rstrip('/')}/search?{query_string}"
        body = await _get(client, "SearXNG", url, {})
        searx = _decode("SearXNG", body, _SearXNGAnswer)
        if not searx.results and searx.unresponsive_engines:
            number = len(searx.unresponsive_engines)
            raise SearchFailed(f"none of the search engines behind SearXNG responded ({number})")
        return _clean_results(searx.results, count)
    if settings.brave_key is not None:
        query_string = urlencode({"q": query, "count": count, "text_decorations": "false"})
        url = f"{settings.brave_url.rstrip('/')}/res/v1/web/search?{query_string}"
        headers = {"x-subscription-token": settings.brave_key.reveal()}
        body = await _get(client, "Brave", url, headers)
        answer = _decode("Brave", body, _BraveAnswer)
        return _clean_results(answer.web.results if answer.web is not None else (), count)
    raise SearchFailed("the owner must set searxng_url or brave_key in [search]")


async def _get(client: Client, name: str, url: str, headers: Mapping[str, str]) -> bytes:
    headers = {**headers, "accept": "application/json"}
    try:
        with trio.fail_after(SEARCH_DEADLINE):
            answer = await client.get(
                url, headers=headers, read_timeout=SEARCH_DEADLINE, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        raise SearchFailed(f"{name} cannot be reached: {error.why}") from error
    except trio.TooSlowError as error:
        raise SearchFailed(f"{name} did not respond within {SEARCH_DEADLINE:g} s") from error
    if answer.status != 200:
        hint = _HINTS.get(answer.status, "it may work later")
        raise SearchFailed(f"{name} responded with status {answer.status}: {hint}")
    return answer.body


def _decode(name: str, body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SearchFailed(f"the response of {name} cannot be parsed") from error


def _clean_results(raw: Iterable[_RawResult], count: int) -> tuple[WebResult, ...]:
    """Clean the results; drop duplicates and those without a web address."""
    results: dict[str, WebResult] = {}
    for each in raw:
        if len(results) == count:
            break
        url = each.url or ""
        if url.startswith(("http://", "https://")) and not any(map(str.isspace, url)):
            snippet = _strip_html(each.description or each.content or "", MAX_SNIPPET)
            key = url.partition("#")[0].rstrip("/")
            results.setdefault(
                key, WebResult(_strip_html(each.title or "", MAX_TITLE), url, snippet)
            )
    return tuple(results.values())


def _strip_html(html: str, limit: int) -> str:
    words = unescape_entities(_TAG.sub("", html[: 4 * limit])).split()
    return " ".join(words)[:limit]
