"""The terminal, or the pipe in its place: lines in, plain and harmless text out."""

import errno
import os
import re
from collections.abc import Awaitable, Callable

import trio

from elwood.foundation.runtime import Blocking
from elwood.foundation.text.markdown import Rich

# Bytes of one line; what is longer is a paste that belongs into a file.
MAX_LINE = 64 * 1024

Receive = Callable[[], Awaitable[bytes]]
Write = Callable[[str], Awaitable[None]]


class TooLong:
    """A line of more than `MAX_LINE` bytes stood here."""


class Lines:
    """Lines of a source of bytes; outlives the incarnations of the Intake that reads them.

    *receive* returns some bytes, none at the end.  *count* is how many lines there were.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffer = b""
        self._ended = False
        self._skipping = False
        self.count = 0

    async def next(self) -> str | TooLong | None:
        """Return one line without its end, or None when there are no more."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline or self._ended:
                self._buffer = rest
                skipped, self._skipping = self._skipping, False
                if not newline and not line and not skipped:
                    return None
                self.count += 1
                if skipped or len(line) > MAX_LINE:
                    return TooLong()
                return line.decode("utf-8", "replace").rstrip("\r")
            if len(self._buffer) > MAX_LINE:
                self._buffer, self._skipping = b"", True
            data = await self._receive()
            self._ended = not data
            self._buffer += data


def read_fd(fd: int) -> Receive:
    """Read from a descriptor that may be a terminal, a pipe or a file.

    The thread is left behind when cancelled, and it reads the bare descriptor: a thread that
    held the lock of ``sys.stdin`` would be fatal at the exit of the interpreter.
    """

    def read() -> bytes:
        try:
            return os.read(fd, 64 * 1024)
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal has gone
                return b""
            raise

    async def receive() -> bytes:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    return receive


def write_fd(fd: int, blocking: Blocking) -> Write:
    """Write to a descriptor; raises BrokenPipeError when nobody reads it."""

    def write_all(data: bytes) -> None:
        try:
            while data:
                data = data[os.write(fd, data) :]
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal has gone
                raise BrokenPipeError(errno.EPIPE, "the terminal has gone") from error
            raise

    async def write(text: str) -> None:
        data = text.encode("utf-8", "replace")
        await blocking(lambda: write_all(data))

    return write


def readable(rich: Rich) -> str:
    """Give *rich* without formatting, but with the addresses behind its links.

    >>> from elwood.foundation.text.markdown import Entity
    >>> readable(Rich("see 👋 here", (Entity("text_link", 7, 4, url="https://example.org"),)))
    'see 👋 here (https://example.org)'
    """
    text = rich.text.encode("utf-16-le")
    for entity in sorted(rich.entities, key=lambda e: e.offset + e.length, reverse=True):
        end = 2 * (entity.offset + entity.length)
        if entity.url and text[2 * entity.offset : end].decode("utf-16-le") != entity.url:
            text = text[:end] + f" ({entity.url})".encode("utf-16-le") + text[end:]
    return text.decode("utf-16-le")


def printable(text: str) -> str:
    """Replace control characters: a model or a file must not command the terminal.

    >>> printable("a\\tb\\x1b[2Jc\\x9b1m")
    'a\\tb\\ufffd[2Jc\\ufffd1m'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", text)
