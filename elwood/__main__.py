"""The command ``elwood``, and ``python -m elwood``.

Its help and its version import nothing else: all commands together take twice as long to import as
Python takes to start.  `tests/app/shell_pages.py` makes help.txt from the parser.
"""

import os
import sys

from elwood import __version__


def main() -> int:
    match sys.argv[1:]:
        case ["--version"]:
            return _show(f"elwood {__version__}\n")
        case ["-h" | "--help"]:
            with open(f"{os.path.dirname(__file__)}/app/help.txt", encoding="utf-8") as file:
                return _show(file.read())
    from elwood.app.cli import main as run

    return run()


def _show(text: str) -> int:
    """Print *text*; return the exit code."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries again at the exit
        if not isinstance(error, BrokenPipeError):
            print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
