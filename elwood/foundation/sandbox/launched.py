"""The two rungs without namespaces, Landlock and none at all: a launcher stays with the command.

With Landlock and a filter of system calls files outside are not read or written and there are no
sockets.  What it cannot do stays open, and `OPEN` says it.
"""

import ctypes
import marshal
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import attrs
import trio

from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.children import (
    ChildProcess,
    Pipe,
    attend,
    from_child,
    kill_family,
    to_child,
)
from elwood.foundation.sandbox.command import (
    Command,
    CommandOutcome,
    SandboxFailed,
    no_folder,
    not_started,
)
from elwood.foundation.sandbox.launcher import LENGTH
from elwood.foundation.sandbox.layout import ETC, NIXOS, SYSTEM, Lent, SandboxContext, environment

# The launcher is run as a program.
_LAUNCHER = Path(__file__).with_name("launcher.py")
# Of marshal's format; all Pythons since 2.5 read it.
_MARSHAL = 2


class _Monitor:
    """The leash of a launcher: the pipe whose end it waits for."""

    def __init__(self, child: ChildProcess, life: Pipe) -> None:
        self._child = child
        self._life = life

    def ask(self) -> None:
        """Let the launcher ask the command to end."""
        self._child.signal(signal.SIGTERM)

    def force(self) -> None:
        """Let the launcher kill everything and end."""
        self._life.hang_up()

    async def gone(self) -> None:
        """Wait for the launcher, which ends as the last."""
        await self._child.ended()


_CREATE_RULESET, _GET_VERSION = 444, 1
# Landlock of this version keeps signals from leaving (Linux 6.12).
_SCOPES_SIGNALS = 6
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# For the owner: rights to files are only ever given, so the workspace is one piece.
OPEN = (
    "commands can change instruction files and .git/hooks, and read secret files, in the workspace",
    "commands can read secret files in folders with skills (skills.folders)",
    "commands can see names, sizes and modes of files elsewhere, and change modes of Elwood's own",
    "commands share System V memory and the list of processes with the rest of the machine",
)
NO_SIGNAL_SCOPE = "commands can send signals to other processes of this user (needs Linux 6.12)"


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has; 0 if there is none for us."""
    libc = ctypes.CDLL(None, use_errno=True)
    size, flags = ctypes.c_size_t(0), ctypes.c_uint32(_GET_VERSION)
    return max(0, int(libc.syscall(ctypes.c_long(_CREATE_RULESET), None, size, flags)))


def open_with_landlock(abi: int) -> tuple[str, ...]:
    """Say what stays open with Landlock of version *abi*."""
    return OPEN if abi >= _SCOPES_SIGNALS else (*OPEN, NO_SIGNAL_SCOPE)


@attrs.frozen
class Launched:
    """Runs commands in the workspace under its own name, with limits and a launcher that ends them.

    The rung "direct" has no walls.
    """

    context: SandboxContext
    rung: Literal["landlock", "direct"]

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*; blocks."""
        if self.rung == "direct":
            return str(path.resolve())
        return self.context.place(path, moved=False)

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*; without walls its *writable* is not heeded.  Raises SandboxFailed."""
        context, running = self.context, self.context.running
        if command.network and self.rung == "landlock":
            raise SandboxFailed(self.rung, "it has no network to give; take another sandbox")
        folder = context.workspace / command.folder
        if not await context.blocking(folder.is_dir):
            return no_folder(command)
        lent = await context.blocking(context.present)
        name = running.name()
        try:
            tmp = await context.blocking(lambda: running.make_tmp(name))
        except OSError as error:
            raise SandboxFailed(
                self.rung, f"cannot make a folder for temporary files: {error}"
            ) from error
        given = {"TMPDIR": str(tmp)} | dict(command.environment) | dict(command.secrets)
        if self.rung == "landlock":
            given["GIT_CONFIG_NOSYSTEM"] = "1"  # git gives up if it may not look
        todo = marshal.dumps(
            {
                "argv": list(command.argv),
                "folder": str(folder),
                "environment": environment(given, home=str(context.workspace)),
                "limits": context.settings.limits() | dict(command.limits),
                "walls": self._walls(command, tmp, lent),
            },
            _MARSHAL,
        )
        try:
            with ExitStack() as stack:
                life = stack.enter_context(to_child())
                status = stack.enter_context(from_child())
                keep = (life.theirs, status.theirs)
                argv = [sys.executable, "-IS", str(_LAUNCHER), *map(str, keep)]
                try:
                    child = ChildProcess(argv, command, environment={}, keep=keep)
                except OSError as error:
                    return not_started(self.rung, error)
                life.give()
                status.give()

                async def begin() -> None:
                    await context.blocking(lambda: running.note(name, (child.pid,)))
                    await life.write(LENGTH.pack(len(todo)) + todo)

                timed_out = await attend(
                    self.rung, child, _Monitor(child, life), command.timeout, begin
                )
                said = await status.read_line()
                if child.code != 0:
                    # Killed from within, so what it watched over may live.
                    await context.blocking(lambda: kill_family({child.pid}))
        finally:
            with trio.CancelScope(shield=True):
                await context.blocking(lambda: running.forget(name))
        if timed_out:
            return child.outputs.outcome(None)
        how, _, what = said.decode(errors="replace").strip().partition(" ")
        if how != "exit":
            raise SandboxFailed(self.rung, f"the launcher: {what or 'was killed'}")
        return child.outputs.outcome(int(what))

    def _walls(self, command: Command, tmp: Path, lent: Sequence[Lent]) -> dict[str, object] | None:
        """Say what a command may read and write, and filter its system calls."""
        if self.rung == "direct":
            return None
        workspace = str(self.context.workspace)
        write = [*_DEVICES, str(tmp), *([workspace] if command.writable else [])]
        # No sockets at all: there is no network namespace to keep them in.
        filter_ = seccomp.program(())
        write += (path for path, writable in command.shown.items() if writable)
        read = [*SYSTEM, NIXOS, *ETC, workspace, *(str(one.path) for one in lent), *command.shown]
        return {"read": read, "write": write, "filter": filter_}

    async def close(self) -> None:
        """Hold nothing."""
