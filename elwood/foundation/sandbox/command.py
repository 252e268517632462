"""Commands in the workspace, their outcomes, and the interface of sandbox backends."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

import attrs
import msgspec

if TYPE_CHECKING:
    from elwood.foundation.sandbox.pipes import Pipe

Rung = Literal["bubblewrap", "landlock", "docker", "direct"]

# Exit codes of shells: the program cannot be run; it was not found; base to which the number of
# the fatal signal is added.
NOT_RUNNABLE = 126
NOT_FOUND = 127
BY_SIGNAL = 128


class NoSandbox(Exception):
    """No commands can be run here; *why* tells the owner what to install or configure."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class SandboxFailed(Exception):
    """The sandbox failed, not the command; the command may have done part of its work."""

    def __init__(self, rung: Rung, why: str) -> None:
        super().__init__(f"{rung}: {why}")
        self.rung = rung
        self.why = why


def _is_argv(_: object, __: object, argv: tuple[str, ...]) -> None:
    if not argv or not argv[0]:
        raise ValueError("the command is empty")
    if any("\0" in word for word in argv):
        raise ValueError("an argument of a command cannot contain a zero byte")


def _is_environment(_: object, __: object, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"the variable {name!r} cannot be set")


@attrs.frozen(kw_only=True)
class Command:
    """A program to run in the workspace; a server is a command with *streams*."""

    # The backend searches its PATH; there is no shell unless argv names one.
    argv: tuple[str, ...] = attrs.field(validator=_is_argv)
    # Empty: it reads /dev/null.
    stdin: bytes = b""
    # Seconds.
    timeout: float
    # Maximum bytes of output that are kept.
    limit: int = 200_000
    # Whether it may write to the workspace.
    writable: bool = True
    # Added to the minimal environment.  Other users of the machine do not see it, unlike *argv*.
    environment: Mapping[str, str] = attrs.field(
        factory=dict, repr=False, validator=_is_environment
    )
    # Merge stderr into stdout, in order; otherwise it is kept apart, as a pipeline needs it.
    merge: bool = True
    # stdin, stdout and stderr of a server; the child's ends are closed here when it starts.
    streams: "Sequence[Pipe]" = ()
    # Allow the network of this machine.
    network: bool = False
    # Folders of this machine, visible at their own paths; True: writable.
    shown: Mapping[str, bool] = attrs.field(factory=dict)
    # Override the limits of the settings.
    limits: Mapping[str, int] = attrs.field(factory=dict)
    # Called with the process id.
    started: Callable[[int], object] = lambda pid: None
    # Called with a function that returns the last bytes of its output so far.
    watch: Callable[[Callable[[int], bytes]], object] = lambda last: None
    # Places of the owner's mounts that it sees.
    mounts: Collection[str] = ()


class CommandOutcome(msgspec.Struct, frozen=True):
    """The result of a command."""

    # Exit code, 128 plus the signal that ended it, or None after a timeout.
    code: int | None
    # A line marks omitted bytes.
    output: bytes
    # Number of bytes omitted from the output.
    cut: int = 0
    # stderr, if not merged.
    errors: bytes = b""
    # What the sandbox hid from the command, for the reader of the output.
    note: str = ""

    @property
    def timed_out(self) -> bool:
        return self.code is None


class Executor(Protocol):
    """A sandbox backend that passed its self-test."""

    @property
    def rung(self) -> Rung:
        """Kind of the backend."""

    def map_path(self, path: Path) -> str | None:
        """Return the path at which commands see *path*, or None.  Blocks."""

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*; all its processes are gone when this returns or is cancelled.

        Raises SandboxFailed.
        """


# Required environment of git: only the repository's own configuration, and no fetching of missing
# objects, which would run a program that the repository names as its server.
GIT_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
)
