"""An httpx2 client for libraries that need one; its import costs 30 ms and 6 MB."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import httpcore2
import httpx2

from elwood.foundation.net.connections import (
    KEEPALIVE,
    MAX_IDLE,
    MAX_TRIED,
    WRITE_TIMEOUT,
    Route,
    trust,
)
from elwood.foundation.net.http import CONNECT_TIMEOUT, MAX_BODY

LibraryClient: TypeAlias = httpx2.AsyncClient


class _Routed(httpcore2.AsyncNetworkBackend):
    """Connect to the addresses of *route*; there is no DNS lookup after it."""

    def __init__(self, route: Route, below: httpcore2.AsyncNetworkBackend) -> None:
        self._route = route
        self._below = below

    async def connect_tcp(
        self, host: str, port: int, *rest: Any, **how: Any
    ) -> httpcore2.AsyncNetworkStream:
        addresses = list(await self._route(host, port))[:MAX_TRIED]
        for address in addresses[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._below.connect_tcp(address, port, *rest, **how)
        return await self._below.connect_tcp(addresses[-1], port, *rest, **how)


def library_client(
    *,
    route: Route,
    headers: Mapping[str, str],
    read_timeout: float,
    seen: Callable[[int], object],
    auth: httpx2.Auth | None = None,
) -> LibraryClient:
    """Create an httpx2 client with the same routes and trusted certificates as our own.

    *seen* is called with the status of every response.  All bodies except event streams are
    limited to MAX_BODY bytes.
    """

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
            # Do not call the base class, which does not accept a network backend.
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=trust(),
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
