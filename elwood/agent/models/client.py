"""What the clients of all model APIs share: one streamed call, and what its failures mean."""

import json
import logging
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import trio

from elwood.agent.models.provider import HistoryProblem, ModelFailure
from elwood.agent.models.routing import FailureKind
from elwood.foundation.net.http import Client, Exchange, Interrupted, Unreachable
from elwood.foundation.net.sse import EventParser
from elwood.foundation.secrets.redaction import Secret

log = logging.getLogger("elwood.models")

# Bytes of an error body that are read, and characters of it that are told.
MAX_ERROR = 256 * 1024
MAX_DETAIL = 400
# Seconds given to the end of the body after the last event, so that the connection can be kept.
DRAIN = 1.0

_STATUS: dict[int, FailureKind] = {
    401: "bad_key",
    402: "spend_limit",
    403: "forbidden",
    404: "no_model",
    408: "conflict",
    409: "conflict",
    413: "too_long",
    429: "rate_limit",
    498: "overloaded",
    529: "overloaded",
}


class ApiEndpoint:
    """The way to one service: its client, address and key.

    *name* is the provider's in the configuration.  *stall* is in seconds, *now* the Unix clock.
    """

    def __init__(
        self,
        name: str,
        client: Client,
        base_url: str,
        *,
        key: Secret | None,
        stall: float,
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self.client = client
        self.base_url = base_url.rstrip("/")
        self.stall = stall
        self._key = key
        self._now = now
        self._seen: set[str] = set()

    @property
    def key(self) -> str:
        """The key in clear, for the header it belongs into; empty if the service needs none."""
        return self._key.reveal() if self._key is not None else ""

    def failure(
        self,
        kind: FailureKind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        problem: HistoryProblem = "other",
    ) -> ModelFailure:
        """Make the exception; *detail* is cut, and the key taken out of it."""
        if self.key:
            detail = detail.replace(self.key, "***")
        detail = " ".join(detail.split())[:MAX_DETAIL]
        return ModelFailure(
            self.name,
            kind,
            detail,
            retry_after=retry_after(headers, self._now()) if headers else None,
            should_retry=should_retry(headers) if headers else None,
            problem=problem,
        )

    def unknown(self, what: str) -> None:
        """Log, once each, that the service sent something we do not know (LLM-13)."""
        if what not in self._seen and len(self._seen) < 100:
            self._seen.add(what)
            log.info("unknown part of a response", extra={"provider": self.name, "part": what})

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Turn what the network did into ModelFailure."""
        try:
            yield
        except Unreachable as error:
            raise self.failure("offline", error.why) from error
        except Interrupted as error:
            raise self.failure("stalled" if error.stalled else "cut", error.why) from error

    @asynccontextmanager
    async def events(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator["Events"]:
        """Post *body* and give the events of the answer; raises Refusal if there are none."""
        with self.mapped():
            async with self.client.stream(
                "POST", self.base_url + path, body, headers=headers, read_timeout=self.stall
            ) as answer:
                if answer.status != 200:
                    raise Refusal(answer.status, answer.headers, await answer.read(MAX_ERROR))
                if "text/event-stream" not in answer.headers.get("content-type", ""):
                    raise Refusal(200, answer.headers, await answer.read())
                events = Events(answer)
                yield events
                await events.drain()

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        """Fetch a document; raises Refusal."""
        with self.mapped():
            answer = await self.client.get(
                self.base_url + path, headers=headers, read_timeout=self.stall
            )
        if answer.status != 200:
            raise Refusal(answer.status, answer.headers, answer.body[:MAX_ERROR])
        return answer.body


class Refusal(Exception):
    """An answer that is no stream of events; the codec knows what it means."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class Events:
    """The data of the events of one answer, in the portions in which they come off the network."""

    def __init__(self, answer: Exchange) -> None:
        self._answer = answer
        self._parser = EventParser()

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> list[bytes]:
        return self._parser.feed(await self._answer.__anext__())

    async def drain(self) -> None:
        """Read to the end of the body; whatever goes wrong here, the response was whole."""
        try:
            with trio.move_on_after(DRAIN):
                async for _ in self._answer:
                    pass
        except Interrupted:
            pass


def kind_of(status: int) -> FailureKind:
    """Return what an HTTP status means by itself."""
    return _STATUS.get(status, "server" if status >= 500 else "rejected")


def is_json(body: bytes) -> bool:
    """Tell whether *body* looks like a JSON object; a proxy's page does not (LLM-40)."""
    return body.lstrip()[:1] == b"{"


def decode(data: bytes) -> Any:
    """Decode JSON; lone surrogates come out as they are, to be repaired in the whole text.

    Raises ValueError.
    """
    try:
        return msgspec.json.decode(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except msgspec.DecodeError:
        return json.loads(data)  # the standard library lets "\ud83d" pass


def arguments_of(raw: str) -> tuple[str, msgspec.Raw]:
    """Return a call's arguments as the gate sees them, and as a history may hold them.

    Text that is no JSON object would make every later request fail: it goes back wrapped, the way
    Anthropic asks for.

    >>> arguments_of("")[0]
    '{}'
    >>> bytes(arguments_of('{"a": ')[1])
    b'{"INVALID_JSON":"{\\\\"a\\\\": "}'
    """
    raw = raw if raw.strip() else "{}"
    try:
        if isinstance(msgspec.json.decode(raw), dict):
            return raw, msgspec.Raw(raw.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    raw = raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return raw, msgspec.Raw(msgspec.json.encode({"INVALID_JSON": raw}))


def tool_name(name: str) -> str:
    """Return *name* as every API accepts it (LLM-35); a good one comes back unchanged.

    >>> tool_name("list_files"), tool_name("functions.get weather")
    ('list_files', 'functions_get_weather')
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def tool_id(identifier: str) -> str:
    """Return the id of a call as every API accepts it; a good one comes back unchanged.

    >>> tool_id("toolu_01"), tool_id("functions.read:0")
    ('toolu_01', 'functions_2eread_3a0')
    """
    return re.sub(r"[^a-zA-Z0-9_-]", lambda match: f"_{ord(match[0]):x}", identifier)[:128]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds the server wants us to wait, or None.

    ``retry-after-ms`` wins over ``retry-after``: seconds, also fractions, or an HTTP date, which
    is compared with the server's own ``date`` if there is one and with *now* (Unix) otherwise.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _seconds(text)
    if seconds is None and (at := _date(text)) is not None:
        there = _date(headers.get("date", ""))
        seconds = at - (now if there is None else there)
    return None if seconds is None else max(0.0, seconds)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the server's own word on retrying, if it gave one (LLM-07)."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").lower())


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(text: str) -> float | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # rare, and not cheap to import

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
