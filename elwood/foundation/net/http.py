"""A small HTTP client whose errors contain no secrets.

It uses our own connections (`connections.py`), because the engine of httpx2 costs twice as much
(docs/decisions/0001); httpx2 encodes forms.  It ignores the environment except for certificates,
keeps no cookies and follows no redirects.
"""

import math
import re
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import h11
import msgspec
import trio

from elwood.foundation.net.connections import (
    MAX_IDLE,
    HttpConnection,
    Network,
    Origin,
    Pool,
    socket_of,
)
from elwood.foundation.net.connections import Interrupted as Interrupted
from elwood.foundation.net.connections import Route as Route
from elwood.foundation.net.connections import Unreachable as Unreachable

# Seconds to open a connection.
CONNECT_TIMEOUT = 5.0
# Bytes of one response; a larger one is refused.
MAX_BODY = 32 * 1024 * 1024

# Bytes decompressed per call.
_PIECE = 1 << 16
_PORTS = {"http": 80, "https": 443}
_HEADERS = [(b"accept-encoding", b"identity"), (b"user-agent", b"elwood")]
# Characters not allowed in a file name: the Bot API's server cuts the name at a semicolon even
# within quotes, and knows no escapes (tdnet's HttpReader); the others would mislead people.
_UNSENDABLE = re.compile(
    '[\x00-\x1f\x7f-\x9f";/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'
)
# Maximum characters of a file name; its suffix is kept.
MAX_NAME = 120


class Answer(msgspec.Struct, frozen=True):
    """A complete response; the names in *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """An HTTP client with at most *connections* connections; close it with ``aclose``.

    Timeouts are in seconds; a *read_timeout* bounds each wait for more bytes, not the total.
    With a *route* every request has its own connection, to an address from the route; likewise
    with a *unix_socket*, the only destination then.  All methods raise Unreachable and Interrupted.
    """

    def __init__(
        self,
        *,
        connections: int = 100,
        route: Route | None = None,
        network: Network | None = None,
        unix_socket: Path | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        idle = 0 if route or unix_socket else min(connections, MAX_IDLE)
        self._pool = Pool(network or Network(), connections, idle, route, connect_timeout)
        self._socket = unix_socket

    async def post_json(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        limit: int = MAX_BODY,
    ) -> Answer:
        exchange = self.stream("POST", url, body, headers=headers, read_timeout=read_timeout)
        async with exchange as answer:
            return Answer(answer.status, answer.headers, await answer.read(limit))

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str],
        *files: tuple[str, str, bytes],
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
    ) -> Answer:
        """Send a form with *files* (field, name and content of each); return the response."""
        import httpx2  # 17 ms and 3 MB, and rarely needed

        form = httpx2.Request(
            "POST",
            "http://form",
            data={key: value.encode("utf-8", "replace") for key, value in fields.items()},
            files={
                field: (clean_file_name(name), data, "application/octet-stream")
                for field, name, data in files
            },
        )
        kind = form.headers["content-type"]
        async with self.stream(
            "POST", url, form.read(), headers=headers, content_type=kind, read_timeout=read_timeout
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        limit: int = MAX_BODY,
    ) -> Answer:
        async with self.stream("GET", url, headers=headers, read_timeout=read_timeout) as answer:
            return Answer(answer.status, answer.headers, await answer.read(limit))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        content_type: str = "application/json",
    ) -> AsyncIterator["Exchange"]:
        """Start an exchange and yield it; read its body within the context.

        Leaving early closes the connection; leaving after the last byte returns it to the pool.
        """
        try:
            origin, target, host = _parse_url(url)
        except ValueError:
            raise Unreachable("the address is not a valid http or https URL") from None
        lines = [(b"host", host), *_HEADERS]
        if body is not None:
            lines.append((b"content-type", content_type.encode()))
            lines.append((b"content-length", b"%d" % len(body)))
        if headers:
            lines += [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            request = h11.Request(method=method, target=target, headers=lines)
        except h11.LocalProtocolError:
            raise Unreachable("the request is malformed (a line break in a header?)") from None
        connection = await self._pool.take(origin._replace(unix_socket=self._socket))
        try:
            await connection.send(request, body)
            head = await connection.receive_head(read_timeout)
            yield Exchange(connection, head, read_timeout)
        finally:
            with trio.CancelScope(shield=True):  # it does not wait
                await self._pool.give(connection)

    async def aclose(self) -> None:
        await self._pool.aclose()


class Exchange:
    """A response whose body is not read yet: iterate over its bytes, or ``read`` them.

    The names in *headers* are in lower case.  After an upgrade (101) all data is the body.
    """

    def __init__(
        self,
        connection: HttpConnection,
        head: h11.Response | h11.InformationalResponse,
        read_timeout: float,
    ) -> None:
        self.status = head.status_code
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
        }
        self._connection = connection
        self._read_timeout = read_timeout
        encoding = self.headers.get("content-encoding", "").strip().lower()
        is_packed = encoding not in ("", "identity")
        self._more = _Decompressor(self._receive, encoding).receive if is_packed else self._receive

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> bytes:
        """Return more of the body.  Raises Interrupted if it is incomplete."""
        if data := await self._more():
            return data
        raise StopAsyncIteration

    async def read(self, limit: int = MAX_BODY) -> bytes:
        """Return the rest of the body.  Raises Interrupted, also above *limit* bytes."""
        parts = []
        size = 0
        async for part in self:
            size += len(part)
            if size > limit:
                raise Interrupted(f"the answer is longer than {limit} bytes", too_long=True)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def feed(self, data: bytes) -> None:
        """Send *data*, then the end of the stream, while the response is read (after an upgrade).

        There is no confirmation that the peer has read it.
        """
        stream = self._connection.stream
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            await stream.send_all(data)
            if (sock := socket_of(stream)) is not None:
                sock.shutdown(socket.SHUT_WR)

    async def _receive(self) -> bytes:
        if self.status == 101:
            return await self._connection.receive_raw()
        return await self._connection.receive(self._read_timeout)


class _Decompressor:
    """Decompress an unrequested compression, in pieces, because it may be a decompression bomb."""

    def __init__(self, receive: Callable[[], Awaitable[bytes]], encoding: str) -> None:
        self._receive = receive
        self._is_known = encoding in ("gzip", "x-gzip")
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._left = b""

    async def receive(self) -> bytes:
        """Return more data; empty at its end."""
        try:
            while self._is_known:
                self._left = self._left or await self._receive()
                if not self._left and self._inflate.eof:
                    return b""
                if not self._left:
                    raise Interrupted("the answer is incomplete")
                if self._inflate.eof:
                    break  # data after the end
                data = self._inflate.decompress(self._left, _PIECE)
                self._left = self._inflate.unconsumed_tail or self._inflate.unused_data
                if data:
                    return data
        except zlib.error:
            pass
        why = "the answer has an unexpected compression, or is damaged"
        raise Interrupted(why) from None


# Characters of a date or a number of seconds in a header; a longer value is neither.
MAX_WHEN = 40


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks its client to wait, or None.

    *headers* have names in lower case.  ``retry-after-ms`` is more exact than ``retry-after``,
    which has seconds or a date.  A date is compared with the ``date`` of the same response, so that
    the clock of this machine does not matter; without it the date is ignored.

    >>> retry_after({"retry-after-ms": "1500", "retry-after": "2"}), retry_after({})
    (1.5, None)
    """
    values = {name: value for name, value in headers.items() if len(value) <= MAX_WHEN}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = unit * float(values.get(name, ""))
            if math.isfinite(seconds):
                return max(0.0, seconds)
    until, now = (_parse_date(values.get(name, "")) for name in ("retry-after", "date"))
    return None if until is None or now is None else max(0.0, (until - now).total_seconds())


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def clean_file_name(name: str) -> str:
    """Replace characters that the server would cut off or that mislead people."""
    name = _UNSENDABLE.sub("_", name)[-MAX_NAME:]
    return name if name.strip(". ") else "file"


@lru_cache(maxsize=64)  # a process requests a few URLs many times
def _parse_url(url: str) -> tuple[Origin, bytes, bytes]:
    """Return the server, the target and the host header.  Raises ValueError."""
    parts = urlsplit(url.encode("ascii").decode())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    origin = Origin(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])
    host = host if parts.port is None else f"{host}:{parts.port}"
    return origin, target.encode(), host.encode()


# --- server-sent events ---------------------------------------------------------------------------

# Bytes of one event; a larger one is refused.
MAX_EVENT = 8 * 1024 * 1024


class EventParser:
    """Parse chunks of bytes, cut anywhere, into the data of events (WHATWG HTML §9.2).

    Lines end with LF or CRLF; a lone CR is not a line end, because no server sends it.  Names,
    comments, ids and retry times are ignored.  An event without a final blank line is dropped, and
    an event of more than *limit* bytes ends the stream.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line = bytearray()  # the incomplete line
        self._data: list[bytes] = []
        self._size = 0  # of the data, including line ends

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that *chunk* completes.  Raises Interrupted."""
        events = []
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._line += piece
            line = bytes(self._line.removesuffix(b"\r"))
            self._line.clear()
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._size += len(self._data[-1]) + 1
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        self._line += rest
        if len(self._line) + self._size > self._limit:
            why = f"an event in the stream is longer than {self._limit} bytes"
            raise Interrupted(why, too_long=True)
        return events
