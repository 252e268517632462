"""What a command of ``elwood`` is, and how each of them asks, fails and ends.

Imports next to nothing: commands are listed whenever one is run.  What a command needs it imports
when it runs.
"""

import io
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from elwood.foundation.text.characters import printable

if TYPE_CHECKING:
    from typing import TextIO

    from elwood.foundation.settings import Config

Needs = Literal["nothing", "settings", "secrets"]
# 2 is what argparse ends with when it does not understand what was typed.
OK, FAILURE, USAGE = 0, 1, 2
# EX_CONFIG of sysexits.h, at which systemd does not start us again.
MISCONFIGURED = 78
# What a shell shows for a command ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
# What may be listed at once: it is held, to be put in order.
MOST = 100_000


class CliFailure(Exception):
    """The command could not do it; the text says why, to the person at the terminal.

    *code* is the exit code.
    """

    def __init__(self, text: object, code: int = FAILURE) -> None:
        super().__init__(text)
        self.code = code


class CliCommand(NamedTuple):
    """A word behind ``elwood``, or behind the command that has it *within* its own.

    *run* gets the configuration and what was typed, prints, and returns the exit code; it may raise
    CliFailure and OSError, which end with a line on stderr.  Without it one of *within* must be
    typed.  *needs* is what is read first: "secrets" means the configuration with them; "settings"
    without, so that people may run it who cannot read them; with "nothing" the configuration is
    empty but for its file.  A *quiet* command logs errors only, unless told to be verbose.
    """

    name: str
    help: str
    run: "Callable[[Config, Namespace], int] | None" = None
    arguments: Callable[[ArgumentParser], object] = lambda parser: None
    within: "tuple[CliCommand, ...]" = ()
    needs: Needs | Callable[[Namespace], Needs] = "settings"
    quiet: bool = True


class Printer(io.TextIOWrapper):
    """A standard stream as all commands have it: nothing written to it commands the terminal.

    Notes, names of files and words of strangers are printed, and a pipe may end at a terminal, too.
    """

    def write(self, text: str, /) -> int:
        """Write *text*, what is not printable by its number."""
        return super().write(printable(text))

    @classmethod
    def install(cls) -> None:
        """Take the place of stdout and stderr, those that are there."""
        sys.stdout, sys.stderr = cls._around(sys.stdout), cls._around(sys.stderr)

    @classmethod
    def _around(cls, stream: "TextIO") -> "TextIO":
        if stream is None or isinstance(stream, cls):
            return stream
        stream.flush()
        # Text that the terminal's encoding lacks is no reason to end.
        lacks = "backslashreplace"
        by_line = bool(stream.line_buffering)
        return cls(stream.buffer, stream.encoding, lacks, None, by_line, write_through=True)


def put_out(content: bytes) -> None:
    """Write what is asked for byte for byte: into a file or a pipe so, on a terminal printable."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        print(content.decode("utf-8", "replace"), end="")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def count(text: str) -> int:
    """Read a number that is typed, from 1 on."""
    if not text.isdecimal() or not 1 <= int(text[:10]) <= MOST:
        raise ArgumentTypeError(f"use a number between 1 and {MOST}")
    return int(text)


def is_wanted(question: str) -> bool:
    """Ask on the terminal; where there is none the answer is no."""
    if not sys.stdin.isatty():
        print("Nobody can be asked here; say --yes if you are sure.", file=sys.stderr)
        return False
    return ask(f"{question} [y/N]").lower() in ("y", "yes")


def ask(question: str, usual: str = "", wanted: str = ".*", *, unseen: bool = False) -> str:
    """Ask on the terminal until the answer fits *wanted*; Enter alone is *usual*.

    What is *unseen* is not shown while it is typed.  Ctrl-D raises EOFError.
    """
    from getpass import getpass

    while True:
        if not unseen:
            print(question, end=f" [{usual}] " if usual else " ", flush=True)
        try:
            said = (getpass(f"{question} ") if unseen else input()).strip() or usual
        except UnicodeDecodeError:
            continue
        if said.isprintable() and re.fullmatch(wanted, said):
            return said
        print("  That does not look right. Once more:")
