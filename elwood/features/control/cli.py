"""The commands ``elwood inspect``, ``pair`` and ``approve``, which ask the running service."""

import os
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from elwood.foundation.command_line import USAGE, CliCommand, CliFailure

if TYPE_CHECKING:
    from elwood.foundation.settings import Config

# Seconds between two looks of --watch.
EVERY = 1.0
# Columns where there is no terminal to fit into: a pipe takes any.
WIDE = 200


def inspect(runtime_dir: Path, as_json: bool, watch: bool) -> int:
    """Show what every part of the running Elwood does; return the exit code.

    *as_json* prints one JSON object per look.  *watch* looks again each second until Ctrl-C, and
    also while no Elwood runs.
    """
    from elwood.foundation.net.control import ServiceUnreachable, ask

    try:
        while True:
            try:
                answer = ask(runtime_dir, "inspect")
                if not answer.ok:
                    raise ServiceUnreachable(answer.text)
                text = answer.text if as_json else _as_tree(answer.text)
            except ServiceUnreachable as error:
                if not watch:
                    print(error, file=sys.stderr)
                    return 1
                text = str(error)
            _show(text, watch)
            if not watch:
                return 0
            time.sleep(EVERY)
    except KeyboardInterrupt:
        return 0


def _inspect(config: "Config", given: Namespace) -> int:
    from elwood.foundation.settings import Paths

    return inspect(config.of(Paths).runtime, given.json, given.watch)


def _pair(config: "Config", given: Namespace) -> int:
    from elwood.foundation.net.control import settle
    from elwood.foundation.settings import Paths

    return settle(config.of(Paths).runtime, "pair", given.code)


def _approve(config: "Config", given: Namespace) -> int:
    from elwood.foundation.net.control import settle
    from elwood.foundation.settings import Paths

    if (given.deny and given.code is None) or (given.code and given.revoke is not None):
        usage = "usage: elwood approve [CODE [ANSWER] | CODE --deny | --revoke N]"
        raise CliFailure(f"{usage}\nDecide one thing at a time, and say which.", USAGE)
    runtime = config.of(Paths).runtime
    if given.revoke is not None:
        return settle(runtime, "revoke", str(given.revoke))
    if given.code is not None:
        return settle(
            runtime, "decide", given.code, "denied" if given.deny else given.answer or "once"
        )
    return settle(runtime, "approvals")


def _of_inspect(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--watch", action="store_true", help="look again each second")


def _of_pair(parser: ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", help="the pairing code")


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
    CliCommand("pair", "Let the stranger talk who was shown this code.", _pair, _of_pair),
    CliCommand(
        "approve", "List what waits for your decision, or decide it.", _approve, _of_approve
    ),
)


def _as_tree(text: str) -> str:
    import msgspec

    from elwood.agent.session.inspection import Inspection
    from elwood.features.control.view import render
    from elwood.foundation.net.control import ServiceUnreachable

    try:
        inspection = msgspec.json.decode(text, type=Inspection)
    except msgspec.DecodeError as error:
        raise ServiceUnreachable(f"The running Elwood is of another version: {error}") from error
    width = shutil.get_terminal_size((WIDE, 24)).columns
    return render(inspection, now=time.time(), width=width, colour=_is_colourful())


def _show(text: str, watch: bool) -> None:
    if watch and sys.stdout.isatty():
        lines = text.splitlines()
        height = shutil.get_terminal_size().lines - 1
        if len(lines) > height:
            lines[height - 1 :] = [f"… {len(lines) - height + 1} more lines"]
        # Home, then each line cleared behind its end: redrawing without a flicker.
        text = "\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J"
    print(text, flush=True)


def _is_colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
