"""HTTP as Elwood speaks it: a lean client, and failures without secrets.

The only importer of the HTTP library.  It uses httpx2's engine (httpcore2) without its client on
top, which would add a tenth to what a turn costs (docs/decisions/0001); forms are httpx2's.
Nothing of the environment is used, no cookie is kept and no redirect followed.
"""

import math
import os
import re
import socket
import ssl
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import httpcore2
import msgspec
import trio

if TYPE_CHECKING:
    import httpx2

    LibraryClient: TypeAlias = httpx2.AsyncClient

# Gives the addresses to try for a host and a port, in order; refuses by raising.
Route = Callable[[str, int], Awaitable[Sequence[str]]]
# Addresses of one host that are tried; each may take a time-out.
MAX_TRIED = 4

# Seconds to open a connection, to send a request, and to wait for one
# of the pool's connections; each bounds something that nobody else bounds.
CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 60.0
POOL_TIMEOUT = 60.0
# Idle connections are closed before common servers close them (60 s), so that none dies in use.
KEEPALIVE = 45.0
MAX_IDLE = 20
# Seconds of silence within which no server closes a connection.
FRESH = 0.5
# Seconds between two looks at it; word of its end is about as long on its way.
LOOKED = 0.05
# Seconds of silence after which the system asks whether the other end is there, between its
# questions, and how many: a long poll over a way that is gone ends with it, not with its time-out.
_PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}
_KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in _PROBES.items()
    if hasattr(socket, name)
]
# Bytes of one answer; more is refused as broken.
MAX_BODY = 32 * 1024 * 1024

# Bytes that are read at once from a connection that speaks no HTTP any more.
_PIECE = 1 << 16
_HEADERS = [(b"accept-encoding", b"identity"), (b"user-agent", b"elwood")]
# What cannot stand in the name of a file: the Bot API's server cuts the name at a semicolon also
# between quotes, and knows no escapes (tdnet's HttpReader); the rest would mislead people.
_UNSENDABLE = re.compile(
    '[\x00-\x1f\x7f-\x9f";/\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'
)
# Characters of a file's name that are sent; its ending is kept.
MAX_NAME = 120


class Unreachable(Exception):
    """No connection could be made: the request was surely not sent.

    *why* is in words for the operator and holds neither address nor key.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Interrupted(Exception):
    """The request went out, at least in part, and no whole answer came: it may have acted.

    *stalled* says that nothing came for too long; otherwise the connection broke.
    """

    def __init__(self, why: str, *, stalled: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.stalled = stalled


class Answer(msgspec.Struct, frozen=True):
    """A whole answer; the names in *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """A pool of at most *connections* connections; ends with ``aclose``.

    Time-outs are in seconds; a *read_timeout* bounds each wait for more bytes, not the whole.
    With a *route* every request has a connection of its own, to an address which that gave; with
    a *unix_socket* too, but they all go there.  All methods raise Unreachable and Interrupted.
    """

    def __init__(
        self,
        *,
        connections: int = 100,
        route: Route | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
        unix_socket: Path | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._connections = connections
        self._idle = 0 if route or unix_socket else min(connections, MAX_IDLE)
        backend = _Frugal(network or httpcore2.TrioBackend())
        self._backend = backend if route is None else _Routed(route, backend)
        self._socket = None if unix_socket is None else str(unix_socket)
        self._pools: dict[bytes, httpcore2.AsyncConnectionPool] = {}

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
        """Send a form with *files* (field, name and content of each); return the whole answer."""
        import httpx2  # 17 ms and 3 MB, and most never send a file

        form = httpx2.Request(
            "POST",
            "http://form",
            data={key: value.encode("utf-8", "replace") for key, value in fields.items()},
            files={
                field: (sendable(name), data, "application/octet-stream")
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
        """Begin an exchange, whose body is read within the context.

        Leaving early closes the connection; leaving after the last byte gives it back.
        """
        try:
            target, host = _parsed(url)
        except ValueError:
            raise Unreachable("the address is not a valid http or https URL") from None
        lines = [(b"host", host), *_HEADERS]
        if body is not None:
            lines.append((b"content-type", content_type.encode()))
            lines.append((b"content-length", b"%d" % len(body)))
        if headers:
            lines += [(name.encode(), value.encode()) for name, value in headers.items()]
        limits = {
            "connect": self._connect_timeout,
            "write": WRITE_TIMEOUT,
            "pool": POOL_TIMEOUT,
            "read": read_timeout,
        }
        request = httpcore2.Request(
            method, target, headers=lines, content=body, extensions={"timeout": limits}
        )
        with _failures():
            response = await self._pool(target.scheme).handle_async_request(request)
        exchange = Exchange(response)
        try:
            yield exchange
        finally:
            await exchange.aclose()

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, scheme: bytes) -> httpcore2.AsyncConnectionPool:
        if scheme not in self._pools:
            self._pools[scheme] = httpcore2.AsyncConnectionPool(
                ssl_context=_trust() if scheme == b"https" else None,  # 5 MB, and rarely both
                max_connections=self._connections,
                max_keepalive_connections=self._idle,
                keepalive_expiry=KEEPALIVE,
                network_backend=self._backend,
                uds=self._socket,
                socket_options=None if self._socket else _KEEPALIVE,
            )
        return self._pools[scheme]


class Exchange:
    """An answer whose body is still to come: iterate for its bytes, or ``read`` them.

    The names in *headers* are in lower case.  Behind an upgrade (101) all that comes is the body.
    """

    def __init__(self, response: httpcore2.Response) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        self._response = response
        self._chunks = response.aiter_stream() if self.status != 101 else self._upgraded()
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            self._chunks = _unpacked(self._chunks, encoding)

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> bytes:
        """Return more of the body.  Raises Interrupted if it ends before it is whole."""
        with _failures():
            return await self._chunks.__anext__()

    async def read(self, limit: int = MAX_BODY) -> bytes:
        """Return all (that is left) of the body.  Raises Interrupted, also above *limit* bytes."""
        parts = []
        size = 0
        async for part in self:
            size += len(part)
            if size > limit:
                raise Interrupted(f"the answer is longer than {limit} bytes")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def feed(self, data: bytes) -> None:
        """Send *data* on the connection beside the answer, and the end of it (after an upgrade).

        Whether the other side has read it, nobody says.
        """
        stream = self._response.extensions["network_stream"]
        with suppress(httpcore2.WriteError, OSError):
            await stream.write(data)
            stream.get_extra_info("socket").shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        await self._chunks.aclose()
        await self._response.aclose()

    async def _upgraded(self) -> AsyncGenerator[bytes, None]:
        stream = self._response.extensions["network_stream"]
        while piece := await stream.read(_PIECE):
            yield piece


async def _unpacked(
    chunks: AsyncGenerator[bytes, None], encoding: str
) -> AsyncGenerator[bytes, None]:
    """Unpack what was packed though we did not ask, a piece at a time: it may be a bomb."""
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        if encoding not in ("gzip", "x-gzip"):
            raise zlib.error
        async with aclosing(chunks):
            async for chunk in chunks:
                while chunk and not inflate.eof:
                    yield inflate.decompress(chunk, _PIECE)
                    chunk = inflate.unconsumed_tail
                if chunk or inflate.unused_data:
                    raise zlib.error
    except zlib.error:
        why = "the answer is packed in a way that was not asked for, or damaged"
        raise Interrupted(why) from None
    if not inflate.eof:
        raise Interrupted("the answer ended before it was whole")


# Characters of a date in a header, or of a number of seconds; more is neither.
MAX_WHEN = 40


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks its client to wait; None if it does not say.

    *headers* have names in lower case.  ``retry-after-ms`` is more exact than ``retry-after``,
    which has seconds or a date.  A date is compared with the ``date`` of the same response, so that
    the clock of this machine does not matter; without that it counts as none.

    >>> retry_after({"retry-after-ms": "1500", "retry-after": "2"}), retry_after({})
    (1.5, None)
    """
    given = {name: value for name, value in headers.items() if len(value) <= MAX_WHEN}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = unit * float(given.get(name, ""))
            if math.isfinite(seconds):
                return max(0.0, seconds)
    until, now = (_parse_date(given.get(name, "")) for name in ("retry-after", "date"))
    return None if until is None or now is None else max(0.0, (until - now).total_seconds())


def _parse_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def sendable(name: str) -> str:
    """Write the name of a file so that it arrives whole and means what it shows."""
    name = _UNSENDABLE.sub("_", name)[-MAX_NAME:]
    return name if name.strip(". ") else "file"


class _Routed(httpcore2.AsyncNetworkBackend):
    """Connects to where the *route* says: no name is looked up after it."""

    def __init__(self, route: Route, below: httpcore2.AsyncNetworkBackend) -> None:
        self._route = route
        self._below = below

    async def connect_tcp(
        self, host: str, port: int, *rest: Any, **how: Any
    ) -> httpcore2.AsyncNetworkStream:
        tried = list(await self._route(host, port))[:MAX_TRIED]
        for address in tried[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._below.connect_tcp(address, port, *rest, **how)
        return await self._below.connect_tcp(tried[-1], port, *rest, **how)


class _Frugal(httpcore2.AsyncNetworkBackend):
    """Makes connections that cost fewer calls of the system: each lets other threads in."""

    def __init__(self, below: httpcore2.AsyncNetworkBackend) -> None:
        self._below = below

    async def connect_tcp(self, *where: Any, **how: Any) -> httpcore2.AsyncNetworkStream:
        return _FrugalStream(await self._below.connect_tcp(*where, **how))

    async def connect_unix_socket(self, *where: Any, **how: Any) -> httpcore2.AsyncNetworkStream:
        return _FrugalStream(await self._below.connect_unix_socket(*where, **how))


class _FrugalStream(httpcore2.AsyncNetworkStream):
    """Sends the head of a request with its body, and is looked at no more often than need be.

    Whether a server has closed an idle connection the pool asks of all of them at each request.
    """

    def __init__(self, below: httpcore2.AsyncNetworkStream) -> None:
        self._below = below
        self._head = b""
        self._open_until = trio.current_time() + FRESH

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head:
            await self._send(b"", timeout)
        data = await self._below.read(max_bytes, timeout)
        self._open_until = trio.current_time() + FRESH
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not self._head and buffer.endswith(b"\r\n\r\n"):
            self._head = buffer  # nothing is lost if it is no head: who waits for an answer reads
        else:
            await self._send(buffer, timeout)

    async def _send(self, buffer: bytes, timeout: float | None) -> None:
        head, self._head = self._head, b""
        await self._below.write(head + buffer, timeout)

    async def start_tls(self, *how: Any, **more: Any) -> httpcore2.AsyncNetworkStream:
        return _FrugalStream(await self._below.start_tls(*how, **more))

    async def aclose(self) -> None:
        await self._below.aclose()

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._below.get_extra_info(info)
        now = trio.current_time()
        if now < self._open_until:
            return False
        if self._below.get_extra_info(info):
            return True
        self._open_until = now + LOOKED
        return False


def library_client(
    *,
    route: Route,
    headers: Mapping[str, str],
    read_timeout: float,
    seen: Callable[[int], object],
    auth: "httpx2.Auth | None" = None,
) -> "LibraryClient":
    """Make a client of httpx2 for a library that speaks by one: connects and trusts as ours do.

    *seen* is told the status of every answer.  One that is no stream of events is bounded.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MAX_BODY
            async for part in self._stream:
                left -= len(part)
                if left < 0:
                    raise httpx2.ReadError(f"the answer is longer than {MAX_BODY} bytes")
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Routed(httpx2.AsyncHTTPTransport):
        def __init__(self) -> None:
            # Instead of calling that of the base class, which knows of no network of ours.
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=_trust(),
                max_connections=MAX_IDLE,
                keepalive_expiry=KEEPALIVE,
                network_backend=_Routed(route, httpcore2.TrioBackend()),
            )

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            seen(response.status_code)
            kind = response.headers.get("content-type", "")
            if not kind.lower().startswith("text/event-stream"):
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = Bounded(response.stream)
            return response

    return httpx2.AsyncClient(
        headers=dict(headers),
        auth=auth,
        timeout=httpx2.Timeout(WRITE_TIMEOUT, connect=CONNECT_TIMEOUT, read=read_timeout),
        transport=Routed(),
        trust_env=False,
        follow_redirects=False,
    )


def _parsed(url: str) -> tuple[httpcore2.URL, bytes]:
    target = httpcore2.URL(url.encode("ascii"))
    if target.scheme not in (b"http", b"https") or not target.host:
        raise ValueError(url)
    host = b"[%s]" % target.host if b":" in target.host else target.host
    return target, host if target.port is None else b"%s:%d" % (host, target.port)


@cache
def _trust() -> ssl.SSLContext:
    return httpcore2.default_ssl_context()


@contextmanager
def _failures() -> Iterator[None]:
    """Turn the failures of the engine into ours; theirs may quote what was sent."""
    try:
        yield
    except httpcore2.ConnectTimeout:
        raise Unreachable("no connection in time") from None
    except httpcore2.PoolTimeout:
        raise Unreachable("all connections are in use") from None
    except httpcore2.ConnectError as error:
        raise Unreachable(_reason(error)) from None
    except UnicodeError:  # of the codec that looks names up
        raise Unreachable("the address has a part that is empty or too long") from None
    except (httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol):
        raise Unreachable("the request is malformed (a line break in a header?)") from None
    except httpcore2.TimeoutException:
        raise Interrupted("no answer for too long", stalled=True) from None
    except httpcore2.RemoteProtocolError:
        why = "the connection was closed in the middle, or spoke no HTTP"
        raise Interrupted(why) from None
    except httpcore2.NetworkError:
        raise Interrupted("the connection broke") from None


def _reason(error: BaseException) -> str:
    """Say why a connection failed, from the error at the root: in the system's own words."""
    root = error
    while (deeper := root.__cause__ or root.__context__) is not None:
        root = deeper
    if isinstance(root, BaseExceptionGroup):
        root = root.exceptions[0]
    if isinstance(root, ssl.SSLError):
        return f"TLS failed: {getattr(root, 'verify_message', '') or root.reason}"
    if isinstance(root, OSError) and root.errno is not None:
        # Trio puts the address into strerror; a resolver's codes are negative.
        words = os.strerror(root.errno) if root.errno > 0 else root.strerror
        return f"cannot connect: {words}"
    return "cannot connect"


# --- server-sent events ---------------------------------------------------------------------------

# Bytes of one event; a larger one is refused as broken.
MAX_EVENT = 8 * 1024 * 1024


class EventParser:
    """Turns chunks of bytes, cut anywhere, into the data of events (WHATWG HTML §9.2).

    Lines end with LF or CRLF; a lone CR is none, as nobody sends it.  Names, comments, ids and
    retry times are left out.  An event that is not closed by a blank line never appears, and one of
    more than *limit* bytes ends it all.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line = bytearray()  # one that has not ended
        self._data: list[bytes] = []
        self._size = 0  # of the data, with a line end for each

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
            raise Interrupted(f"an event of the stream is longer than {self._limit} bytes")
        return events
