"""How connections are made for the HTTP client, beneath its library."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import httpcore2

# Gives the addresses to try for a host and a port, in order; refuses by raising.
Route = Callable[[str, int], Awaitable[Sequence[str]]]
# Addresses of one host that are tried; each may take a time-out.
MAX_TRIED = 4


class Joining(httpcore2.AsyncNetworkBackend):
    """Connections on which the head and the body of a request leave together.

    With a *route*, what it gives is what is connected to: no name is looked up after it.
    """

    def __init__(
        self, write_timeout: float, route: Route | None, below: httpcore2.AsyncNetworkBackend
    ) -> None:
        self._write_timeout = write_timeout
        self._route = route
        self._below = below

    async def connect_tcp(
        self, host: str, port: int, *rest: Any, **how: Any
    ) -> httpcore2.AsyncNetworkStream:
        tried = [host]
        if self._route is not None:
            tried = list(await self._route(host, port))[:MAX_TRIED]
        for address in tried[:-1]:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._joined(address, port, *rest, **how)
        return await self._joined(tried[-1], port, *rest, **how)

    async def _joined(self, address: str, port: int, *rest: Any, **how: Any) -> "_Joined":
        stream = await self._below.connect_tcp(address, port, *rest, **how)
        return _Joined(stream, self._write_timeout)


class _Joined(httpcore2.AsyncNetworkStream):
    """Keeps what is written until somebody reads: one packet and one system call instead of two."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, write_timeout: float) -> None:
        self._stream = stream
        self._write_timeout = write_timeout
        self._held: list[bytes] = []

    async def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        self._held.append(buffer)

    async def read(self, *most: Any, **how: Any) -> bytes:
        if self._held:
            whole = b"".join(self._held)
            self._held.clear()
            # A server may answer before it has read everything, and hang up: as the engine does.
            with suppress(httpcore2.WriteError):
                await self._stream.write(whole, self._write_timeout)
        return await self._stream.read(*most, **how)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *whom: Any, **how: Any) -> httpcore2.AsyncNetworkStream:
        return _Joined(await self._stream.start_tls(*whom, **how), self._write_timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
