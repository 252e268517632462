"""The two rungs without namespaces, Landlock and none at all: a launcher stays with the command.

With Landlock and a filter of system calls files outside are not read or written and there are no
sockets.  What it cannot do stays open, and `OPEN` says it.
"""

import ctypes
import marshal
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import attrs
import msgspec
import trio

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.children import ChildProcess, Pipe, attend, from_child, to_child
from elwood.foundation.sandbox.command import (
    Command,
    CommandOutcome,
    Rung,
    SandboxFailed,
    no_folder,
    not_started,
)
from elwood.foundation.sandbox.launcher import LENGTH
from elwood.foundation.sandbox.layout import ETC, NIXOS, SYSTEM, Lent, environment, present, unmoved
from elwood.foundation.sandbox.running import Running, kill_family
from elwood.foundation.sandbox.settings import SandboxSettings

# The launcher is run as a program.
_LAUNCHER = Path(__file__).with_name("launcher.py")
# Of marshal's format; all Pythons since 2.5 read it.
_MARSHAL = 2


class Walls(msgspec.Struct, frozen=True):
    """What Landlock lets a command read and write, and the filter of its system calls."""

    read: list[str]
    write: list[str]
    filter: bytes


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


async def launch(
    rung: Rung,
    command: Command,
    *,
    workspace: Path,
    settings: SandboxSettings,
    running: Running,
    blocking: Blocking,
    walls: Callable[[Path], Walls] | None = None,
    python: str = sys.executable,
) -> CommandOutcome:
    """Run *command* by a launcher; *walls* are built around its temporary folder.

    Raises SandboxFailed.
    """
    folder = workspace / command.folder
    if not await blocking(folder.is_dir):
        return no_folder(command)
    name = running.name()
    try:
        tmp = await blocking(lambda: running.make_tmp(name))
    except OSError as error:
        raise SandboxFailed(rung, f"cannot make a folder for temporary files: {error}") from error
    given = {"TMPDIR": str(tmp)} | dict(command.environment)
    if walls is not None:
        given["GIT_CONFIG_NOSYSTEM"] = "1"  # git gives up if it may not look
    todo = marshal.dumps(
        {
            "argv": list(command.argv),
            "folder": str(folder),
            "environment": environment(given, home=str(workspace)),
            "limits": settings.limits(),
            "walls": None if walls is None else msgspec.structs.asdict(walls(tmp)),
        },
        _MARSHAL,
    )
    try:
        with ExitStack() as stack:
            life = stack.enter_context(to_child())
            status = stack.enter_context(from_child())
            keep = (life.theirs, status.theirs)
            argv = [python, "-IS", str(_LAUNCHER), *map(str, keep)]
            try:
                child = ChildProcess(argv, command, environment={}, keep=keep)
            except OSError as error:
                return not_started(rung, error)
            life.give()
            status.give()

            async def begin() -> None:
                await blocking(lambda: running.note(name, (child.pid,)))
                await life.write(LENGTH.pack(len(todo)) + todo)

            timed_out = await attend(rung, child, _Monitor(child, life), command.timeout, begin)
            said = await status.read_line()
            if child.code != 0:
                # Killed from within, so what it watched over may live.
                await blocking(lambda: kill_family({child.pid}))
    finally:
        with trio.CancelScope(shield=True):
            await blocking(lambda: running.forget(name))
    return _outcome(rung, child, said, timed_out)


def _outcome(rung: Rung, child: ChildProcess, said: bytes, timed_out: bool) -> CommandOutcome:
    output = child.output.value()
    errors = b"" if child.errors is child.output else child.errors.value()
    if timed_out:
        return CommandOutcome(None, output, child.output.cut, True, errors)
    how, _, what = said.decode(errors="replace").strip().partition(" ")
    if how != "exit":
        raise SandboxFailed(rung, f"the launcher: {what or 'was killed'}")
    return CommandOutcome(int(what), output, child.output.cut, False, errors)


@attrs.frozen(kw_only=True)
class Direct:
    """Runs commands in *workspace*, with limits and a launcher that ends them, without walls."""

    workspace: Path
    settings: SandboxSettings
    running: Running
    blocking: Blocking

    @property
    def rung(self) -> Rung:
        return "direct"

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*: where it is, as they find everything; blocks."""
        return str(path.resolve())

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*; *writable* is not heeded.  Raises SandboxFailed."""
        return await launch(
            self.rung,
            command,
            workspace=self.workspace,
            settings=self.settings,
            running=self.running,
            blocking=self.blocking,
        )

    async def close(self) -> None:
        """Hold nothing."""


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


@attrs.frozen(kw_only=True)
class Landlock:
    """Runs commands in *workspace*, which they see under its own name, as they do what is *lent*.

    *python* runs the launcher.
    """

    workspace: Path
    settings: SandboxSettings
    running: Running
    blocking: Blocking
    python: str = sys.executable
    lent: tuple[Lent, ...] = ()

    @property
    def rung(self) -> Rung:
        return "landlock"

    def place(self, path: Path) -> str | None:
        """Say where commands find *path*; blocks."""
        return unmoved(path, self.workspace, self.lent)

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*.  Raises SandboxFailed."""
        lent = await self.blocking(lambda: present(self.lent))

        def walls(tmp: Path) -> Walls:
            read = [*SYSTEM, NIXOS, *ETC, str(self.workspace)]
            read += [str(one.path) for one in lent]
            write = [*_DEVICES, str(tmp)]
            if command.writable:
                write.append(str(self.workspace))
            # No sockets at all: there is no network namespace to keep them in.
            return Walls(read, write, seccomp.program(()))

        return await launch(
            self.rung,
            command,
            workspace=self.workspace,
            settings=self.settings,
            running=self.running,
            blocking=self.blocking,
            walls=walls,
            python=self.python,
        )

    async def close(self) -> None:
        """Hold nothing."""
