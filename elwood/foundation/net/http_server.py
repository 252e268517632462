"""HTTP for the few who call us: a request is judged by its head, read, and answered by a status;
then the connection ends.

Who sends too much, too slowly or nonsense is refused; nothing of what they sent is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import h11
import trio

# Says by its method, its path and its headers (names in lower case) by which status a request is
# refused that is not even read.
Refuse = Callable[[str, str, Mapping[str, str]], int | None]
# Bytes of a request before its body, and of what is read at once.
MAX_HEAD = 1 << 14
PIECE = 1 << 16
# Seconds for a whole request to come, and for the answer to go.
PATIENCE = 60.0


async def serve(
    stream: trio.SocketStream,
    refuse: Refuse,
    take: Callable[[bytes], Awaitable[int]],
    *,
    max_body: int,
) -> None:
    """Serve the one request of a connection; *take* gives its status by its body."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with suppress(trio.BrokenResourceError, trio.TooSlowError, h11.LocalProtocolError):
        try:
            with trio.fail_after(PATIENCE):
                body = await _read(http, stream, refuse, max_body)
            status = body if isinstance(body, int) else await take(body)
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
        headers = [("content-length", "0"), ("connection", "close")]
        answer = h11.Response(status_code=status, headers=headers)
        with trio.fail_after(PATIENCE):
            await stream.send_all(http.send(answer) + http.send(h11.EndOfMessage()))


async def _read(
    http: h11.Connection, stream: trio.SocketStream, refuse: Refuse, max_body: int
) -> bytes | int:
    """Return the body of the request, or the status by which it is refused."""
    body = b""
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                http.receive_data(await stream.receive_some(PIECE))
            case h11.Request() as asked:
                named = {n.decode("latin-1"): v.decode("latin-1") for n, v in asked.headers}
                method, path = asked.method.decode("latin-1"), asked.target.decode("latin-1")
                if (status := refuse(method, path, named)) is not None:
                    return status
            case h11.Data(data=data):
                body += data
                if len(body) > max_body:
                    return 413
            case h11.EndOfMessage():
                return body
            case _:
                raise trio.BrokenResourceError("they have hung up")
