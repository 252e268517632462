"""The commands ``elwood chat``, ``once`` and ``watch``: they join the Elwood that runs.

Where none does, chat and once have a house of their own started, and sit in that.
"""

import os
import secrets
import socket
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module

import msgspec

from elwood.agent.channels import frames
from elwood.agent.feature import reserved_sessions
from elwood.features.console import client
from elwood.foundation.command_line import FAILURE, OK, USAGE, CliFailure
from elwood.foundation.net.control import ServiceUnreachable, ask
from elwood.foundation.settings import Config, Paths

# What somebody does at a socket, in a conversation, with the commands that can be typed.
Sitting = Callable[[socket.socket, str, dict[str, str]], int]
# Starts a house in which somebody does that in a conversation.
House = Callable[[Config, str, Sitting], int]


def chat(config: Config, given: Namespace, house: House, note: str = "") -> int:
    """Talk in a conversation, on the screen if that can be drawn."""
    session = client.LAST if given.last else given.session or "console"
    sitting = None if given.plain else _screen(config, note)
    if note and sitting is None and sys.stdin.isatty():
        print(note)
    sitting = sitting or client.talk
    code = _join(config, session, "talk", sitting)
    if code is None:
        code = _at_home(house, config, given, session, sitting, OK)
    return code


def once(config: Config, given: Namespace, house: House) -> int:
    text, logs = _whole(given.text), config.of(Paths).state / "sessions"
    session = given.session or f"once-{secrets.token_hex(4)}"

    def say(connection: socket.socket, name: str, commands: dict[str, str]) -> int:
        return client.once(connection, name, text, logs, as_json=given.json)

    # What runs may change things: it cannot be told that of one message only.
    code = None if given.dry_run else _join(config, session, "once", say)
    if code is None:
        code = _at_home(house, config, given, session, say, FAILURE)
    return code


def watch(config: Config, given: Namespace) -> int:
    sitting = None if given.plain else _screen(config, watches=True)
    sitting = sitting or partial(client.talk, watches=True)
    code = _join(config, given.session, "watch", sitting)
    if code is None:
        raise CliFailure("No Elwood runs here that could be watched. Start it with: elwood run")
    return code


def _join(config: Config, session: str, mode: str, sitting: Sitting) -> int | None:
    """Sit in the Elwood that runs; None if none does."""
    runtime, known = config.of(Paths).runtime, dict[str, str]()
    if (joined := client.attach(runtime, session, mode)) is None:
        return None
    connection, name = joined
    with connection:
        if mode == "talk":  # those of an Elwood of another version are not missed
            with suppress(ServiceUnreachable, msgspec.DecodeError):
                known = msgspec.json.decode(ask(runtime, "commands").text, type=dict[str, str])
        return sitting(connection, name, known)


def _at_home(
    house: House, config: Config, given: Namespace, session: str, sitting: Sitting, ended: int
) -> int:
    """Sit in a house of our own; return the exit code: *ended* if that is from outside."""
    from elwood.agent.channels.channel import Channels  # a terminal that joins needs none of it

    if Channels(reserved_sessions(given.features)).is_off(session):
        why = f"{session} goes on only while Elwood runs. Start it with: elwood run"
        raise CliFailure(why, USAGE)
    code = ended

    def sit(connection: socket.socket, name: str, commands: dict[str, str]) -> int:
        nonlocal code
        code = FAILURE
        with connection:
            try:
                code = sitting(connection, name, commands)
            except client.HouseGone:
                code = ended
            except CliFailure as error:
                print(error, file=sys.stderr)
                code = error.code
        return code

    return house(config, session, sit) or code


def _screen(config: Config, note: str = "", *, watches: bool = False) -> Sitting | None:
    """Give what draws; None without a terminal that can, or the extra `tui`."""
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        sit = import_module("elwood.features.console.screen").sit
    except ImportError:
        return None
    how = {"history": config.of(Paths).state / "history", "note": note, "watches": watches}
    return lambda connection, name, commands: int(
        sit(connection, session=name, commands=list(commands.items()), **how)
    )


def _whole(text: str | None) -> str:
    """Put what is piped in behind the *text* that was typed.  Raises CliFailure."""
    piped = b""
    if not sys.stdin.isatty():
        with open(0, "rb", closefd=False) as stdin:
            piped = stdin.read(frames.MAX_TEXT + 1)
    if len(piped) > frames.MAX_TEXT:
        most = f"{frames.MAX_TEXT >> 10} KiB"
        raise CliFailure(f"Stdin has more than {most}: put it into a file and name that.", USAGE)
    typed = "" if text in (None, "-") else text or ""
    if piped.lstrip().startswith(b"/") and not typed:
        why = "What is piped in begins with /, as a command: give commands as TEXT."
        raise CliFailure(why, USAGE)
    whole = "\n\n".join(filter(str.strip, (typed, piped.decode("utf-8", "replace"))))
    if not whole:
        raise CliFailure("usage: elwood once TEXT, or with the text on stdin", USAGE)
    return whole
