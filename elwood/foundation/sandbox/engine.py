"""A few requests to a container engine, by HTTP/1.1 over its socket; one connection for each.

Docker's API in version 1.41, which podman's service speaks too.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
import trio

T = TypeVar("T")

API = "/v1.41"
# Bytes of a head, and of a body, that an engine may answer with.
_MAX_HEAD = 64 << 10
_MAX_BODY = 8 << 20
# Of a frame of output: one byte of kind, three of nothing, four of length.
_FRAME = 8


class EngineFailed(Exception):
    """The engine cannot be reached, or refuses; *status* is that of its answer, 0 without one."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class _Refusal(msgspec.Struct):
    message: str = ""


class Connection:
    """One request and its answer."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self.status = 0
        self._length: int | None = None
        self._chunked = False

    async def ask(self, method: str, path: str, body: bytes, *, upgrade: bool = False) -> None:
        """Send a request, and read the head of the answer."""
        kind = "Upgrade\r\nUpgrade: tcp" if upgrade else "close"
        head = (
            f"{method} {API}{path} HTTP/1.1\r\nHost: engine\r\nConnection: {kind}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        await self._stream.send_all(head.encode() + body)
        lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        self._chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        if "content-length" in fields:
            self._length = int(fields["content-length"])
        elif self.status in (204, 304):
            self._length = 0

    async def body(self) -> bytes:
        """Read the whole body."""
        if self._chunked:
            return await self._chunks()
        if self._length is not None:
            return await self.exactly(min(self._length, _MAX_BODY))
        while await self._more() and len(self._buffer) < _MAX_BODY:
            pass
        return bytes(self._buffer)

    async def frames(self, take: Callable[[int, bytes], None]) -> None:
        """Hand the pieces of a program's output to *take*, with the number of their stream."""
        while self._buffer or await self._more():
            head = await self.exactly(_FRAME)
            left = int.from_bytes(head[4:], "big")
            while left:
                if not self._buffer and not await self._more():
                    raise EngineFailed("the engine broke off the output")
                piece = bytes(self._buffer[:left])
                del self._buffer[: len(piece)]
                left -= len(piece)
                take(head[0], piece)

    async def feed(self, data: bytes) -> None:
        """Send *data* to the program, and the end of its input."""
        try:
            await self._stream.send_all(data)
            await self._stream.send_eof()
        except trio.BrokenResourceError:
            return  # it has ended and does not want it

    async def exactly(self, count: int) -> bytes:
        """Read *count* bytes."""
        while len(self._buffer) < count:
            if not await self._more():
                raise EngineFailed("the engine broke off its answer")
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self._until(b"\r\n")).split(b";")[0], 16):
            if len(body) + size > _MAX_BODY:
                raise EngineFailed("the engine's answer is too long")
            body += await self.exactly(size)
            await self.exactly(2)
        return bytes(body)

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > _MAX_HEAD or not await self._more():
                raise EngineFailed("the engine broke off its answer")
        data = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return data

    async def _more(self) -> bool:
        data = await self._stream.receive_some(1 << 16)
        self._buffer += data
        return bool(data)


class Engine:
    """The engine behind *socket*."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Open a connection for one request.  Raises EngineFailed, also from within."""
        try:
            async with await trio.open_unix_socket(self._socket) as stream:
                yield Connection(stream)
        except (OSError, trio.BrokenResourceError) as error:
            raise EngineFailed(f"{self._socket}: {error}") from error

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        """Make a request and return the body of the answer.  Raises EngineFailed."""
        data = b"" if body is None else msgspec.json.encode(body)
        async with self.connection() as connection:
            await connection.ask(method, path, data)
            answer = await connection.body()
            refuse(connection.status, answer)
            return answer

    async def get(self, path: str, kind: type[T]) -> T:
        """Ask for *path*, which is a *kind*."""
        return msgspec.json.decode(await self.request("GET", path), type=kind)


def refuse(status: int, answer: bytes) -> None:
    """Raise EngineFailed if *status* is not one of success."""
    if status >= 400:
        try:
            said = msgspec.json.decode(answer, type=_Refusal).message
        except msgspec.DecodeError:
            said = answer.decode(errors="replace")
        raise EngineFailed(f"the engine says {status}: {said.strip()[:500]}", status)


def filters(**given: str) -> str:
    """Write a query that selects by *given*."""
    return "filters=" + quote(msgspec.json.encode({k: [v] for k, v in given.items()}).decode())
