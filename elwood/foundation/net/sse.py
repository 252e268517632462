"""Server-sent events (WHATWG HTML §9.2) out of bytes that are cut anywhere."""

from elwood.foundation.net.http import Interrupted

# Bytes of one event; a larger one is refused as broken.
MAX_EVENT = 8 * 1024 * 1024


class EventParser:
    """Turns chunks of bytes into the data of events.

    Lines end with CR, LF or CRLF; names, comments, ids and retry times are left out.  An event
    that is not closed by a blank line never appears, and one of more than *limit* bytes ends it
    all.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line = bytearray()  # one that has not ended
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that *chunk* completes.  Raises Interrupted."""
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        events = []
        for piece in chunk.splitlines(keepends=True):
            self._line += piece
            if not piece.endswith((b"\n", b"\r")):
                break
            name, _, value = self._line.rstrip(b"\r\n").partition(b":")
            if name == b"data":
                self._data.append(bytes(value.removeprefix(b" ")))
            elif not self._line.strip(b"\r\n") and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
            self._line.clear()
        size = len(self._line) + len(self._data) + sum(map(len, self._data))
        if size > self._limit:
            raise Interrupted(f"an event of the stream is longer than {self._limit} bytes")
        return events
