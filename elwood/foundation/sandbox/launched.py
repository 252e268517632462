"""The backends without namespaces: Landlock, and no sandbox.  A launcher supervises the command.

Landlock and a system call filter forbid files outside, and sockets.  `OPEN` lists what remains
possible.
"""

import marshal
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal
from uuid import uuid4

import msgspec
import trio

from elwood.foundation.sandbox import launcher, seccomp
from elwood.foundation.sandbox.children import (
    ChildProcess,
    kill_family,
    supervise,
    temporary,
    title,
)
from elwood.foundation.sandbox.command import Command, CommandOutcome, SandboxFailed
from elwood.foundation.sandbox.layout import (
    ETC,
    NIXOS,
    SYSTEM,
    MountedFolder,
    SandboxContext,
    environment,
)
from elwood.foundation.sandbox.pipes import Pipe, from_child, to_child

# Version of the marshal format; all Pythons since 2.5 read it.
_MARSHAL = 2


class _Monitor:
    """Ends a launcher by closing the pipe that it reads."""

    def __init__(self, child: ChildProcess, life: Pipe) -> None:
        self._child = child
        self._life = life

    def ask(self) -> None:
        """Make the launcher send SIGTERM to the command."""
        self._child.signal(signal.SIGTERM)

    def force(self) -> None:
        """Make the launcher kill everything and exit."""
        self._life.hang_up()

    async def gone(self) -> None:
        """Wait for the launcher, which ends last."""
        await self._child.note_end()


# The first Landlock version that confines signals (Linux 6.12).
_SCOPES_SIGNALS = 6
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Shown to the owner.  Landlock can only grant access, so no file in the workspace can be excluded.
OPEN = (
    "commands can change instruction files and .git/hooks, and read secret files, in the workspace",
    "commands can read secret files in folders with skills (skills.folders)",
    "commands can see names, sizes and modes of files outside the workspace, and change modes of "
    "Elwood's files",
    "commands share System V memory and the process list with the rest of the machine",
)
NO_SIGNAL_SCOPE = "commands can send signals to other processes of this user (needs Linux 6.12)"


def landlock_version() -> int:
    """Return the kernel's Landlock version, or 0 if it is unavailable."""
    try:
        return launcher.version()
    except OSError:
        return 0


def open_with_landlock(abi: int) -> tuple[str, ...]:
    """List what remains possible with Landlock version *abi*."""
    return OPEN if abi >= _SCOPES_SIGNALS else (*OPEN, NO_SIGNAL_SCOPE)


class Launched(msgspec.Struct, frozen=True):
    """Run commands in the workspace at its real path, with limits and a launcher that ends them.

    The backend "direct" does not confine them.
    """

    context: SandboxContext
    rung: Literal["landlock", "direct"]

    def map_path(self, path: Path) -> str | None:
        if self.rung == "direct":
            return str(path.resolve())
        return self.context.map_path(path, moved=False)

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*; "direct" ignores its *writable*.  Raises SandboxFailed."""
        if command.network and self.rung == "landlock":
            raise SandboxFailed(
                self.rung,
                "this sandbox cannot give a server network access; use another sandbox.kind",
            )
        context = self.context
        tmp = temporary(context.state) / uuid4().hex
        try:
            await context.blocking(lambda: tmp.mkdir(mode=0o700, parents=True))
        except OSError as error:
            why = f"cannot create a folder for temporary files: {error}"
            raise SandboxFailed(self.rung, why) from error
        try:
            return await self._run(command, tmp)
        finally:
            with trio.CancelScope(shield=True):
                await context.blocking(lambda: shutil.rmtree(tmp, ignore_errors=True))

    async def _run(self, command: Command, tmp: Path) -> CommandOutcome:
        context, workspace = self.context, str(self.context.workspace)
        lent = await context.blocking(context.present)
        given = {"TMPDIR": str(tmp)} | dict(command.environment)
        if self.rung == "landlock":
            given["GIT_CONFIG_NOSYSTEM"] = "1"  # git fails if it may not read that file
        todo = marshal.dumps(
            {
                "argv": list(command.argv),
                "folder": workspace,
                "environment": environment(given, home=workspace),
                "niceness": 0 if command.streams else launcher.NICENESS,
                "limits": context.settings.limits() | dict(command.limits),
                "walls": self._walls(command, tmp, lent),
            },
            _MARSHAL,
        )
        with ExitStack() as stack:
            life = stack.enter_context(to_child())
            status = stack.enter_context(from_child())
            keep = (life.theirs, status.theirs)
            argv = [sys.executable, "-IS", launcher.__file__, title(context.state), *map(str, keep)]
            child = ChildProcess(self.rung, sys.executable, argv, command, keep)
            life.give()
            status.give()
            timed_out = await supervise(
                self.rung,
                child,
                _Monitor(child, life),
                command.timeout,
                lambda: life.write(launcher.LENGTH.pack(len(todo)) + todo),
            )
            result = await status.read_line()
            if child.code != 0:
                # The command killed the launcher, so its processes may still run.
                await context.blocking(lambda: kill_family({child.pid}))
        if timed_out:
            return child.outputs.outcome(None)
        how, _, what = result.decode(errors="replace").strip().partition(" ")
        if how != "exit":
            raise SandboxFailed(self.rung, f"the launcher: {what or 'it was killed'}")
        return child.outputs.outcome(int(what))

    def _walls(
        self, command: Command, tmp: Path, lent: Sequence[MountedFolder]
    ) -> dict[str, object] | None:
        """Return the paths that a command may read and write, and its system call filter."""
        if self.rung == "direct":
            return None
        workspace = str(self.context.workspace)
        write = [*_DEVICES, str(tmp), *([workspace] if command.writable else [])]
        # No sockets at all, because there is no network namespace to confine them.
        filter_ = seccomp.program(())
        write += (path for path, writable in command.shown.items() if writable)
        read = [*SYSTEM, NIXOS, *ETC, workspace, *(str(one.path) for one in lent), *command.shown]
        return {"read": read, "write": write, "filter": filter_}
