"""Child processes under Trio: started on its thread, with bounded output, and never left behind.

Trio's own `run_process` forks in a worker thread.  A child's parent-death signal
(PR_SET_PDEATHSIG) is sent when that *thread* ends, and idle threads end after ten seconds: hence
`subprocess.Popen` here, which blocks the loop for well under a millisecond.

The next Elwood ends the commands that a killed one left: each program that holds a command has a
recognizable title.
"""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from fcntl import F_GETPIPE_SZ, fcntl
from pathlib import Path
from typing import IO, Protocol

import msgspec
import trio

from elwood.foundation.sandbox.command import (
    BY_SIGNAL,
    Command,
    CommandOutcome,
    Rung,
    SandboxFailed,
)


class HeadTailBuffer:
    """Keep the first and last bytes, at most *limit* in total."""

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._room = limit - limit // 2
        self._keep = limit // 2
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Append *data*."""
        free = self._room - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > 2 * self._keep:
            self._trim()

    @property
    def cut(self) -> int:
        """Number of dropped bytes."""
        return self._dropped + max(0, len(self._tail) - self._keep)

    def last(self, count: int) -> bytes:
        """Return the last *count* bytes, or fewer."""
        return bytes(self._head[-count:] + self._tail[-count:])[-count:]

    def value(self) -> bytes:
        self._trim()
        gap = f"\n[{self._dropped} bytes omitted]\n".encode() if self._dropped else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._keep
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus


class Outputs:
    """The output of *command*: head and tail of both streams together, or of each."""

    def __init__(self, command: Command) -> None:
        self.output = HeadTailBuffer(command.limit)
        self.errors = self.output if command.merge else HeadTailBuffer(command.limit)
        command.watch(self.output.last)

    def outcome(self, code: int | None) -> CommandOutcome:
        """Build the outcome of a command with exit code *code*; None means a timeout."""
        errors = b"" if self.errors is self.output else self.errors.value()
        output = self.output.value()
        return CommandOutcome(code, output, self.output.cut, errors)


# Seconds until a sandbox must be ready for its command.
SET_UP = 10.0
# Seconds between SIGTERM and SIGKILL.
GRACE = 2.0
# Seconds after SIGKILL until all processes are gone; only a kernel hang takes longer.
GONE = 5.0
# Bytes of one read from a pipe.
_CHUNK = 1 << 16


class ProcessTree(Protocol):
    """Ends the processes of a command, in the way of its backend."""

    def ask(self) -> None:
        """Request the command to end."""

    def force(self) -> None:
        """Kill all processes of the command; also after it has ended."""

    async def gone(self) -> None:
        """Wait until all of its processes are gone."""


class ChildProcess:
    """A started program, the leader of a new session, with an empty environment.

    Raises SandboxFailed if *program* does not start.
    """

    def __init__(
        self, rung: Rung, program: str, argv: Sequence[str], command: Command, keep: Sequence[int]
    ) -> None:
        self.outputs = Outputs(command)
        self._unread = memoryview(command.stdin)
        stdin = subprocess.PIPE if command.stdin else subprocess.DEVNULL
        stdout, stderr = subprocess.PIPE, subprocess.STDOUT if command.merge else subprocess.PIPE
        if command.streams:
            stdin, stdout, stderr = (pipe.theirs for pipe in command.streams)
        try:
            self._popen = subprocess.Popen(
                argv,
                executable=program,
                env={},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=keep,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise SandboxFailed(rung, f"cannot start {program}: {error.strerror}") from error
        for pipe in command.streams:
            pipe.give()
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        command.started(self.pid)
        outputs = self.outputs
        pipes = [(self._popen.stdout, outputs.output), (self._popen.stderr, outputs.errors)]
        self._pipes = {pipe.fileno(): kept for pipe, kept in pipes if pipe is not None}
        for fd in self._pipes:
            os.set_blocking(fd, False)

    @property
    def code(self) -> int | None:
        """Exit code in the convention of shells, or None while it runs."""
        code = self._popen.poll()
        return BY_SIGNAL - code if code is not None and code < 0 else code

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._popen.send_signal(number)

    async def note_end(self) -> None:
        while self._popen.poll() is None:
            await trio.lowlevel.wait_readable(self._pidfd)

    async def work(self) -> None:
        """Write its input and read its output until it has ended."""
        async with trio.open_nursery() as nursery:
            if self._popen.stdin is not None and not self._popen.stdin.closed:
                nursery.start_soon(self._feed, self._popen.stdin)
            for fd, kept in self._pipes.items():
                nursery.start_soon(_pump, fd, kept)
            await self.note_end()
            nursery.cancel_scope.cancel()

    def drain(self) -> None:
        """Read the rest of the pipes, bounded, because an escaped process may still write."""
        for fd, kept in self._pipes.items():
            left = fcntl(fd, F_GETPIPE_SZ)
            with suppress(BlockingIOError):
                while left > 0 and (data := os.read(fd, _CHUNK)):
                    kept.add(data)
                    left -= len(data)

    def close(self) -> None:
        os.close(self._pidfd)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()

    async def _feed(self, stdin: IO[bytes]) -> None:
        os.set_blocking(stdin.fileno(), False)
        with suppress(BrokenPipeError):  # it does not read all of its input
            while self._unread:
                await trio.lowlevel.wait_writable(stdin.fileno())
                self._unread = self._unread[os.write(stdin.fileno(), self._unread) :]
        stdin.close()


async def _pump(fd: int, kept: HeadTailBuffer) -> None:
    while True:
        await trio.lowlevel.wait_readable(fd)
        if not (data := os.read(fd, _CHUNK)):
            return
        kept.add(data)


async def supervise(
    rung: Rung,
    child: ChildProcess,
    leash: ProcessTree,
    seconds: float,
    begin: Callable[[], Awaitable[None]],
) -> bool:
    """Run *child* from *begin* to its end; return True if it timed out after *seconds*.

    All its processes are gone when this returns, raises or is cancelled.  Raises SandboxFailed.
    """
    timed_out = True
    try:
        with trio.move_on_after(SET_UP) as set_up:
            try:
                await begin()
            except OSError as error:  # a full disk, or it died
                raise SandboxFailed(rung, f"cannot start: {error}") from error
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
        raise SandboxFailed(rung, "a process did not end after SIGKILL")
    return timed_out


# --- orphans of a killed Elwood -------------------------------------------------------------------


def title(state: Path) -> str:
    """Return the title of programs that hold commands for the Elwood of *state*."""
    return f"elwood-sandbox {state}"


def temporary(state: Path) -> Path:
    """Return the folder in *state* for temporary files of commands."""
    return state / "running"


def reap(state: Path) -> int:
    """Kill the commands that a previous Elwood left; return the number of processes holding them.

    Call it at the start, before any other process; it blocks until they are gone.
    """
    left = holders(state)
    if left:
        kill_family(left)
    shutil.rmtree(temporary(state), ignore_errors=True)
    return len(left)


def holders(state: Path) -> set[int]:
    """Return the ids of processes that hold commands for the Elwood of *state*."""
    ours = title(state.resolve()).encode()
    return {process.pid for process in processes() if ours in _words(process.pid)[:_TITLED]}


# The title is argv[0] of bwrap, and the fourth word of a launcher: Python needs its own name in
# argv[0] to find its library.
_TITLED = 4


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_family(roots: set[int]) -> None:
    """Kill *roots*, their descendants and the sessions they lead; wait until they are gone.

    They are stopped first, so that none can escape by forking.
    """
    stopped: dict[int, int] = {}
    try:
        while new := family(roots) - stopped.keys():
            for pid in new:
                with suppress(ProcessLookupError, PermissionError):
                    stopped[pid] = os.pidfd_open(pid)
                    signal.pidfd_send_signal(stopped[pid], signal.SIGSTOP)
            if not new & stopped.keys():
                break
        for pidfd in stopped.values():
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _wait_until_gone(stopped.values())
    finally:
        for pidfd in stopped.values():
            os.close(pidfd)


def _wait_until_gone(pidfds: Iterable[int]) -> None:
    until = time.monotonic() + GONE
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(max(0.0, until - time.monotonic()) * 1000)


def family(roots: set[int]) -> set[int]:
    """Return the ids of *roots*, their descendants, and members of the sessions they lead."""
    running = processes()
    found = {p.pid for p in running if p.pid in roots or p.session in roots}
    while more := {p.pid for p in running if p.parent in found} - found:
        found |= more
    return found


class Process(msgspec.Struct, frozen=True):
    """A process, read from `/proc/<pid>/stat`."""

    pid: int
    parent: int
    session: int


def processes() -> list[Process]:
    """List the processes that are visible to us."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for pid in pids if (process := read_process(pid)) is not None]


def read_process(pid: int) -> Process | None:
    """Read the process *pid*; return None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # gone, or hidden from us
        return None
    # The program name, in brackets, may contain anything.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, parent=int(fields[1]), session=int(fields[3]))
