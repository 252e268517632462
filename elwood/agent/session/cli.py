"""The commands ``elwood receipts`` and ``elwood session``; `reading.cli` implements them."""

from typing import TYPE_CHECKING

from elwood.foundation.command_line import CliCommand, count, imported, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

OUTCOMES = ("ok", "failed", "denied", "unknown", "dry run", "waiting", "under way")
READING, VERIFY = "elwood.agent.session.reading.cli", "elwood.agent.session.reading.verify"


def _of_receipts(parser: "ArgumentParser") -> None:
    when = "2h or 3d ago, or a date: 2026-11-01, 2026-11-01T10:00"
    parser.add_argument("--since", metavar="WHEN", help=when)
    parser.add_argument("--session", metavar="ID", help="of this conversation only")
    parser.add_argument("--tool", metavar="NAME", help="of this tool only")
    parser.add_argument("--outcome", choices=OUTCOMES, help="that came to this only")
    json_switch(parser)
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="how many at most")


def _of_verify(parser: "ArgumentParser") -> None:
    from pathlib import Path

    parser.add_argument("paths", nargs="*", type=Path, help="journals or folders; else all")
    parser.add_argument("--against", metavar="BACKUP", type=Path, help="and what a backup knows")
    parser.add_argument("--accept", action="store_true", help="tell what is missing no more")


def _of_show(parser: "ArgumentParser") -> None:
    parser.add_argument("session", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--turn", metavar="N", type=count, help="tell this turn")


def _of_export(parser: "ArgumentParser") -> None:
    from pathlib import Path

    parser.add_argument("id", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--format", choices=["md", "html"], default="md", help="of the file (md)")
    parser.add_argument("-o", dest="output", metavar="FILE", type=Path, help="where to (stdout)")


COMMANDS = (
    CliCommand(
        "receipts",
        "Show what tools did, or prove the records.",
        imported(READING, "receipts"),
        _of_receipts,
        within=(
            CliCommand(
                "verify",
                "prove that no record was edited, moved or removed",
                imported(VERIFY, "verify"),
                _of_verify,
                needs=lambda given: "nothing" if given.paths else "settings",
            ),
        ),
    ),
    CliCommand(
        "budget",
        "Show what models cost, and how near the limits are.",
        imported(READING, "budget"),
        json_switch,
    ),
    CliCommand(
        "session",
        "List conversations, show one, or write one into a file.",
        within=(
            CliCommand(
                "list",
                "List the conversations on the disk.",
                imported(READING, "list_sessions"),
                json_switch,
            ),
            CliCommand(
                "show",
                "List a conversation's turns, or tell one.",
                imported(READING, "show"),
                _of_show,
            ),
            CliCommand(
                "export",
                "Write a conversation into one file.",
                imported(READING, "export"),
                _of_export,
                needs="secrets",
            ),
        ),
    ),
)
