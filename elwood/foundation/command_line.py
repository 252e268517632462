"""What a command of ``elwood`` is, and how each of them asks, fails and ends.

Imports next to nothing: commands are listed whenever one is run.  What a command needs it imports
when it runs.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from elwood.foundation.settings import Config

OK, FAILURE = 0, 1


class CliFailure(Exception):
    """The command could not do it; the text says why, to the person at the terminal."""


class CliCommand(NamedTuple):
    """A word behind ``elwood``, or behind the command that has it *within* its own.

    *run* gets the configuration and what was typed, prints, and returns the exit code; it may raise
    CliFailure and OSError, which end with a line on stderr and 1.  Without it one of *within* must
    be typed.  *needs* is what is read first: configuration and secrets, none of the secrets, so that
    people may run it who cannot read them, or nothing; then the configuration has a file only.
    Logs only errors unless the person wants more, or if it is not *quiet*.
    """

    name: str
    help: str
    run: "Callable[[Config, Namespace], int] | None" = None
    arguments: Callable[[ArgumentParser], object] = lambda parser: None
    within: "tuple[CliCommand, ...]" = ()
    needs: Literal["nothing", "settings", "secrets"] = "settings"
    quiet: bool = True


def is_wanted(question: str) -> bool:
    """Ask on the terminal; where there is none the answer is no."""
    if not sys.stdin.isatty():
        print("Nobody can be asked here; say --yes if you are sure.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
