"""An HTTP/1.1 server for fakes, with keep-alive, that can misbehave to the byte."""

import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from elwood.foundation.net.egress import Resolve

# Real seconds without an event after which a `MockClock` may jump to the next deadline while both
# ends of a loopback socket are in this process: a busy machine must not look like passing time.
JUMP = 0.001

CHUNKED = b"transfer-encoding: chunked\r\n"


@attrs.frozen
class Request:
    """A client's request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = attrs.field(repr=False)

    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    def form(self) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
        """Parse a form as the Bot API's server does: its fields, and its files by field."""
        kind = self.headers.get("content-type", "")
        boundary = b"\r\n--" + kind.partition("boundary=")[2].encode()
        first, *parts = (b"\r\n" + self.body).split(boundary)
        assert len(boundary) > 4, "the content type names no boundary"
        assert not first, "something stands before the first part"
        assert parts.pop() == b"--\r\n", "the form has no end"
        fields, files = {}, {}
        for part in parts:
            head, _, value = part.partition(b"\r\n\r\n")
            said = {}
            for line in head.decode().split("\r\n"):
                name, _, rest = line.partition(":")
                said[name.strip().lower()] = rest.strip()
            about = {}
            # It splits at each semicolon, also between quotes, and has no escapes.
            for word in said["content-disposition"].split(";")[1:]:
                key, _, quoted = word.strip().partition("=")
                about[key] = quoted.removeprefix('"').removesuffix('"')
            if "filename" in about:
                files[about["name"]] = (about["filename"], value)
            else:
                fields[about["name"]] = value.decode()
        return fields, files


@attrs.frozen(kw_only=True)
class Reply:
    """A response, and its faults.

    *body* is sent in *pieces* (one write each), *delay* seconds after the request and with *pause*
    between pieces. After *end_at* bytes of the body *end* happens: the connection is closed, reset,
    or hangs forever. ``end_at=-1`` is before the status line. *gone* is set when the client has
    left a hanging connection.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    pieces: tuple[bytes, ...] = ()
    delay: float = 0.0
    pause: float = 0.0
    end: str = ""  # "close", "reset", "stall"
    end_at: int = 0
    is_chunked: bool = True
    gone: trio.Event = attrs.field(factory=trio.Event)


# No status line either.
LOST = Reply(end="close", end_at=-1)


def whole(status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Answer with *body* in one piece, after its length."""
    headers = {"content-type": kind, **(headers or {})}
    return Reply(status=status, headers=headers, pieces=(body,), is_chunked=False)


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return whole(status, json.dumps(value).encode(), "application/json", headers)


Answer = Callable[[Request], Awaitable[Reply]]


async def read_request(stream: trio.abc.Stream, buffer: bytearray) -> Request | None:
    """Read one request from the connection; return None if the client has gone."""
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        data = await stream.receive_some(65536)
        if not data:
            return None
        buffer += data
    head = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    method, path, _ = head[0].split(" ", 2)
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    while len(buffer) < length:
        data = await stream.receive_some(65536)
        if not data:
            return None
        buffer += data
    body = bytes(buffer[:length])
    del buffer[:length]
    return Request(method, path, headers, body)


async def write_reply(stream: trio.abc.Stream, reply: Reply) -> bool:
    """Send *reply*; return whether the connection can be used again."""
    if reply.delay:
        await trio.sleep(reply.delay)
    if reply.end and reply.end_at < 0:
        return await _misbehave(stream, reply)
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in reply.headers.items())
    pieces = reply.pieces
    if reply.end:
        whole = b"".join(pieces)[: reply.end_at]
        pieces = (whole,) if whole else ()
    head = b"HTTP/1.1 %d X\r\n%s" % (reply.status, lines)
    if not reply.is_chunked:
        total = sum(map(len, reply.pieces))
        head += b"content-length: %d\r\n\r\n" % total
        sent = head + b"".join(pieces)
        await stream.send_all(sent)
        return await _misbehave(stream, reply) if reply.end else True
    head += CHUNKED + b"\r\n"
    for number, piece in enumerate(pieces):
        if number and reply.pause:
            await stream.send_all(head)
            head = b""
            await trio.sleep(reply.pause)
        head += b"%x\r\n%s\r\n" % (len(piece), piece)
    if reply.end:
        await stream.send_all(head)
        return await _misbehave(stream, reply)
    await stream.send_all(head + b"0\r\n\r\n")
    return True


async def _misbehave(stream: trio.abc.Stream, reply: Reply) -> bool:
    if reply.end == "stall":
        await stream.receive_some(1)  # until the client gives up
        reply.gone.set()
    elif reply.end == "reset":
        assert isinstance(stream, trio.SocketStream)
        linger = struct.pack("ii", 1, 0)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        stream.socket.close()
    return False


def connection(answer: Answer) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    """Return a handler that serves the requests of one connection until it closes."""

    async def serve(stream: trio.abc.Stream) -> None:
        buffer = bytearray()
        try:
            async with stream:
                while True:
                    request = await read_request(stream, buffer)
                    if request is None or not await write_reply(stream, await answer(request)):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client or this server closed it

    return serve


async def listen(port: int = 0) -> trio.SocketListener:
    """Open a listener on the loopback interface."""
    return (await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024))[0]


def port_of(listener: trio.SocketListener) -> int:
    return int(listener.socket.getsockname()[1])


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Serve on a free port during the block; yield the base URL."""
    listener = await listen()
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, connection(answer), [listener])
        yield f"http://127.0.0.1:{port_of(listener)}"
        nursery.cancel_scope.cancel()


def resolving(*addresses: str) -> Resolve:
    """Return a resolver that has these *addresses* for every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return addresses

    return resolve


@asynccontextmanager
async def replying(reply: Reply) -> AsyncIterator[tuple[str, list[Request]]]:
    """Answer every request with *reply*; yield the base URL, and the list of requests."""
    seen: list[Request] = []

    async def answer(request: Request) -> Reply:
        await trio.lowlevel.checkpoint()
        seen.append(request)
        return reply

    async with serving(answer) as url:
        yield url, seen


async def announced(answer: Answer, port_file: Path) -> None:
    """Serve forever; write the port to a file atomically."""
    listener = await listen()
    port_file.with_suffix(".new").write_text(str(port_of(listener)))
    port_file.with_suffix(".new").rename(port_file)
    await trio.serve_listeners(connection(answer), [listener])
