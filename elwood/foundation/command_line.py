"""Commands of ``elwood``: definition, prompts, output, failures and exit codes.

It imports almost nothing, because every run lists all commands.  A command imports its modules when
it runs.
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
# 2 is the exit code of argparse for wrong usage.
OK, FAILURE, USAGE = 0, 1, 2
# EX_CONFIG of sysexits.h; systemd does not restart Elwood after it.
MISCONFIGURED = 78
# The shell's exit code for a command ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
# Maximum number of listed items; they are held in memory for sorting.
MOST = 100_000
# Exit if everything fits on one screen, pass colours through, leave the text on the screen.
PAGER = "less -FRX"
# Select Graphic Rendition (ECMA-48): these colours follow the theme of the terminal.
_SGR: "dict[Style, str]" = {"bold": "1", "dim": "2", "good": "32", "warning": "33", "bad": "31"}


class CliFailure(Exception):
    """A command failed; the text explains why to the person at the terminal.

    *code* is the exit code.
    """

    def __init__(self, text: object, code: int = FAILURE) -> None:
        super().__init__(text)
        self.code = code


class CliCommand(NamedTuple):
    """A command or subcommand of ``elwood``."""

    name: str
    help: str
    # Prints and returns the exit code.  CliFailure and OSError end with a line on stderr.
    # Without it a subcommand is required.
    run: "Callable[[Config, Namespace], int] | None" = None
    arguments: "Callable[[ArgumentParser], object]" = lambda parser: None
    # The subcommands.
    within: "tuple[CliCommand, ...]" = ()
    # "secrets": the configuration with secrets; "settings": without, so that people who cannot
    # read them may run it; "nothing": a configuration that has only its file.
    needs: "Needs | Callable[[Namespace], Needs]" = "settings"
    # Log errors only, unless the user asks for more.
    quiet: bool = True


def import_lazily(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports *module* when first called, and calls *name* of it.

    The modules of a feature take a third of a second to import, and few commands need them.
    """

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return call


class Printer(io.TextIOWrapper):
    """A standard stream that escapes terminal control sequences.

    Commands print notes, file names and text of strangers, and a pipe may also end at a terminal.
    """

    def write(self, text: str, /) -> int:
        """Write *text*, with unprintable characters escaped."""
        from elwood.foundation.text.characters import printable

        return super().write(printable(text))

    def draw(self, text: str) -> None:
        """Write *text* from `_draw_line` unescaped, to keep its styles."""
        super().write(text)

    @classmethod
    def install(cls) -> None:
        """Replace stdout and stderr; open each closed standard stream on the null device."""
        # In this order, so that no file or socket opened later gets one of their numbers.
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, name) is None:
                null = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 -- stays open
                setattr(sys, name, null)
                setattr(sys, f"__{name}__", null)
        sys.stdout, sys.stderr = cls._wrap(sys.stdout), cls._wrap(sys.stderr)

    @classmethod
    def release(cls) -> None:
        """Flush stdout and stderr; redirect a stream to the null device if its reader is gone.

        Otherwise Python tries again at exit, prints an error, and exits with code 120.
        """
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

    @classmethod
    def _wrap(cls, stream: "TextIO") -> "TextIO":
        if isinstance(stream, cls):
            return stream
        stream.flush()
        # Characters missing in the terminal's encoding must not raise.
        errors = "backslashreplace"
        by_line = bool(stream.line_buffering)
        return cls(stream.buffer, stream.encoding, errors, None, by_line, write_through=True)


def put_out(content: bytes) -> None:
    """Write *content* to stdout: unchanged to a file or pipe, printable to a terminal."""
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
    """Print *found* as a table, or as JSON with --json; print *none* if it is empty."""
    from elwood.foundation.text.tables import table

    if getattr(given, "json", False):
        show_json([one for one, _ in found])
    elif found:
        show_lines(table(titles, [row for _, row in found], room(), spare), pages=pages)
    else:
        print(none, file=sys.stderr)


def show_json(document: object) -> None:
    import msgspec

    from elwood.foundation.text.characters import printable_json

    data = msgspec.json.encode(document, enc_hook=str)
    print(printable_json(msgspec.json.format(data).decode()))


def room() -> int | None:
    """Return the width of the terminal in columns; None for a pipe, which has no limit."""
    from shutil import get_terminal_size

    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return get_terminal_size().columns if is_known else None


def show_lines(lines: "Sequence[Line]", *, pages: bool = True) -> None:
    """Print *lines*; on a terminal in colour, and in the pager if they do not fit."""
    out = sys.stdout
    if not (isinstance(out, Printer) and out.isatty() and os.environ.get("TERM", "dumb") != "dumb"):
        for line in lines:
            print("".join(part.text for part in line).rstrip())
        return
    from shutil import get_terminal_size

    text = "".join(map(_draw_line, lines))
    if not pages or len(lines) < get_terminal_size().lines or not _show_in_pager(text):
        out.draw(text)


def _draw_line(line: "Line") -> str:
    from elwood.foundation.text.characters import printable

    parts = [(printable(part.text), _SGR.get(part.style)) for part in line]
    if os.environ.get("NO_COLOR"):
        return f"{''.join(text for text, _ in parts).rstrip()}\n"
    return "".join(f"\x1b[{sgr}m{text}\x1b[m" if sgr else text for text, sgr in parts) + "\n"


def _show_in_pager(text: str) -> bool:
    """Show *text* in the user's pager; return False if there is none."""
    import shlex
    import subprocess

    try:
        command = shlex.split(os.environ.get("PAGER", PAGER))
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="utf-8")
    except (OSError, ValueError, IndexError):
        return False
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the user closed the pager
        pager.communicate(text)
    while True:
        with suppress(KeyboardInterrupt):  # the pager handles it and must keep the terminal
            pager.wait()
            return True


def count(text: str) -> int:
    """Parse a number from 1 to MOST from the command line."""
    from argparse import ArgumentTypeError

    if not text.isdecimal() or not 1 <= int(text[:10]) <= MOST:
        raise ArgumentTypeError(f"use a number between 1 and {MOST}")
    return int(text)


def is_wanted(question: str) -> bool:
    """Ask a yes-or-no question; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        print(
            "This command needs a confirmation. Without a terminal, use --yes if you are sure.",
            file=sys.stderr,
        )
        return False
    return ask(f"{question} [y/N]").lower() in ("y", "yes")


def ask(
    question: str,
    usual: str = "",
    wanted: str = ".*",
    form: str = "An answer is text without control characters.",
    *,
    unseen: bool = False,
) -> str:
    """Ask on the terminal until the answer matches *wanted*; Enter alone means *usual*.

    *form* describes the valid answers in a sentence, for after a wrong one.  With *unseen* the
    terminal does not echo the answer.  Ctrl-D raises EOFError.
    """
    import re
    from getpass import getpass

    while True:
        if not unseen:
            print(question, end=f" [{usual}] " if usual else " ", flush=True)
        try:
            answer = (getpass(f"{question} ") if unseen else input()).strip() or usual
        except UnicodeDecodeError:
            continue
        if answer.isprintable() and re.fullmatch(wanted, answer):
            return answer
        print(f"  {form} Please try again.")
