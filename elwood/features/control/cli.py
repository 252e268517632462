"""The commands ``elwood inspect``, ``pair`` and ``approve``, which query the running service."""

import signal
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from elwood.foundation.command_line import (
    OK,
    USAGE,
    CliCommand,
    CliFailure,
    Printer,
    json_switch,
    room,
    show_lines,
    show_list,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from elwood.agent.approvals.state import ApprovalBook
    from elwood.foundation.settings import Config

# Columns without a terminal: a pipe has no width.
WIDE = 200
# Seconds between two drawings of `inspect --watch`; the alternate screen keeps the shell's text.
WATCH_EVERY = 2.0
ALTERNATE, NORMAL, CLEAR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[J"


def inspect(
    runtime_dir: "Path", as_json: bool, *, short: bool = False, rows: int | None = None
) -> int:
    """Print the state of each part of the running Elwood, in *rows*; return the exit code."""
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
        raise CliFailure(f"The running Elwood has another version: {error}") from error
    if short:
        show_lines(summary(seen, now=time.time()))
    else:
        lines = render(seen, now=time.time(), width=room() or WIDE)
        show_lines(lines[:rows], pages=rows is None)
    return OK


def _watch(runtime_dir: "Path") -> int:
    """Show the state, and draw it again every few seconds until Ctrl-C."""
    from shutil import get_terminal_size

    out = sys.stdout
    if not (isinstance(out, Printer) and out.isatty()):
        raise CliFailure("--watch needs a terminal. For programs, use --json.", USAGE)
    is_over = threading.Event()
    # An exception could be lost in a destructor, which Python runs at any place.
    signal.signal(signal.SIGINT, lambda number, frame: is_over.set())
    out.draw(ALTERNATE)
    try:
        while not is_over.is_set():
            out.draw(CLEAR)
            try:
                inspect(runtime_dir, False, rows=get_terminal_size().lines - 1)
            except CliFailure as error:  # it may start again
                print(error)
            is_over.wait(WATCH_EVERY)
        return OK
    finally:
        out.draw(NORMAL)


def _inspect(config: "Config", given: "Namespace", *, short: bool = False) -> int:
    from elwood.foundation.settings import Paths

    runtime = config.get(Paths).runtime
    if not short and given.watch:
        return _watch(runtime)
    return inspect(runtime, given.json, short=short)


def _send_command(config: "Config", command: str, *words: str) -> int:
    from elwood.foundation.net.control import print_response
    from elwood.foundation.settings import Paths

    return print_response(config.get(Paths).runtime, command, *words)


def _pair(config: "Config", given: "Namespace") -> int:
    if (given.code == "remove") != bool(given.who):
        raise CliFailure("usage: elwood pair CODE [--guest] | list | remove WHO", USAGE)
    if given.code == "list":
        return _list_people(config, given)
    if given.who:
        return _send_command(config, "remove", given.who)
    return _send_command(config, "pair", given.code, *(["guest"] if given.guest else []))


def _approve(config: "Config", given: "Namespace") -> int:
    if (given.deny and given.code is None) or (given.code and given.revoke is not None):
        usage = "usage: elwood approve [CODE [ANSWER] | CODE --deny | --revoke N]"
        raise CliFailure(
            f"{usage}\nMake one decision at a time, and name its code or number.", USAGE
        )
    if given.revoke is not None:
        return _send_command(config, "revoke", str(given.revoke))
    if given.code is None:
        return _list_approvals(config, given)
    answer = "denied" if given.deny else given.answer or "once"
    _check_running(config, given.code, answer)
    return _send_command(config, "decide", given.code, answer)


def _check_running(config: "Config", code: str, answer: str) -> None:
    """Raise CliFailure with a remedy if *code* is about a call, and no Elwood can run it."""
    from elwood.foundation.settings import Paths
    from elwood.foundation.storage.disk import find_running

    sessions = {one.code: one.question.session for one in _load_book(config).calls.open()}
    if code in sessions and find_running(config.get(Paths).state) is None:
        command = f"/deny {code}" if answer == "denied" else f"/allow {code} {answer}"
        remedy = f'elwood once --session {sessions[code]} "{command}"'
        raise CliFailure(f"Elwood is not running. To decide without it: {remedy}")


def _list_approvals(config: "Config", given: "Namespace") -> int:
    from elwood.agent.approvals.prompt_text import permission_words
    from elwood.agent.approvals.state import gist
    from elwood.foundation.text.lines import ago
    from elwood.foundation.text.tables import Row, Styled

    calls, now = _load_book(config).calls, time.time()
    rows: list[tuple[object, Row]] = []
    for one in calls.open():
        if not one.is_over(now):
            what, where = gist(one.question), one.question.session
            state = Styled("waiting for you", "warning")
            record = {"code": one.code, "what": what, "conversation": where, "since": one.at}
            rows.append((record, (one.code, state, f"{what}\n", where, ago(now - one.at))))
    for permission in calls.valid_permissions(now):
        number, what, by = str(permission.number), permission_words(permission), permission.by
        record = {"number": permission.number, "what": what, "since": permission.at, "by": by}
        since = f"{ago(now - permission.at)}, by {by}"
        rows.append((record, (number, "permitted", f"{what}\n", "", since)))
    none = "Nothing is waiting for a decision, and there are no lasting permissions."
    titles = ("code", "state", "what", "conversation", "since")
    show_list(titles, rows, given, none, ("conversation",))
    return OK


def _load_book(config: "Config") -> "ApprovalBook":
    """Read people and permissions from the journal, whether or not Elwood runs."""
    from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry
    from elwood.agent.session.reading.cli import journal_state
    from elwood.foundation.settings import Paths

    return journal_state(config.get(Paths).state / "approvals.jsonl", ApprovalEntry, ApprovalBook)


def _list_people(config: "Config", given: "Namespace") -> int:
    from elwood.foundation.text.lines import ago
    from elwood.foundation.text.tables import Row

    now, rows = time.time(), list[tuple[object, Row]]()

    def is_group(principal: str) -> bool:
        return any(one.is_group(principal) for one in given.features)

    allowed = {id: why for feature in given.features for id, why in feature.allowed(config).items()}
    for one in _load_book(config).people.list_people(is_group, allowed):
        since = one.setting or (ago(now - one.since) if one.since else "")
        rows.append((one, (one.name or "(no name)", one.principal, one.role, since)))
    none = "Only its owners may talk to Elwood."
    show_list(("name", "who", "role", "since"), rows, given, none)
    return OK


def _inspect_arguments(parser: "ArgumentParser") -> None:
    json_switch(parser)
    parser.add_argument(
        "--watch", action="store_true", help="draw it again every two seconds, until Ctrl-C"
    )


def _pair_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("code", metavar="CODE", help='the pairing code, or "list", or "remove"')
    parser.add_argument("who", metavar="WHO", nargs="?", help="with remove: a name, or tg:NUMBER")
    parser.add_argument(
        "--guest",
        action="store_true",
        help="let the person in as a guest: they may talk, but their words are not trusted",
    )
    json_switch(parser)


def _approve_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "code",
        metavar="CODE",
        nargs="?",
        help="the code of the question; without it: list all questions",
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "answer",
        nargs="?",
        choices=["once", "conversation", "always", "source"],
        help="scope of the permission (default: once)",
    )
    one.add_argument("--deny", action="store_true", help="deny the call")
    one.add_argument("--revoke", metavar="N", type=int, help="revoke this permission")
    json_switch(parser)


COMMANDS = (
    CliCommand(
        "inspect",
        "Show the state of each part of the running Elwood.",
        _inspect,
        _inspect_arguments,
    ),
    CliCommand("status", "Show a short status.", partial(_inspect, short=True), json_switch),
    CliCommand(
        "pair",
        "Let a person in by their pairing code, or list or remove people.",
        _pair,
        _pair_arguments,
    ),
    CliCommand(
        "people", "List the people and groups that may talk to Elwood.", _list_people, json_switch
    ),
    CliCommand(
        "approve",
        "List the questions that wait for your decision, or answer one.",
        _approve,
        _approve_arguments,
    ),
)
