"""The commands ``elwood receipts`` and ``elwood session``; what they do is in `reading.cli`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from elwood.foundation.command_line import CliCommand, count

OUTCOMES = ("ok", "failed", "denied", "unknown", "dry run", "waiting", "under way")

if TYPE_CHECKING:
    from elwood.foundation.settings import Config


def _reading(name: str) -> "Callable[[Config, Namespace], int]":
    """Make a command of the function *name*, which is imported when it is run."""

    def run(config: "Config", given: Namespace) -> int:
        from elwood.agent.session.reading import cli

        command: Callable[[Config, Namespace], int] = getattr(cli, name)
        return command(config, given)

    return run


def _of_receipts(parser: ArgumentParser) -> None:
    when = "2h or 3d ago, or a date: 2026-11-01, 2026-11-01T10:00"
    parser.add_argument("--since", metavar="WHEN", help=when)
    parser.add_argument("--session", metavar="ID", help="of this conversation only")
    parser.add_argument("--tool", metavar="NAME", help="of this tool only")
    parser.add_argument("--outcome", choices=OUTCOMES, help="that came to this only")
    parser.add_argument("--json", action="store_true", help="print one JSON object per call")
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="how many at most")


def _of_verify(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, help="journals or folders; else all")
    parser.add_argument("--against", metavar="BACKUP", type=Path, help="and what a backup knows")
    parser.add_argument("--accept", action="store_true", help="tell what is missing no more")


def _of_show(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--turn", metavar="N", type=count, help="tell this turn")


def _of_export(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--format", choices=["md", "html"], default="md", help="of the file (md)")
    parser.add_argument("-o", dest="output", metavar="FILE", type=Path, help="where to (stdout)")


COMMANDS = (
    CliCommand(
        "receipts",
        "Show what tools did, or prove the records.",
        _reading("receipts"),
        _of_receipts,
        within=(
            CliCommand(
                "verify",
                "prove that no record was edited, moved or removed",
                _reading("verify"),
                _of_verify,
                needs=lambda given: "nothing" if given.paths else "settings",
            ),
        ),
    ),
    CliCommand(
        "session",
        "List conversations, show one, or write one into a file.",
        within=(
            CliCommand("list", "List the conversations on the disk.", _reading("list_sessions")),
            CliCommand(
                "show", "List a conversation's turns, or tell one.", _reading("show"), _of_show
            ),
            CliCommand(
                "export",
                "Write a conversation into one file.",
                _reading("export"),
                _of_export,
                needs="secrets",
            ),
        ),
    ),
)
