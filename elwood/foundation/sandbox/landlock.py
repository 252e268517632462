"""The second rung: Landlock and a filter of system calls, where namespaces cannot be had.

Files outside are not read or written and there are no sockets.  What Landlock cannot do stays
open, and `OPEN` says it.
"""

import ctypes
import sys
from pathlib import Path

import attrs

from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox import seccomp
from elwood.foundation.sandbox.command import (
    Command,
    Outcome,
    Rung,
    SandboxSettings,
)
from elwood.foundation.sandbox.launched import Walls, launch
from elwood.foundation.sandbox.layout import ETC, NIXOS, SYSTEM
from elwood.foundation.sandbox.lending import Lent, present, unmoved
from elwood.foundation.sandbox.running import Running

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


def version() -> int:
    """Return the version of Landlock that this kernel has; 0 if there is none for us."""
    libc = ctypes.CDLL(None, use_errno=True)
    size, flags = ctypes.c_size_t(0), ctypes.c_uint32(_GET_VERSION)
    return max(0, int(libc.syscall(ctypes.c_long(_CREATE_RULESET), None, size, flags)))


def open_here(abi: int) -> tuple[str, ...]:
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

    async def run(self, command: Command) -> Outcome:
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
