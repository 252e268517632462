"""What is run in the workspace, what comes of it, and who can do it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

import attrs
import msgspec

if TYPE_CHECKING:
    from elwood.foundation.sandbox.pipes import Pipe

Rung = Literal["bubblewrap", "landlock", "docker", "direct"]

# As shells say it: the program was found and cannot be run; there is no such program; and what is
# added to the number of the signal that ended a program.
NOT_RUNNABLE = 126
NOT_FOUND = 127
BY_SIGNAL = 128


class NoSandbox(Exception):
    """No commands can be run here; *why* tells the owner what to install or to configure."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class SandboxFailed(Exception):
    """The sandbox broke, not the command; whether the command did something is not known."""

    def __init__(self, rung: Rung, why: str) -> None:
        super().__init__(f"{rung}: {why}")
        self.rung = rung
        self.why = why


def _is_argv(_: object, __: object, argv: tuple[str, ...]) -> None:
    if not argv or not argv[0]:
        raise ValueError("a command needs a program")
    if any("\0" in word for word in argv):
        raise ValueError("a word of a command cannot hold a zero byte")


def _is_environment(_: object, __: object, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r}: not a variable that can be set")


@attrs.frozen(kw_only=True)
class Command:
    """One program to run in the workspace, for at most *timeout* seconds.

    The rung finds the program by its PATH; there is no shell unless *argv* names one.  Without
    *stdin* it reads ``/dev/null``.  Of the output at most *limit* bytes are kept.  *environment*
    is added to the minimal one and can be seen by others on the machine: never secrets.

    With *merge* stderr goes where stdout goes, in the order of writing; else it is kept apart, as
    a pipeline needs it.

    A server is a command whose stdin, stdout and stderr are the far ends of *streams*, which are
    given away when it starts.  *network* lets it reach what this machine reaches; *shown* are
    folders of this machine that it sees where they are, and writes where that is True; *limits*
    take the place of those of the settings; *secrets* are variables that nobody else can see.
    *started* is told its process.  Of the folders that the owner mounted it sees those at *mounts*.
    """

    argv: tuple[str, ...] = attrs.field(validator=_is_argv)
    stdin: bytes = b""
    timeout: float
    limit: int = 200_000
    writable: bool = True
    environment: Mapping[str, str] = attrs.field(factory=dict, validator=_is_environment)
    merge: bool = True
    streams: "Sequence[Pipe]" = ()
    network: bool = False
    shown: Mapping[str, bool] = attrs.field(factory=dict)
    limits: Mapping[str, int] = attrs.field(factory=dict)
    secrets: Mapping[str, str] = attrs.field(factory=dict, repr=False, validator=_is_environment)
    started: Callable[[int], object] = lambda pid: None
    mounts: Collection[str] = ()


class CommandOutcome(msgspec.Struct, frozen=True):
    """What a command came to.

    *code* is its exit code, 128 and the signal if one ended it, None if we did.  *cut* counts the
    bytes left out of *output*, where a line says so.  *errors* is stderr, if it was kept apart.
    *note* tells its reader what the sandbox kept from it.
    """

    code: int | None
    output: bytes
    cut: int = 0
    errors: bytes = b""
    note: str = ""

    @property
    def timed_out(self) -> bool:
        return self.code is None


class Executor(Protocol):
    """A rung of the ladder that was found to work."""

    @property
    def rung(self) -> Rung:
        """Which one."""

    def place(self, path: Path) -> str | None:
        """Say where commands find *path* of this machine; None if they do not.  Blocks."""

    async def run(self, command: Command) -> CommandOutcome:
        """Run *command*; nothing of it is alive when this returns or is cancelled.

        Raises SandboxFailed.
        """


# What git must be run with, and nothing else of ours: no configuration but the repository's, and no
# fetching of objects that are missing, which runs what the repository names as its server.
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
