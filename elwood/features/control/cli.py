"""The commands ``elwood inspect``, ``pair`` and ``approve``, which ask the running service."""

import shutil
import time
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from elwood.foundation.command_line import OK, USAGE, CliCommand, CliFailure

if TYPE_CHECKING:
    from elwood.foundation.settings import Config

# Columns where there is no terminal to fit into: a pipe takes any.
WIDE = 200


def inspect(runtime_dir: Path, as_json: bool, *, short: bool = False) -> int:
    """Show what every part of the running Elwood does, perhaps *as_json*; return the exit code."""
    import msgspec

    from elwood.agent.session.inspection import Inspection
    from elwood.features.control.view import render, summary
    from elwood.foundation.net.control import ServiceUnreachable, ask
    from elwood.foundation.text.characters import printable_json

    try:
        answer = ask(runtime_dir, "inspect")
    except ServiceUnreachable as error:
        raise CliFailure(error) from error
    if not answer.ok:
        raise CliFailure(answer.text)
    if as_json:
        print(printable_json(answer.text))
        return OK
    try:
        seen = msgspec.json.decode(answer.text, type=Inspection)
    except msgspec.DecodeError as error:
        raise CliFailure(f"The running Elwood is of another version: {error}") from error
    if short:
        print(summary(seen, now=time.time()))
        return OK
    print(render(seen, now=time.time(), width=shutil.get_terminal_size((WIDE, 24)).columns))
    return OK


def _inspect(config: "Config", given: Namespace, *, short: bool = False) -> int:
    from elwood.foundation.settings import Paths

    return inspect(config.of(Paths).runtime, given.json, short=short)


def _settle(config: "Config", command: str, *words: str) -> int:
    from elwood.foundation.net.control import settle
    from elwood.foundation.settings import Paths

    return settle(config.of(Paths).runtime, command, *words)


def _pair(config: "Config", given: Namespace) -> int:
    if (given.code == "remove") != bool(given.who):
        raise CliFailure("usage: elwood pair CODE [--guest] | list | remove WHO", USAGE)
    if given.code == "list":
        return _settle(config, "people")
    if given.who:
        return _settle(config, "remove", given.who)
    return _settle(config, "pair", given.code, *(["guest"] if given.guest else []))


def _approve(config: "Config", given: Namespace) -> int:
    if (given.deny and given.code is None) or (given.code and given.revoke is not None):
        usage = "usage: elwood approve [CODE [ANSWER] | CODE --deny | --revoke N]"
        raise CliFailure(f"{usage}\nDecide one thing at a time, and say which.", USAGE)
    if given.revoke is not None:
        return _settle(config, "revoke", str(given.revoke))
    if given.code is None:
        return _settle(config, "approvals")
    answer = "denied" if given.deny else given.answer or "once"
    return _settle(config, "decide", given.code, answer)


def _of_inspect(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _of_pair(parser: ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", help="the pairing code; or list; or remove")
    parser.add_argument("who", metavar="WHO", nargs="?", help="whom to remove: name, or tg:NUMBER")
    parser.add_argument("--guest", action="store_true", help="may talk, but is not trusted")


def _of_approve(parser: ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", nargs="?", help="the call's code; else list")
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "answer",
        nargs="?",
        choices=["once", "conversation", "always", "source"],
        help="how far it goes (once)",
    )
    one.add_argument("--deny", action="store_true", help="refuse it")
    one.add_argument("--revoke", metavar="N", type=int, help="take a permission back")


COMMANDS = (
    CliCommand(
        "inspect", "Show what every part of the running Elwood does.", _inspect, _of_inspect
    ),
    CliCommand(
        "status", "Say in short how Elwood does.", partial(_inspect, short=True), _of_inspect
    ),
    CliCommand(
        "pair", "Let a stranger talk by their code; list, or remove, who may.", _pair, _of_pair
    ),
    CliCommand("people", "List who may talk.", lambda config, given: _settle(config, "people")),
    CliCommand(
        "approve", "List what waits for your decision, or decide it.", _approve, _of_approve
    ),
)
