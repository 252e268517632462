"""HTTP for the few who call us: each request is judged by its head, read, and answered by a status.

Who sends too much, too slowly or nonsense is refused; nothing of what they sent is logged.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import h11
import msgspec
import trio

# Bytes of a request before its body, and of what is read at once.
MAX_HEAD = 1 << 14
PIECE = 1 << 16
# Seconds for a whole request to come, and for the answer to go.
PATIENCE = 60.0


class RequestHead(msgspec.Struct, frozen=True):
    """What a request begins with; the names in *headers* are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class HttpServer:
    """Serves at most *connections*; a body has at most *max_body* bytes.

    *refuse* gives the status of a request that is not even read; *take* that of the others, by the
    body.
    """

    def __init__(
        self,
        refuse: Callable[[RequestHead], int | None],
        take: Callable[[bytes], Awaitable[int]],
        *,
        connections: int,
        max_body: int,
    ) -> None:
        self._refuse = refuse
        self._take = take
        self._free = connections
        self._max_body = max_body

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection: a request after the other, until somebody hangs up."""
        if not self._free:
            await trio.aclose_forcefully(stream)
            return
        self._free -= 1
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                async with stream:
                    await self._converse(stream)
        finally:
            self._free += 1

    async def _converse(self, stream: trio.SocketStream) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        with suppress(h11.LocalProtocolError):  # no further request can follow
            while True:
                body: bytes | int = 408
                try:
                    with trio.move_on_after(PATIENCE):
                        body = await self._read(http, stream)
                    status = body if isinstance(body, int) else await self._take(body)
                except h11.RemoteProtocolError as error:
                    status = error.error_status_hint
                answer = h11.Response(status_code=status, headers=[("content-length", "0")])
                with trio.fail_after(PATIENCE):
                    await stream.send_all(http.send(answer) + http.send(h11.EndOfMessage()))
                http.start_next_cycle()

    async def _read(self, http: h11.Connection, stream: trio.SocketStream) -> bytes | int:
        """Return the body of the next request, or the status by which it is refused."""
        body = b""
        while True:
            match http.next_event():
                case h11.NEED_DATA:
                    http.receive_data(await stream.receive_some(PIECE))
                case h11.Request() as head:
                    headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in head.headers}
                    target = head.target.decode("latin-1")
                    asked = RequestHead(head.method.decode("latin-1"), target, headers)
                    if (status := self._refuse(asked)) is not None:
                        return status
                case h11.Data(data=data):
                    body += data
                    if len(body) > self._max_body:
                        return 413
                case h11.EndOfMessage():
                    return body
                case _:  # they have hung up
                    raise trio.ClosedResourceError


async def listeners_at(place: str) -> list[trio.SocketListener]:
    """Listen at *place*: ``host:port``, or the path of a socket.  Raises OSError.

    A socket is open to all users here: who comes must prove itself anyway, as at a port.
    """
    if place.startswith("/"):
        return [trio.SocketListener(trio.socket.from_stdlib_socket(_socket(Path(place))))]
    host, _, port = place.rpartition(":")
    return await trio.open_tcp_listeners(int(port), host=host.strip("[]"))


def _socket(path: Path) -> socket.socket:
    if path.is_socket():
        path.unlink()  # of a process that is no more
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(path))
    path.chmod(0o666)
    made.listen()
    return made
