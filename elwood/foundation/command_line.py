"""What a command of ``elwood`` is, and how each of them asks, fails and ends.

Imports next to nothing: commands are listed whenever one is run.  What a command needs it imports
when it runs.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import TextIO

    from elwood.foundation.settings import Config
    from elwood.foundation.text.tables import Line, Row, Style

Needs = Literal["nothing", "settings", "secrets"]
# 2 is what argparse ends with when it does not understand what was typed.
OK, FAILURE, USAGE = 0, 1, 2
# EX_CONFIG of sysexits.h, at which systemd does not start us again.
MISCONFIGURED = 78
# What a shell shows for a command ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
# What may be listed at once: it is held, to be put in order.
MOST = 100_000
# It ends when all fits, passes colours on, and leaves what it showed on the screen.
PAGER = "less -FRX"
# Select Graphic Rendition (ECMA-48): the colours are those of the person's own theme.
_SGR: "dict[Style, str]" = {"bold": "1", "dim": "2", "good": "32", "warning": "33", "bad": "31"}


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
    arguments: "Callable[[ArgumentParser], object]" = lambda parser: None
    within: "tuple[CliCommand, ...]" = ()
    needs: "Needs | Callable[[Namespace], Needs]" = "settings"
    quiet: bool = True


def imported(module: str, name: str) -> Callable[..., Any]:
    """Make a function that calls *name* of *module*, which is imported at the first call.

    What a feature is made of takes a third of a second to import, and is needed by few commands.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


class Printer(io.TextIOWrapper):
    """A standard stream as all commands have it: nothing written to it commands the terminal.

    Notes, names of files and words of strangers are printed, and a pipe may end at a terminal, too.
    """

    def write(self, text: str, /) -> int:
        """Write *text*, what is not printable by its number."""
        from elwood.foundation.text.characters import printable

        return super().write(printable(text))

    def draw(self, text: str) -> None:
        """Write what `_drawn` made, with the styles in it."""
        super().write(text)

    @classmethod
    def install(cls) -> None:
        """Take the place of stdout and stderr; a standard stream that is closed leads nowhere."""
        # In this order: no file or socket that is opened later gets the number of one of them.
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                nowhere = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 -- it stays
                setattr(sys, name, nowhere)
                setattr(sys, f"__{name}__", nowhere)
        sys.stdout, sys.stderr = cls._around(sys.stdout), cls._around(sys.stderr)

    @classmethod
    def release(cls) -> None:
        """Flush stdout and stderr; redirect one whose reader has gone to nowhere.

        Otherwise Python tries again at the exit, complains, and ends with the code 120.
        """
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

    @classmethod
    def _around(cls, stream: "TextIO") -> "TextIO":
        if isinstance(stream, cls):
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


# --- lists and tables ----------------------------------------------------------------------------


def json_switch(parser: "ArgumentParser") -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def show_list(
    titles: Sequence[str],
    found: "Sequence[tuple[object, Row]]",
    given: "Namespace",
    none: str,
    spare: Sequence[str] = (),
    *,
    pages: bool = True,
) -> None:
    """Print what was *found* as a table, or with --json as that; if there is *none*, say so."""
    import msgspec

    from elwood.foundation.text.characters import printable_json
    from elwood.foundation.text.tables import table

    if getattr(given, "json", False):
        document = msgspec.json.encode([one for one, _ in found], enc_hook=str)
        print(printable_json(msgspec.json.format(document).decode()))
    elif found:
        show_lines(table(titles, [row for _, row in found], room(), spare), pages=pages)
    else:
        print(none, file=sys.stderr)


def room() -> int | None:
    """Say how many columns what is printed must fit into; None: a pipe takes any."""
    from shutil import get_terminal_size

    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return get_terminal_size().columns if is_known else None


def show_lines(lines: "Sequence[Line]", *, pages: bool = True) -> None:
    """Print *lines*: on a terminal in colour, and by the pager if they are too many for it."""
    out = sys.stdout
    if not (isinstance(out, Printer) and out.isatty() and os.environ.get("TERM", "dumb") != "dumb"):
        for line in lines:
            print("".join(part.text for part in line).rstrip())
        return
    from shutil import get_terminal_size

    text = "".join(map(_drawn, lines))
    if not pages or len(lines) < get_terminal_size().lines or not _paged(text):
        out.draw(text)


def _drawn(line: "Line") -> str:
    from elwood.foundation.text.characters import printable

    parts = [(printable(part.text), _SGR.get(part.style)) for part in line]
    if os.environ.get("NO_COLOR"):
        return f"{''.join(text for text, _ in parts).rstrip()}\n"
    return "".join(f"\x1b[{sgr}m{text}\x1b[m" if sgr else text for text, sgr in parts) + "\n"


def _paged(text: str) -> bool:
    """Let the person's pager show *text*; False if there is none."""
    import shlex
    import subprocess

    try:
        command = shlex.split(os.environ.get("PAGER", PAGER))
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
    except (OSError, ValueError, IndexError):
        return False
    with suppress(BrokenPipeError, KeyboardInterrupt):  # they have seen enough
        pager.communicate(text)
    while True:
        with suppress(KeyboardInterrupt):  # which the pager takes: it must not lose its terminal
            pager.wait()
            return True


def count(text: str) -> int:
    """Read a number that is typed, from 1 on."""
    from argparse import ArgumentTypeError

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
    import re
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
