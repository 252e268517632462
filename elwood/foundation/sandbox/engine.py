"""A few requests to a container engine over its Unix socket; one connection for each.

Docker's API in version 1.41, which podman's service speaks too.
"""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
import trio

from elwood.foundation.net.http import Client, Exchange, Interrupted, Unreachable

T = TypeVar("T")

_API = "http://engine/v1.41"
# Bytes of a body that an engine may answer with.
_MAX_BODY = 8 << 20
# Of a frame of output: one byte of kind, three of nothing, four of length.
_FRAME = 8
_UPGRADE = {"connection": "Upgrade", "upgrade": "tcp"}


class EngineFailed(Exception):
    """The engine cannot be reached, or refuses; *status* is that of its answer, 0 without one."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class _Refusal(msgspec.Struct):
    message: str = ""


class Engine:
    """The engine behind *socket*.  Every method raises EngineFailed."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client = Client(unix_socket=socket)

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        """Make a request and return the body of the answer."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with self._exchange(method, path, data) as answer:
            return await answer.read(_MAX_BODY)

    async def get(self, path: str, kind: type[T]) -> T:
        """Ask for *path*, which is a *kind*."""
        return msgspec.json.decode(await self.request("GET", path), type=kind)

    async def attach(
        self, path: str, body: object, stdin: bytes, take: Callable[[int, bytes], None]
    ) -> None:
        """Start what *path* names, give it *stdin*, and wait for its end.

        The pieces of its output are handed to *take*, with the number of their stream.
        """
        data = msgspec.json.encode(body)
        is_whole = False
        async with self._exchange("POST", path, data, _UPGRADE) as answer:
            async with trio.open_nursery() as feeding:
                if stdin:
                    feeding.start_soon(answer.feed, stdin)
                with suppress(Interrupted):  # as bare as the others, and not out of a nursery
                    is_whole = await _frames(answer, take)
                feeding.cancel_scope.cancel()
            if not is_whole:
                raise EngineFailed("the engine broke off the output")

    @asynccontextmanager
    async def _exchange(
        self, method: str, path: str, data: bytes, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Exchange]:
        try:
            async with self._client.stream(
                method, _API + path, data, headers=headers, read_timeout=math.inf
            ) as answer:
                if answer.status >= 400:
                    said = _said(await answer.read(_MAX_BODY))
                    raise EngineFailed(f"the engine says {answer.status}: {said}", answer.status)
                yield answer
        except (Unreachable, Interrupted) as error:
            raise EngineFailed(f"{self._socket}: {error.why}") from error


async def _frames(answer: Exchange, take: Callable[[int, bytes], None]) -> bool:
    """Take the output apart; tell whether it ended at the end of a frame."""
    buffer = bytearray()
    kind = left = 0
    async for piece in answer:
        buffer += piece
        while buffer and (left or len(buffer) >= _FRAME):
            if not left:
                kind, left = buffer[0], int.from_bytes(buffer[4:_FRAME], "big")
                del buffer[:_FRAME]
            part = bytes(buffer[:left])
            if part:
                take(kind, part)
            del buffer[: len(part)]
            left -= len(part)
    return not (left or buffer)


def _said(answer: bytes) -> str:
    try:
        said = msgspec.json.decode(answer, type=_Refusal).message
    except msgspec.DecodeError:
        said = answer.decode(errors="replace")
    return said.strip()[:500]


def filters(**given: str) -> str:
    """Write a query that selects by *given*."""
    return "filters=" + quote(msgspec.json.encode({k: [v] for k, v in given.items()}).decode())
