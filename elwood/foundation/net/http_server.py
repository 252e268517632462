"""A minimal HTTP server: check the head of a request, read it, respond with a status, and close.

Requests that are too large, too slow or malformed are refused; nothing of them is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import h11
import trio

# Returns the status with which to refuse a request before its body is read, or None; arguments are
# its method, its path and its headers (names in lower case).
Refuse = Callable[[str, str, Mapping[str, str]], int | None]
# Bytes of a request before its body, and bytes per read.
MAX_HEAD = 1 << 14
PIECE = 1 << 16
# Seconds to receive the head of a request, and the whole request; to send the response.
HEAD_PATIENCE = 5.0
PATIENCE = 60.0


async def serve(
    stream: trio.SocketStream,
    refuse: Refuse,
    take: Callable[[bytes], Awaitable[int]],
    *,
    max_body: int,
) -> None:
    """Serve the only request of a connection; *take* gets its body and returns the status."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    with suppress(trio.BrokenResourceError, trio.TooSlowError, h11.LocalProtocolError):
        try:
            with trio.fail_after(HEAD_PATIENCE) as limit:
                body = await _read(http, stream, refuse, max_body, limit)
            status = body if isinstance(body, int) else await take(body)
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint
        headers = [("content-length", "0"), ("connection", "close")]
        answer = h11.Response(status_code=status, headers=headers)
        with trio.fail_after(PATIENCE):
            await stream.send_all(http.send(answer) + http.send(h11.EndOfMessage()))


async def _read(
    http: h11.Connection,
    stream: trio.SocketStream,
    refuse: Refuse,
    max_body: int,
    limit: trio.CancelScope,
) -> bytes | int:
    """Return the body of the request, or the status that refuses it.

    Move the deadline of *limit* when the head was accepted.
    """
    body = b""
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                http.receive_data(await stream.receive_some(PIECE))
            case h11.Request() as request:
                headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in request.headers}
                method, path = request.method.decode("latin-1"), request.target.decode("latin-1")
                if (status := refuse(method, path, headers)) is not None:
                    return status
                limit.deadline = trio.current_time() + PATIENCE
            case h11.Data(data=data):
                body += data
                if len(body) > max_body:
                    return 413
            case h11.EndOfMessage():
                return body
            case _:
                raise trio.BrokenResourceError("the client has closed the connection")
