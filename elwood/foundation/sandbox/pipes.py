"""Pipes between Elwood and a child process."""

import os
from contextlib import suppress

import trio


class Pipe:
    """A pipe to or from a child; *ours* and *theirs* are its ends, -1 when closed."""

    def __init__(self, ours: int, theirs: int) -> None:
        self.ours = ours
        self.theirs = theirs
        os.set_blocking(ours, False)

    def give(self) -> None:
        """Close the child's end here, after the child has inherited it."""
        self.theirs = _close(self.theirs)

    def hang_up(self) -> None:
        self.ours = _close(self.ours)

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.give()
        self.hang_up()

    async def read_line(self) -> bytes:
        """Read the next line, or an incomplete one at the end."""
        line = b""
        while not line.endswith(b"\n") and (byte := await self.read_some(1)):
            line += byte
        return line

    async def read_some(self, limit: int) -> bytes:
        """Read at most *limit* bytes; empty at the end."""
        while True:
            try:
                return os.read(self.ours, limit)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.ours)

    async def write(self, data: bytes) -> None:
        """Write all of *data*; drop the rest if the reader has closed."""
        with suppress(BrokenPipeError):
            while data:
                await trio.lowlevel.wait_writable(self.ours)
                data = data[os.write(self.ours, data) :]


def _close(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def from_child() -> Pipe:
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    return Pipe(ours, theirs)


def to_child(*, never_ends: bool = False) -> Pipe:
    """Open a pipe that a child reads.

    If it *never_ends*, the child sees no end of file when Elwood dies.
    """
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    if never_ends:
        both = os.open(f"/proc/self/fd/{theirs}", os.O_RDWR | os.O_CLOEXEC)
        os.close(theirs)
        theirs = both
    return Pipe(ours, theirs)
