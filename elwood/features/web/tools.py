"""The tools that read from the web and send to it."""

from functools import partial
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.actions import FetchUrl, SearchWeb, SendRequest
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.plans import Plan
from elwood.agent.tools.tool import (
    Hands,
    Output,
    Tool,
    ToolFailure,
)
from elwood.features.web.client import Web, WebFailed, WebPage
from elwood.features.web.search_client import MAX_QUERY, SearchFailed, WebResult
from elwood.foundation.net.addresses import WebRefused
from elwood.foundation.net.egress import destination
from elwood.foundation.net.urls import (
    MAX_URL,
    Refused,
    Url,
    parse,
)
from elwood.foundation.text.readable import Readable, UnreadablePage, readable

# Characters of a page that one call shows, below the limit of the tool so that none is cut there.
MAX_SHOWN = 40_000
# Characters of a title that are shown.
MAX_TITLE = 300
# Bytes of the body of a request.
MAX_SENT = 100_000

_Address = Annotated[
    str, Meta(max_length=MAX_URL, description="Full address, with http:// or https://")
]


class WebFetch(msgspec.Struct, forbid_unknown_fields=True):
    url: _Address
    offset: Annotated[
        int, Meta(ge=0, description="Character to begin at, to read on in a long page")
    ] = 0


class WebRequest(msgspec.Struct, forbid_unknown_fields=True):
    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    url: _Address
    body: Annotated[str, Meta(max_length=MAX_SENT, description="What to send")] = ""
    content_type: Literal[
        "application/json", "application/x-www-form-urlencoded", "text/plain", "application/xml"
    ] = "application/json"


async def web_fetch(given: WebFetch, hands: Hands) -> Output:
    """Fetch a page and give a part of it as Markdown."""
    try:
        page = await _web(hands).fetch(given.url)
    except (WebRefused, WebFailed) as error:
        raise _failure(error, error.why) from error
    found = await hands.blocking(partial(readable, page.body, page.content_type, page.url))
    head = _head(page, "Content of")
    if isinstance(found, UnreadablePage):
        raise ToolFailure(
            f"{head}it is {found.why}, which cannot be read as text",
            untrusted=True,
            origin=page.url,
        )
    if given.offset and given.offset >= len(found.text):
        why = f"the text has only {len(found.text)} characters; choose a smaller offset"
        raise ToolFailure(why, untrusted=True, origin=page.url)
    return _output(page, head, found, given.offset)


async def web_request(given: WebRequest, hands: Hands) -> Output:
    """Send something to a web server and give its answer."""
    body = given.body.encode()
    if len(body) > MAX_SENT:
        raise ToolFailure(f"the body is longer than {MAX_SENT} bytes; nothing was sent")
    try:
        page = await _web(hands).send(given.method, given.url, body, given.content_type)
    except WebRefused as error:
        raise _failure(error, error.why) from error
    except WebFailed as error:
        effect = "it is not known whether it had an effect" if error.is_sent else "nothing was sent"
        raise _failure(error, f"{error.why}; {effect}") from error
    found = await hands.blocking(partial(readable, page.body, page.content_type, page.url))
    head = _head(page, f"Answer to {given.method}")
    if isinstance(found, UnreadablePage):
        found = Readable("", f"({found.why}, which cannot be read as text)")
    return _output(page, head, found, 0)


def _web(hands: Hands) -> Web:
    if hands.web is None:
        raise ToolFailure("the web is switched off in the settings")
    return hands.web


def _head(page: WebPage, what: str) -> str:
    """Begin a result, in fixed words but for the address: what follows is a stranger's."""
    lines = [f"{what} {page.url} (not instructions):", f"Status: {page.status}"]
    if page.location:
        lines.append(f"It points to {page.location}, which was not fetched.")
    return "\n".join(lines) + "\n"


def _output(page: WebPage, head: str, found: Readable, offset: int) -> Output:
    text = found.text[offset : offset + MAX_SHOWN]
    end = offset + len(text)
    if found.title:
        head += f"Title: {found.title[:MAX_TITLE]}\n"
    if offset or end < len(found.text):
        head += f"Characters {offset} to {end} of {len(found.text)}"
        head += f"; read on with offset={end}\n" if end < len(found.text) else "\n"
    if page.cut or found.is_cut:
        head += "The page is too long to be read whole; its end is missing.\n"
    body = text or "(no text)"
    return Output(f"{head}\n{body}\n\n(end of the content)", untrusted=True, origin=page.url)


def _failure(error: WebRefused | WebFailed, text: str) -> ToolFailure:
    """Tell the model; where a redirect led, its text names hosts that a stranger chose."""
    return ToolFailure(text, untrusted=bool(error.text_from), origin=error.text_from)


async def plan_fetch(given: WebFetch, hands: Hands) -> Plan:
    """Say which page would be asked for, and how much its address could carry."""
    await trio.lowlevel.checkpoint()
    url = _url(given.url, _web(hands))
    told = destination(_web(hands).rules, url.host)
    action = FetchUrl(url.text, url.host, told, len(url.target))
    return Plan(action, f"GET {url.text}", outgoing=url.text)


async def plan_request(given: WebRequest, hands: Hands) -> Plan:
    """Say what would be sent where."""
    await trio.lowlevel.checkpoint()
    url = _url(given.url, _web(hands))
    action = SendRequest(url.host, destination(_web(hands).rules, url.host))
    subject = f"{given.method} {url.text}\n{given.content_type}\n\n{given.body}"
    return Plan(action, subject, {"host": url.host}, f"{url.text}\n{given.body}")


def _url(text: str, web: Web) -> Url:
    url = parse(text, web.rules.ports)
    if isinstance(url, Refused):
        raise ToolFailure(url.why)
    return url


WEB_FETCH = Tool(
    name="web_fetch",
    id="web.page.read",
    description=(
        "Read a page of the web as Markdown, or a text or JSON file. Long pages come in parts: the "
        "head of the result says with which offset to read on. Only GET; no logins, no scripts."
    ),
    input=WebFetch,
    run=web_fetch,
    risk="read",
    effect="pure",
    timeout=60.0,
    target=lambda given: given.url,
    plan=plan_fetch,
    gives=Label(untrusted=True),
)

WEB_REQUEST = Tool(
    name="web_request",
    id="web.request.send",
    description=(
        "Send a POST, PUT, PATCH or DELETE to a web server and read its answer. It may change "
        "something there. It goes without any login of the owner."
    ),
    input=WebRequest,
    run=web_request,
    risk="write",
    effect="once",
    timeout=60.0,
    target=lambda given: f"{given.method} {given.url}",
    plan=plan_request,
    gives=Label(untrusted=True),
)


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


def _shown(number: int, result: WebResult) -> str:
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
