"""An HTTP/1.1 server on a real loopback socket that can misbehave to the byte."""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

CHUNKED = b"transfer-encoding: chunked\r\n"


@attrs.frozen
class Request:
    """What a client sent; names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Reply:
    """What to answer, and how to break it.

    *body* goes out in *pieces* (a list, each one write); *delay* seconds pass before the first
    byte, *pause* between pieces.  After *end_at* bytes of the body *end* happens: the connection
    is closed, reset, or falls silent for ever.  ``end_at=-1`` is before the status line.
    """

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    pieces: tuple[bytes, ...] = ()
    delay: float = 0.0
    pause: float = 0.0
    end: str = ""  # "close", "reset", "stall"
    end_at: int = 0
    is_chunked: bool = True


Answer = Callable[[Request], Awaitable[Reply]]


async def read_request(stream: trio.SocketStream, buffer: bytearray) -> Request | None:
    """Take one request off the connection; None when the client has gone."""
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


async def write_reply(stream: trio.SocketStream, reply: Reply) -> bool:
    """Send *reply*; return whether the connection can be used again."""
    if reply.delay:
        await trio.sleep(reply.delay)
    if reply.end and reply.end_at < 0:
        return await _misbehave(stream, reply.end)
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
        return await _misbehave(stream, reply.end) if reply.end else True
    head += CHUNKED + b"\r\n"
    for number, piece in enumerate(pieces):
        if number and reply.pause:
            await stream.send_all(head)
            head = b""
            await trio.sleep(reply.pause)
        head += b"%x\r\n%s\r\n" % (len(piece), piece)
    if reply.end:
        await stream.send_all(head)
        return await _misbehave(stream, reply.end)
    await stream.send_all(head + b"0\r\n\r\n")
    return True


async def _misbehave(stream: trio.SocketStream, end: str) -> bool:
    if end == "stall":
        await stream.receive_some(1)  # until the client gives up
    elif end == "reset":
        linger = struct.pack("ii", 1, 0)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        stream.socket.close()
    return False


async def serve(answer: Answer, listener: trio.SocketListener) -> None:
    """Answer every request on *listener* until cancelled."""

    async def connection(stream: trio.SocketStream) -> None:
        buffer = bytearray()
        try:
            async with stream:
                while True:
                    request = await read_request(stream, buffer)
                    if request is None or not await write_reply(stream, await answer(request)):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client broke off, or we did

    await trio.serve_listeners(connection, [listener])


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Serve on a free port while the block runs; gives the base URL."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, answer, listener)
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()
