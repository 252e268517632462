"""The commands ``elwood receipts`` and ``elwood session``; what they do is in `reading.cli`."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from elwood.foundation.command_line import USAGE, CliCommand, CliFailure, count

if TYPE_CHECKING:
    from datetime import tzinfo

    from elwood.foundation.settings import Config

SINCE = "2h or 3d ago, or a date: 2026-11-01, 2026-11-01T10:00"


def _where(config: "Config") -> "tuple[Path, tzinfo]":
    """Say in which folder the state is, and the owner's zone."""
    from elwood.agent.conversation.settings import Owner
    from elwood.foundation.settings import Paths

    return config.of(Paths).state, config.of(Owner).zone


def _receipts(config: "Config", given: Namespace) -> int:
    from elwood.agent.session.reading import cli

    state, zone = _where(config)
    since = 0.0 if given.since is None else cli.since(given.since, time.time(), zone)
    if since is None:
        raise CliFailure(f"--since {given.since}: {SINCE}", USAGE)
    return cli.receipts(
        state, zone, since=since, session=given.session, limit=given.limit, as_json=given.json
    )


def _verify(config: "Config", given: Namespace) -> int:
    from elwood.agent.session.reading import cli

    return cli.verify(given.paths or [_where(config)[0]])


def _list(config: "Config", given: Namespace) -> int:
    from elwood.agent.session.reading import cli

    return cli.list_sessions(*_where(config), time.time())


def _show(config: "Config", given: Namespace) -> int:
    from functools import partial

    from elwood.agent.models.settings import ModelSettings, Providers
    from elwood.agent.session.reading import cli

    models, providers = config.of(ModelSettings), config.of(Providers).by_name
    body = partial(
        cli.body_of,
        providers=providers,
        default=models.default,
        max_tokens=models.max_tokens,
    )
    state, zone = _where(config)
    sent = body if given.prompt else None
    return cli.show(state, given.session, zone, turn=given.turn, body=sent)


def _export(config: "Config", given: Namespace) -> int:
    from elwood.agent.session.reading import cli
    from elwood.foundation.secrets.redaction import Redactor

    state, zone = _where(config)
    redactor = Redactor(config.secrets)
    return cli.export(state, given.id, zone, given.format, given.output, redactor)


def _of_receipts(parser: ArgumentParser) -> None:
    parser.add_argument("--since", metavar="WHEN", help=SINCE)
    parser.add_argument("--session", metavar="ID", help="of this conversation only")
    parser.add_argument("--json", action="store_true", help="print one JSON object per call")
    parser.add_argument("--limit", metavar="N", type=count, default=100, help="how many at most")


def _of_verify(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, help="journals or folders; else all")


def _of_show(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--turn", metavar="N", type=count, help="tell this turn")
    parser.add_argument(
        "--prompt", action="store_true", help="print what the model was sent in it (or the newest)"
    )


def _of_export(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the conversation; session list names all")
    parser.add_argument("--format", choices=["md", "html"], default="md", help="(md)")
    parser.add_argument("-o", dest="output", metavar="FILE", type=Path, help="otherwise stdout")


_VERIFY = CliCommand(
    "verify",
    "prove that no record was edited, moved or removed",
    _verify,
    _of_verify,
    needs=lambda given: "nothing" if given.paths else "settings",
)
_EXPORT = CliCommand(
    "export", "Write a conversation into one file.", _export, _of_export, needs="secrets"
)
COMMANDS = (
    CliCommand(
        "receipts",
        "Show what tools did, or prove the records.",
        _receipts,
        _of_receipts,
        within=(_VERIFY,),
    ),
    CliCommand(
        "session",
        "List conversations, show one, or write one into a file.",
        within=(
            CliCommand("list", "List the conversations on the disk.", _list),
            CliCommand("show", "List a conversation's turns, or tell one.", _show, _of_show),
            CliCommand(
                "export",
                "Write a conversation into one file.",
                _export,
                _of_export,
                needs="secrets",
            ),
        ),
    ),
)
