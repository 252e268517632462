"""HTTP as the house speaks it: a lean client, and failures without secrets.

With `connecting` the only importer of the HTTP library.  It uses httpx2's engine (httpcore2)
without its client on top, whose environment, cookies and redirects we would switch off, and which
costs CPU time.
"""

import ssl
from collections.abc import Mapping
from functools import cache, lru_cache
from types import TracebackType

import attrs
import httpcore2

from elwood.foundation.net.connecting import Joining, Route
from elwood.foundation.net.outcomes import (
    Answer,
    Interrupted,
    Unreachable,
    reason,
)

__all__ = ["Answer", "Client", "Exchange", "Interrupted", "Unreachable"]

# Seconds to open a connection (protocols/anthropic.md §8), to send a request, and to wait for one
# of the pool's connections; each bounds something that nobody else bounds.
CONNECT_TIMEOUT = 5.0
WRITE_TIMEOUT = 60.0
POOL_TIMEOUT = 60.0
# Idle connections are closed before common servers close them (60 s), so that none dies in use.
KEEPALIVE = 45.0
# Connections of one pool of the engine, whose work per request grows with their number.
SHARD = 50
# Bytes of one answer; more is refused as broken.
MAX_BODY = 32 * 1024 * 1024


class Client:
    """A pool of at most *connections* connections; ends with ``aclose``.

    Redirects are not followed, they are answers like any other.  Time-outs are in seconds; a
    *read_timeout* bounds each wait for more bytes, not the whole.  With a *route* every request
    has a connection of its own, to an address which that gave.
    """

    def __init__(
        self,
        *,
        connections: int = 100,
        route: Route | None = None,
        network: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._connections = connections
        self._is_routed = route is not None
        self._backend = Joining(WRITE_TIMEOUT, route, network or httpcore2.TrioBackend())
        self._shards: dict[bytes, list[_Shard]] = {}

    async def post_json(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        limit: int = MAX_BODY,
    ) -> Answer:
        """Send JSON and return the whole answer.  Raises Unreachable, Interrupted."""
        exchange = self.stream("POST", url, body, headers=headers, read_timeout=read_timeout)
        async with exchange as answer:
            return Answer(answer.status, answer.headers, await answer.read(limit))

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        limit: int = MAX_BODY,
    ) -> Answer:
        """Fetch *url* and return the whole answer.  Raises Unreachable, Interrupted."""
        async with self.stream("GET", url, headers=headers, read_timeout=read_timeout) as answer:
            return Answer(answer.status, answer.headers, await answer.read(limit))

    def stream(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        read_timeout: float,
        content_type: bytes = b"application/json",
    ) -> "Exchange":
        """Begin an exchange: an async context whose value yields the body as it comes."""
        try:
            target, host = _parsed(url)
        except ValueError:
            raise Unreachable("the address is not a valid http or https URL") from None
        lines = [(b"host", host), (b"accept-encoding", b"identity"), (b"user-agent", b"elwood")]
        if body is not None:
            lines.append((b"content-type", content_type))
            lines.append((b"content-length", b"%d" % len(body)))
        if headers:
            lines += [(name.encode(), value.encode()) for name, value in headers.items()]
        request = httpcore2.Request(
            method,
            target,
            headers=lines,
            content=body,
            extensions={
                "timeout": {
                    "connect": CONNECT_TIMEOUT,
                    "write": WRITE_TIMEOUT,
                    "pool": POOL_TIMEOUT,
                    "read": read_timeout,
                }
            },
        )
        return Exchange(self._shard(target.scheme), request)

    async def aclose(self) -> None:
        """Close all connections."""
        for shards in self._shards.values():
            for shard in shards:
                await shard.pool.aclose()

    def _shard(self, scheme: bytes) -> "_Shard":
        """Return the first pool with room: what is not busy uses one pool only."""
        shards = self._shards.setdefault(scheme, [])
        for shard in shards:
            if shard.running < SHARD:
                return shard
        if len(shards) * SHARD < self._connections or not shards:
            room = min(SHARD, self._connections - len(shards) * SHARD)
            # What one burst opened need not stay open.
            keep = 0 if self._is_routed else 5 if shards else 20
            shard = _Shard(_pool(scheme, room, keep, self._backend))
            shards.append(shard)
            return shard
        return min(shards, key=_running)


@attrs.define(eq=False)
class _Shard:
    """A pool, and how many exchanges run in it."""

    pool: httpcore2.AsyncConnectionPool
    running: int = 0


def _running(shard: _Shard) -> int:
    return shard.running


def _pool(
    scheme: bytes, connections: int, keep: int, backend: Joining
) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=_trust() if scheme == b"https" else None,
        max_connections=connections,
        max_keepalive_connections=min(connections, keep),
        keepalive_expiry=KEEPALIVE,
        network_backend=backend,
    )


class Exchange:
    """One request and its answer, of which *status* and *headers* are there on entering.

    Iterate for the bytes of the body, or ``read`` them.  Leaving early closes the connection;
    leaving after the last byte gives it back.
    """

    def __init__(self, shard: _Shard, request: httpcore2.Request) -> None:
        self._shard = shard
        self._request = request
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> "Exchange":
        self._shard.running += 1
        has_begun = False
        try:
            self._response = await self._shard.pool.handle_async_request(self._request)
            has_begun = True
        except _FAILURES as error:
            raise _failure(error) from None  # the foreign message may quote a header
        finally:
            if not has_begun:
                self._shard.running -= 1
        self.status = self._response.status
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in self._response.headers
        }
        self._chunks = self._response.aiter_stream()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._shard.running -= 1
        await self._chunks.aclose()
        await self._response.aclose()

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> bytes:
        """Return more of the body.  Raises Interrupted if it ends before it is whole."""
        try:
            return await self._chunks.__anext__()
        except _FAILURES as error:
            raise _failure(error) from None

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


@lru_cache(maxsize=256)
def _parsed(url: str) -> tuple[httpcore2.URL, bytes]:
    target = httpcore2.URL(url.encode("ascii"))
    if target.scheme not in (b"http", b"https") or not target.host:
        raise ValueError(url)
    host = b"[%s]" % target.host if b":" in target.host else target.host
    return target, host if target.port is None else b"%s:%d" % (host, target.port)


@cache
def _trust() -> ssl.SSLContext:
    return httpcore2.default_ssl_context()


_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)


def _failure(error: Exception) -> Unreachable | Interrupted:
    match error:
        case httpcore2.ConnectTimeout():
            return Unreachable(f"no connection within {CONNECT_TIMEOUT:.0f} s")
        case httpcore2.PoolTimeout():
            return Unreachable("all connections are in use")
        case httpcore2.ConnectError():
            return Unreachable(reason(error))
        case httpcore2.LocalProtocolError() | httpcore2.UnsupportedProtocol():
            return Unreachable("the request is malformed (a line break in a header?)")
        case httpcore2.TimeoutException():
            return Interrupted("no answer for too long", stalled=True)
        case httpcore2.RemoteProtocolError():
            return Interrupted("the connection was closed in the middle, or spoke no HTTP")
        case _:
            return Interrupted("the connection broke")
