"""A small HTTP/1.1 server on Trio for fakes: real sockets, keep-alive, nothing else."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

# Real seconds without any event after which a `MockClock` may jump to the next deadline, while both
# ends of a loopback socket are in this process: then a busy machine is not taken for passing time.
JUMP = 0.001


@attrs.frozen
class Asked:
    method: str
    path: str
    body: bytes
    content_type: str = ""

    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    def form(self) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
        """Read a form as the Bot API's server does: its fields, and its files by field."""
        boundary = b"\r\n--" + self.content_type.partition("boundary=")[2].encode()
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
            # It cuts at each semicolon, also between quotes, and knows no escapes.
            for word in said["content-disposition"].split(";")[1:]:
                key, _, quoted = word.strip().partition("=")
                about[key] = quoted.removeprefix('"').removesuffix('"')
            if "filename" in about:
                files[about["name"]] = (about["filename"], value)
            else:
                fields[about["name"]] = value.decode()
        return fields, files


@attrs.frozen
class Answered:
    status: int
    body: bytes
    content_type: str = "application/json"
    # What the client got to see of it: all, nothing (the connection is closed).
    lost: bool = False


def answer(value: Any, status: int = 200) -> Answered:
    return Answered(status, json.dumps(value).encode())


Respond = Callable[[Asked], Awaitable[Answered]]


async def listen(port: int = 0) -> trio.SocketListener:
    """Open a listener on the loopback interface."""
    return (await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=1024))[0]


def port_of(listener: trio.SocketListener) -> int:
    return int(listener.socket.getsockname()[1])


async def serve(
    listener: trio.SocketListener,
    respond: Respond,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer requests until cancelled; *respond* makes the answers."""

    async def connection(stream: trio.SocketStream) -> None:
        try:
            await converse(stream, respond)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            stream.socket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, connection, [listener])
        task_status.started()


async def converse(stream: trio.abc.Stream, respond: Respond) -> None:
    """Answer the requests of one connection until it ends."""
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            more = await stream.receive_some(65536)
            if not more:
                return
            buffer += more
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        length, kind = 0, ""
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() == "content-type":
                kind = value.strip()
            if name.lower() == "content-length":
                length = int(value)
        parts: list[bytes] = [buffer]
        size = len(buffer)
        while size < length:
            more = await stream.receive_some(65536)
            if not more:
                return
            parts.append(bytes(more))
            size += len(more)
        buffer = b"".join(parts)
        body, buffer = buffer[:length], buffer[length:]
        said = await respond(Asked(method, path, body, kind))
        if said.lost:
            return
        await stream.send_all(
            b"HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
            % (said.status, said.content_type.encode(), len(said.body))
            + said.body
        )
