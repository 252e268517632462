"""The commands ``elwood receipts`` and ``elwood session``; `reading.cli` implements them."""

from typing import TYPE_CHECKING

from elwood.foundation.command_line import CliCommand, count, import_lazily, json_switch

if TYPE_CHECKING:
    from argparse import ArgumentParser

OUTCOMES = ("ok", "failed", "denied", "unknown", "dry run", "waiting", "under way")
READING, VERIFY = "elwood.agent.session.reading.cli", "elwood.agent.session.reading.verify"


def _of_receipts(parser: "ArgumentParser") -> None:
    when = "only calls since 2h or 3d ago, or since a date: 2026-11-01, 2026-11-01T10:00"
    parser.add_argument("--since", metavar="WHEN", help=when)
    parser.add_argument("--session", metavar="ID", help="only calls of this conversation")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--outcome", choices=OUTCOMES, help="only calls with this outcome")
    json_switch(parser)
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=100,
        help="maximum number of calls (default: 100)",
    )


def _of_verify(parser: "ArgumentParser") -> None:
    from pathlib import Path

    parser.add_argument("paths", nargs="*", type=Path, help="journals or folders (default: all)")
    parser.add_argument(
        "--against", metavar="BACKUP", type=Path, help="also compare with this backup"
    )
    parser.add_argument(
        "--accept", action="store_true", help="accept what is missing, and stop reporting it"
    )
    json_switch(parser)


def _of_show(parser: "ArgumentParser") -> None:
    parser.add_argument("session", metavar="ID", help="the conversation; see elwood session list")
    parser.add_argument("--turn", metavar="N", type=count, help="show this turn")
    json_switch(parser)


def _of_export(parser: "ArgumentParser") -> None:
    from pathlib import Path

    parser.add_argument("id", metavar="ID", help="the conversation; see elwood session list")
    parser.add_argument(
        "--format", choices=["md", "html"], default="md", help="format of the file (default: md)"
    )
    parser.add_argument(
        "-o", dest="output", metavar="FILE", type=Path, help="output file (default: stdout)"
    )


COMMANDS = (
    CliCommand(
        "receipts",
        "Show the calls of tools, or verify the records.",
        import_lazily(READING, "receipts"),
        _of_receipts,
        within=(
            CliCommand(
                "verify",
                "Check that no record was edited, moved or removed.",
                import_lazily(VERIFY, "verify"),
                _of_verify,
                needs=lambda given: "nothing" if given.paths else "settings",
            ),
        ),
    ),
    CliCommand(
        "budget",
        "Show the cost of models, and the limits.",
        import_lazily(READING, "budget"),
        json_switch,
    ),
    CliCommand(
        "session",
        "List, show or export conversations.",
        within=(
            CliCommand(
                "list",
                "List the stored conversations.",
                import_lazily(READING, "list_sessions"),
                json_switch,
            ),
            CliCommand(
                "show",
                "List the turns of a conversation, or show one turn.",
                import_lazily(READING, "show"),
                _of_show,
            ),
            CliCommand(
                "export",
                "Export a conversation to a file.",
                import_lazily(READING, "export"),
                _of_export,
                needs="secrets",
            ),
        ),
    ),
)
