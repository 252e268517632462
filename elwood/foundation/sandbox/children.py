"""Child processes under Trio: started on its thread, read without end, and never left behind.

Trio's own `run_process` forks in a worker thread.  The signal that a child asks for on its parent's
death (PR_SET_PDEATHSIG) comes when that *thread* ends, and idle ones end after ten seconds: hence
`subprocess.Popen` here, which blocks the loop for well under a millisecond.
"""

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from fcntl import F_GETPIPE_SZ, fcntl
from pathlib import Path
from typing import IO, Protocol

import trio

from elwood.foundation.sandbox.command import BY_SIGNAL, Command, Rung, SandboxFailed


class Kept:
    """Of all bytes added, the first and the last, together *limit* of them.

    >>> kept = Kept(8)
    >>> for part in (b"abc", b"defgh", b"ijkl"):
    ...     kept.add(part)
    >>> kept.value(), kept.cut
    (b'abcd\\n[4 bytes left out]\\nijkl', 4)
    >>> whole = Kept(8)
    >>> whole.add(b"abcdefgh")
    >>> whole.value(), whole.cut
    (b'abcdefgh', 0)
    """

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._room = limit - limit // 2
        self._keep = limit // 2
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take *data* as what comes next."""
        free = self._room - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > 2 * self._keep:
            self._trim()

    @property
    def cut(self) -> int:
        """How many bytes were left out."""
        return self._dropped + max(0, len(self._tail) - self._keep)

    def value(self) -> bytes:
        """Return what was kept, with a line in the place of what was not."""
        self._trim()
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._keep
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus


# Seconds until a sandbox must be ready for its command.
SET_UP = 10.0
# Seconds between asking a command to end (SIGTERM) and ending it (SIGKILL).
GRACE = 2.0
# Seconds after SIGKILL until nothing is left; only a process that hangs in the kernel takes longer.
GONE = 5.0
# Bytes of one read from a pipe.
_CHUNK = 1 << 16


class Leash(Protocol):
    """How a rung ends what it started."""

    def ask(self) -> None:
        """Ask the command to end."""

    def force(self) -> None:
        """End everything that belongs to the command; also after it ended by itself."""

    async def gone(self) -> None:
        """Wait until nothing of it is left."""


class ChildProcess:
    """One started program, as the leader of a session of its own; *title* is what it is called.

    Raises OSError as Popen does.
    """

    def __init__(
        self,
        argv: Sequence[str],
        command: Command,
        *,
        environment: Mapping[str, str],
        keep: Sequence[int] = (),
        folder: Path | None = None,
        title: str = "",
    ) -> None:
        self.output = Kept(command.limit)
        self.errors = self.output if command.merge else Kept(command.limit)
        self._unread = memoryview(command.stdin)
        self._popen = subprocess.Popen(
            [title or argv[0], *argv[1:]],
            executable=argv[0],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if command.merge else subprocess.PIPE,
            pass_fds=keep,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        pipes = [(self._popen.stdout, self.output), (self._popen.stderr, self.errors)]
        self._pipes = {pipe.fileno(): kept for pipe, kept in pipes if pipe is not None}
        for fd in self._pipes:
            os.set_blocking(fd, False)

    @property
    def code(self) -> int | None:
        """Its exit code as a shell says it, if it has ended."""
        code = self._popen.poll()
        return BY_SIGNAL - code if code is not None and code < 0 else code

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._popen.send_signal(number)

    async def ended(self) -> None:
        """Wait until it has ended."""
        while self._popen.poll() is None:
            await trio.lowlevel.wait_readable(self._pidfd)

    async def work(self) -> None:
        """Feed it and take its output until it has ended."""
        async with trio.open_nursery() as nursery:
            if self._popen.stdin is not None and not self._popen.stdin.closed:
                nursery.start_soon(self._feed, self._popen.stdin)
            for fd, kept in self._pipes.items():
                nursery.start_soon(_pump, fd, kept)
            await self.ended()
            nursery.cancel_scope.cancel()

    def drain(self) -> None:
        """Take what still is in the pipes; it need not end, for a writer may have escaped."""
        for fd, kept in self._pipes.items():
            left = fcntl(fd, F_GETPIPE_SZ)
            with suppress(BlockingIOError):
                while left > 0 and (data := os.read(fd, _CHUNK)):
                    kept.add(data)
                    left -= len(data)

    def close(self) -> None:
        """Give back the file descriptors."""
        os.close(self._pidfd)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()

    async def _feed(self, stdin: IO[bytes]) -> None:
        os.set_blocking(stdin.fileno(), False)
        with suppress(BrokenPipeError):  # it does not want to read all of it
            while self._unread:
                try:
                    self._unread = self._unread[os.write(stdin.fileno(), self._unread) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(stdin.fileno())
        stdin.close()


async def _pump(fd: int, kept: Kept) -> None:
    while True:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
            continue
        if not data:
            return
        kept.add(data)
        await trio.lowlevel.checkpoint()


async def attend(
    rung: Rung,
    child: ChildProcess,
    leash: Leash,
    seconds: float,
    begin: Callable[[], Awaitable[None]],
) -> bool:
    """See *child* through from *begin* to its end; return whether its *seconds* were too few.

    Nothing of it is alive when this returns, raises or is cancelled.  Raises SandboxFailed.
    """
    timed_out = True
    try:
        with trio.move_on_after(SET_UP) as set_up:
            await _begun(rung, begin)
        if set_up.cancelled_caught:
            raise SandboxFailed(rung, f"was not ready after {SET_UP:.0f} s")
        with trio.move_on_after(seconds):
            await child.work()
            timed_out = False
    finally:
        with trio.move_on_after(GRACE + GONE, shield=True) as ending:
            if child.code is None:
                leash.ask()
                with trio.move_on_after(GRACE):
                    await child.work()
            leash.force()
            await child.work()
            await leash.gone()
        child.drain()
        child.close()
    if ending.cancelled_caught:
        raise SandboxFailed(rung, "a process does not end even when killed")
    return timed_out


async def _begun(rung: Rung, begin: Callable[[], Awaitable[None]]) -> None:
    try:
        await begin()
    except OSError as error:  # a full disk, or it died just now
        raise SandboxFailed(rung, f"cannot begin: {error}") from error


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
        """Close our end."""
        self.ours = _closed(self.ours)

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.give()
        self.hang_up()

    async def read_line(self) -> bytes:
        """Read one line, or what there is of it at the end."""
        line = b""
        while not line.endswith(b"\n"):
            try:
                byte = os.read(self.ours, 1)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.ours)
                continue
            if not byte:
                break
            line += byte
        return line

    async def write(self, data: bytes) -> None:
        """Write all of *data*; what nobody reads any more is lost."""
        left = memoryview(data)
        with suppress(BrokenPipeError):
            while left:
                try:
                    left = left[os.write(self.ours, left) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self.ours)


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def from_child() -> Pipe:
    """Open a pipe that a child writes."""
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
