"""The strongest backend: bubblewrap isolates a command in namespaces, without privileges.

No network, no files except the system's (read-only) and the workspace, no other processes.  bwrap
dies with Elwood, and everything in its process namespace with it.
"""

import os
import resource
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import trio

from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.children import ChildProcess, supervise, title
from elwood.foundation.sandbox.command import (
    NOT_FOUND,
    NOT_RUNNABLE,
    Command,
    CommandOutcome,
    Rung,
    SandboxFailed,
)
from elwood.foundation.sandbox.launcher import FIRST_KILLED, NICENESS
from elwood.foundation.sandbox.layout import (
    ETC,
    GIT_CONFIG,
    MADE_ETC,
    NIXOS,
    SYSTEM,
    WORKSPACE,
    Mount,
    SandboxContext,
    environment,
    get_made_folder,
)
from elwood.foundation.sandbox.pipes import Pipe, from_child, to_child
from elwood.foundation.sandbox.settings import MEGABYTE

# bwrap's message when the sandbox works and only the program could not be started.
_NO_PROGRAM = b"bwrap: execvp "
_ID = "1000"


class _Status(msgspec.Struct):
    """A status line of bwrap."""

    child: int | None = msgspec.field(name="child-pid", default=None)
    code: int | None = msgspec.field(name="exit-code", default=None)


class _Namespace:
    """Ends a sandbox: killing PID 1 of its namespace kills everything in it."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._first: tuple[int, int] | None = None

    def hold(self, first: int) -> None:
        """Open a pidfd for PID 1 of the sandbox; it waits, so the pid is not reused yet."""
        self._first = (first, os.pidfd_open(first))

    def ask(self) -> None:
        """Send SIGTERM to the session.  PID 1 of the namespace ignores it."""
        if self._first is None:
            self.force()  # bwrap itself hangs
        else:
            with suppress(ProcessLookupError):
                os.killpg(self._first[0], signal.SIGTERM)

    def force(self) -> None:
        """Kill PID 1 of the namespace, or bwrap if it does not exist yet."""
        if self._first is None:
            self._child.signal(signal.SIGKILL)
        else:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first[1], signal.SIGKILL)

    async def gone(self) -> None:
        """Wait for the end of PID 1, which ends after all others."""
        if self._first is not None:
            await trio.lowlevel.wait_readable(self._first[1])

    def close(self) -> None:
        """Reap PID 1 if it was reparented to us, and close the pidfd."""
        if self._first is not None:
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._first[1], os.WEXITED | os.WNOHANG)
            os.close(self._first[1])


class Bubblewrap(msgspec.Struct, frozen=True):
    """Run commands with the bwrap at *program*.

    *disable_userns*: bwrap has that option (0.8); without it only the system call filter forbids
    nested namespaces.
    """

    context: SandboxContext
    program: str
    disable_userns: bool = True
    rung: Rung = "bubblewrap"

    def map_path(self, path: Path) -> str | None:
        return self.context.map_path(path, moved=True)

    async def run(self, command: Command) -> CommandOutcome:
        layout = await self.context.layout(command.mounts)
        with ExitStack() as stack:
            status = stack.enter_context(from_child())
            gate = stack.enter_context(to_child(never_ends=True))
            filter_ = stack.enter_context(to_child())
            await filter_.write(seccomp.program(seccomp.PLAIN_FAMILIES))
            filter_.hang_up()
            fds = (status.theirs, gate.theirs, filter_.theirs)
            options = _write_options(self._options(command, layout.mounts, *fds))
            stack.callback(os.close, options)
            argv = [title(self.context.state), "--args", str(options), "--", *command.argv]
            child = ChildProcess(self.rung, self.program, argv, command, (*fds, options))
            for pipe in (status, gate, filter_):
                pipe.give()
            outcome = await self._supervise(child, command, status, gate)
            return msgspec.structs.replace(outcome, note=layout.note)

    async def _supervise(
        self, child: ChildProcess, command: Command, status: Pipe, gate: Pipe
    ) -> CommandOutcome:
        leash = _Namespace(child)

        async def begin() -> None:
            line = await status.read_line()
            first = _parse_status(line).child
            if first is not None:
                leash.hold(first)
                self._limit(first, command)
                await gate.write(b"\n")

        try:
            timed_out = await supervise(self.rung, child, leash, command.timeout, begin)
            line = await status.read_line()
        finally:
            leash.close()
        return self._outcome(child, _parse_status(line).code, timed_out)

    def _outcome(self, child: ChildProcess, code: int | None, timed_out: bool) -> CommandOutcome:
        if code is None and not timed_out:
            outcome = child.outputs.outcome(NOT_RUNNABLE)
            text = outcome.errors or outcome.output
            if not text.startswith(_NO_PROGRAM):
                raise SandboxFailed(
                    self.rung, text.decode(errors="replace").strip() or "no error message"
                )
            code = NOT_FOUND if b"No such file" in text else NOT_RUNNABLE
        return child.outputs.outcome(None if timed_out else code)

    def _limit(self, first: int, command: Command) -> None:
        """Set resource limits on the process that will become the command's parent."""
        for name, value in (self.context.settings.limits() | dict(command.limits)).items():
            kind: int = getattr(resource, f"RLIMIT_{name}")
            most = resource.prlimit(first, kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.prlimit(first, kind, (value, value))
        with suppress(OSError):  # a hardened unit may deny it
            Path(f"/proc/{first}/oom_score_adj").write_text(str(FIRST_KILLED))
            if not command.streams:
                os.setpriority(os.PRIO_PROCESS, first, NICENESS)

    def _options(
        self, command: Command, mounts: Sequence[Mount], status: int, gate: int, filter_: int
    ) -> Iterator[str]:
        # Not --unshare-all: it needs a cgroup namespace, which a hardened unit forbids.
        for kind in ("user", "pid", "ipc", "uts", *(() if command.network else ("net",))):
            yield f"--unshare-{kind}"
        if self.disable_userns:
            yield "--disable-userns"
        yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
        # Not --hostname: hardened units deny sethostname, even in a new namespace.
        yield from ("--uid", _ID, "--gid", _ID)
        yield from self._system(command.network)
        size = str(self.context.settings.tmp * MEGABYTE)
        yield from ("--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm")
        yield from ("--remount-ro", "/dev", "--size", size, "--tmpfs", "/tmp")
        for mount in mounts:
            yield from _mount_options(mount, writable=command.writable)
        for path, writable in command.shown.items():
            yield from ("--bind" if writable else "--ro-bind", path, path)
        for mount in mounts:
            if mount.kind == "hidden folder":  # after its covers are mounted
                yield from ("--remount-ro", mount.place)
        yield from ("--remount-ro", "/", "--chdir", WORKSPACE)
        for name, value in environment(command.environment, home=WORKSPACE).items():
            yield from ("--setenv", name, value)
        yield from ("--json-status-fd", str(status), "--block-fd", str(gate))
        yield from ("--seccomp", str(filter_))

    def _system(self, network: bool) -> Iterator[str]:
        for path in (*SYSTEM, NIXOS, *ETC):
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.exists(path):
                yield from ("--ro-bind", path, path)
        yield from ("--ro-bind", str(get_made_folder(self.context.state)), "/etc/elwood")
        for name in (*MADE_ETC, GIT_CONFIG):
            if not (network and name == "nsswitch.conf"):  # libc's default also uses DNS
                yield from ("--symlink", f"elwood/{name}", f"/etc/{name}")
        if network:
            yield from ("--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")


def _mount_options(mount: Mount, *, writable: bool) -> Iterator[str]:
    match mount.kind:
        case "shared":
            yield from ("--bind-try" if writable else "--ro-bind-try", mount.source, mount.place)
        case "readonly":
            yield from ("--ro-bind-try", mount.source, mount.place)
        case "hidden file":
            yield from ("--ro-bind", mount.source, mount.place)
        case "hidden folder":
            yield from ("--tmpfs", mount.place)


def _write_options(options: Iterable[str]) -> int:
    """Write *options* to an anonymous file, because every user of this machine sees arguments."""
    fd = os.memfd_create("options")
    with open(fd, "wb", closefd=False) as file:
        file.write(b"".join(b"%s\0" % os.fsencode(word) for word in options))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _parse_status(line: bytes) -> _Status:
    return msgspec.json.decode(line, type=_Status) if line else _Status()
