"""Server-sent events (WHATWG HTML §9.2) out of bytes that are cut anywhere."""

import attrs

from elwood.foundation.net.http import Interrupted

# Bytes of one event; a larger one is refused as broken.
MAX_EVENT = 8 * 1024 * 1024


@attrs.frozen
class ServerEvent:
    """One server-sent event; *event* is empty when the server gave no name."""

    event: bytes
    data: bytes


class EventParser:
    """Turns chunks of bytes into events.

    Lines end with CR, LF or CRLF; comments, ids and retry times are left out.  An event that is
    not closed by a blank line never appears, and one of more than *limit* bytes ends it all.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._tail: list[bytes] = []  # pieces of a line that has not ended
        self._size = 0
        self._after_cr = False
        self._first = True
        self._event = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that *chunk* completes.  Raises Interrupted above the limit."""
        if not chunk:
            return []
        if self._after_cr:
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(chunk)
        if b"\n" not in chunk:
            self._check()
            self._tail.append(chunk)
            return []
        if self._tail:
            self._tail.append(chunk)
            chunk = b"".join(self._tail)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        self._tail = [rest] if rest else []
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        events: list[ServerEvent] = []
        for line in lines:
            if line:
                self._field(line)
                continue
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(ServerEvent(self._event, data))
                self._data = []
            self._event = b""
        self._size = sum(map(len, self._data)) + len(self._data) + len(rest)
        self._check()
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value

    def _check(self) -> None:
        if self._size > self._limit:
            raise Interrupted(f"an event of the stream is longer than {self._limit} bytes")
