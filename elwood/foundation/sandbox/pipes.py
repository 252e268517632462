"""Pipes between us and a child process."""

import os
from contextlib import suppress

import trio


class Pipe:
    """A pipe between us and a child: *ours* and *theirs* are its ends, until they are closed."""

    def __init__(self, ours: int, theirs: int) -> None:
        self.ours = ours
        self.theirs = theirs
        os.set_blocking(ours, False)

    def give(self) -> None:
        """Close their end here: the child has it."""
        self.theirs = _closed(self.theirs)

    def hang_up(self) -> None:
        self.ours = _closed(self.ours)

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.give()
        self.hang_up()

    async def read_line(self) -> bytes:
        """Read the line that is written next, or what there is of it at the end."""
        line = b""
        while not line.endswith(b"\n") and (byte := await self.read_some(1)):
            line += byte
        return line

    async def read_some(self, limit: int) -> bytes:
        """Read what there is, at most *limit* bytes; nothing is the end."""
        while True:
            try:
                return os.read(self.ours, limit)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.ours)

    async def write(self, data: bytes) -> None:
        """Write all of *data*; what nobody reads any more is lost."""
        with suppress(BrokenPipeError):
            while data:
                await trio.lowlevel.wait_writable(self.ours)
                data = data[os.write(self.ours, data) :]


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def from_child() -> Pipe:
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    return Pipe(ours, theirs)


def to_child(*, never_ends: bool = False) -> Pipe:
    """Open a pipe that a child reads.

    If it *never_ends*, our death is not the end of file that the child waits for.
    """
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    if never_ends:
        both = os.open(f"/proc/self/fd/{theirs}", os.O_RDWR | os.O_CLOEXEC)
        os.close(theirs)
        theirs = both
    return Pipe(ours, theirs)
