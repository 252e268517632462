"""A client for servers that nobody vouches for: what is fetched is checked at every hop.

Nothing of the owner goes along: no cookie, no key, no proxy of the environment.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from html import unescape
from typing import TypeVar
from urllib.parse import urlencode

import attrs
import msgspec
import trio

from elwood.features.web.feature import SearchSettings
from elwood.foundation.net.egress import (
    Resolve,
    WebRefused,
    Windows,
    is_reachable,
    pinned,
    refusal,
    resolved,
)
from elwood.foundation.net.http import Client, Exchange, Interrupted, Route, Unreachable
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import RefusedUrl, Url, follow, parse

T = TypeVar("T")

# Bytes of a body that are kept, after decompression: a long page of text has less than one million.
MAX_BODY = 3 * 1024 * 1024
# Seconds for a whole request with all its hops, and for each wait for more bytes.
DEADLINE = 40.0
READ_TIMEOUT = 20.0
# Requests at a time; more wait.
CONNECTIONS = 8
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = {
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.5"
}


class WebFailed(Exception):
    """The other side, or the way there, failed; *why* is for the model.

    *is_sent* says that the request went out, at least in part: it may have acted.  *text_from* is
    as in WebRefused.
    """

    def __init__(self, why: str, *, is_sent: bool, text_from: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.is_sent = is_sent
        self.text_from = text_from


@attrs.frozen
class WebPage:
    """What a server answered.  All of it but *url* is its word.

    *url* is where it was had from in the end.  *cut* says that the *body* goes on.  *location* is
    the URL that it points to if that was not followed.
    """

    status: int
    url: str
    content_type: str
    body: bytes = attrs.field(repr=False)
    cut: bool = False
    location: str = ""


def _client(route: Route) -> Client:
    return Client(connections=CONNECTIONS, route=route)


class Web:
    """Fetches from and sends to the web, under *rules*; ends with ``aclose``.

    *allow* says which addresses may be connected to, *resolve* looks names up, *client* makes what
    speaks HTTP.
    """

    def __init__(
        self,
        rules: EgressRules,
        *,
        allow: Callable[[str], bool] = is_reachable,
        resolve: Resolve = resolved,
        client: Callable[[Route], Client] = _client,
        limit: int = MAX_BODY,
        deadline: float = DEADLINE,
    ) -> None:
        self.rules = rules
        self._client = client(pinned(allow, resolve))
        self._windows = Windows(rules.per_minute, rules.per_minute_all)
        self._limit = limit
        self._deadline = deadline

    async def fetch(self, url: str) -> WebPage:
        """Return the page at *url*, and where it redirects to.  Raises WebRefused, WebFailed."""
        return await self._request("GET", url, None)

    async def send(self, method: str, url: str, body: bytes, content_type: str) -> WebPage:
        """Send *body* to *url*, which may change something.  Raises WebRefused, WebFailed.

        It is sent on within its origin only, if the server asks for that (307, 308); a redirect
        to another host is refused (AP-12), any other is the answer.
        """
        return await self._request(method, url, (body, content_type))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _request(self, method: str, text: str, content: tuple[bytes, str] | None) -> WebPage:
        url = parse(text, self.rules.ports)
        if isinstance(url, RefusedUrl):
            raise WebRefused(url.why)
        hop = _Hop(method, url, content)
        with trio.move_on_after(self._deadline):
            while True:
                self._admit(hop)
                got = await self._ask(hop)
                if isinstance(got, WebPage):
                    return got
                hop = got
        raise _failed(hop, f"no whole answer within {self._deadline:g} s", is_sent=True)

    def _admit(self, hop: "_Hop") -> None:
        why = refusal(self.rules, hop.url, hop.number)
        now = trio.current_time()
        if why is None and (wait := self._windows.wait(hop.url.host, now)) > 0:
            why = f"too many requests to the web within a minute; wait {wait:.0f} s"
        if why is not None:
            raise WebRefused(why, hop.sent_by)
        self._windows = self._windows.after(hop.url.host, now)

    async def _ask(self, hop: "_Hop") -> "WebPage | _Hop":
        body, content_type = hop.content or (None, "")
        exchange = self._client.stream(
            hop.method,
            hop.url.text,
            body,
            headers=_ACCEPT if hop.content is None else {},
            read_timeout=READ_TIMEOUT,
            content_type=content_type,
        )
        try:
            async with exchange as answer:
                location = _location(answer) if answer.status in _REDIRECTS else ""
                if not location:
                    return await self._page(hop, answer)
                url = self._led(hop, location)
                if hop.content is not None and answer.status not in (307, 308):
                    return await self._page(hop, answer, url.text)
                return _Hop(hop.method, url, hop.content, hop.number + 1, hop.url.host)
        except WebRefused as refused:
            refused.text_from = refused.text_from or hop.sent_by
            raise
        except Unreachable as error:
            raise _failed(hop, error.why, is_sent=hop.number > 0) from error
        except Interrupted as error:
            raise _failed(hop, error.why, is_sent=True) from error

    def _led(self, hop: "_Hop", location: str) -> Url:
        """Say where an answer leads."""
        url = follow(hop.url, location, hop.number, self.rules.ports)
        if isinstance(url, RefusedUrl):
            raise WebRefused(url.why, hop.url.host)
        is_same = url.origin == hop.url.origin or _is_upgrade(hop.url, url)
        if hop.content is not None and not is_same:
            why = f"{hop.url.host} got the request and redirects to {url.host}; that is refused"
            raise WebRefused(f"{why}, since the request was meant for one host", hop.url.host)
        return url

    async def _page(self, hop: "_Hop", answer: Exchange, location: str = "") -> WebPage:
        parts = []
        room = self._limit
        async for part in answer:
            parts.append(part[:room])
            room -= len(part)
            if room < 0:
                break
        return WebPage(
            answer.status,
            hop.url.text,
            answer.headers.get("content-type", ""),
            b"".join(parts),
            room < 0,
            location,
        )


class _Hop(msgspec.Struct, frozen=True):
    """One request of a chain; *sent_by* is the host that led here."""

    method: str
    url: Url
    content: tuple[bytes, str] | None
    number: int = 0
    sent_by: str = ""


def _is_upgrade(old: Url, new: Url) -> bool:
    """Tell whether a redirect only asks for the same over TLS, on the usual ports."""
    return (old.host, new.host, old.port, new.port) == (new.host, old.host, 80, 443)


def _failed(hop: _Hop, why: str, *, is_sent: bool) -> WebFailed:
    return WebFailed(f"{hop.url.host}: {why}", is_sent=is_sent, text_from=hop.sent_by)


def _location(answer: Exchange) -> str:
    """Return where the answer points to; raw UTF-8 in a header is common and meant as such."""
    location = answer.headers.get("location", "").strip(" ")
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return location


# --- search, by Brave or by the owner's own SearXNG -----------------------------------------------

# Both are servers that the owner chose, so their addresses are not checked: SearXNG may well run on
# this machine.  What they return is the word of strangers.

# Seconds for an answer, and for the wait between its parts.
SEARCH_DEADLINE = 20.0
SEARCH_READ_TIMEOUT = 10.0
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
        with trio.fail_after(SEARCH_DEADLINE):
            answer = await client.get(
                url, headers=headers, read_timeout=SEARCH_READ_TIMEOUT, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        raise SearchFailed(f"{name} could not be asked: {error.why}") from error
    except trio.TooSlowError as error:
        raise SearchFailed(f"{name} did not answer within {SEARCH_DEADLINE:g} s") from error
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
        if len(results) == count:
            break
        url = each.url or ""
        if url.startswith(("http://", "https://")) and not any(map(str.isspace, url)):
            snippet = _text(each.description or each.content or "", MAX_SNIPPET)
            key = url.partition("#")[0].rstrip("/")
            results.setdefault(key, WebResult(_text(each.title or "", MAX_TITLE), url, snippet))
    return tuple(results.values())


def _text(html: str, limit: int) -> str:
    words = unescape(_TAG.sub("", html[: 4 * limit])).split()
    return " ".join(words)[:limit]
