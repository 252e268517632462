"""The commands ``elwood chat``, ``once`` and ``watch``, which join the running Elwood.

If there is none, chat and once start an app in this process.
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
from pathlib import Path

import msgspec

from elwood.agent.channels import frames
from elwood.agent.feature import collect_reserved_sessions
from elwood.features.console import client
from elwood.features.console.settings import ConsoleSettings
from elwood.foundation.command_line import FAILURE, OK, USAGE, CliFailure
from elwood.foundation.net.control import ServiceUnreachable, ask
from elwood.foundation.settings import Config, Paths

# Runs a terminal at a socket, in a session, with the slash commands; returns the exit code.
Frontend = Callable[[socket.socket, str, dict[str, str]], int]
# Starts an app in this process, and runs a frontend in a session.
StartApp = Callable[[Config, str, Frontend], int]


def chat(config: Config, given: Namespace, start_app: StartApp, note: str = "") -> int:
    """Talk in a conversation, full-screen if the terminal can; return the exit code."""
    session = client.LAST if given.last else given.session or "console"
    frontend = None if given.plain else _find_screen(config, note)
    if note and frontend is None and sys.stdin.isatty():
        print(note)
    frontend = frontend or client.talk
    code = _join(config, session, "talk", frontend)
    if code is None:
        code = _run_own_app(start_app, config, given, session, frontend, OK)
    return code


def once(config: Config, given: Namespace, start_app: StartApp) -> int:
    text, state = _read_message(given.text), config.get(Paths).state
    session = given.session or f"once-{secrets.token_hex(4)}"

    def say(connection: socket.socket, name: str, commands: dict[str, str]) -> int:
        return client.once(connection, name, text, state, as_json=given.json)

    # A running Elwood has no dry run for a single message.
    code = None if given.dry_run else _join(config, session, "once", say)
    if code is None:
        code = _run_own_app(start_app, config, given, session, say, FAILURE)
    return code


def watch(config: Config, given: Namespace) -> int:
    frontend = None if given.plain else _find_screen(config, watches=True)
    frontend = frontend or partial(client.talk, watches=True)
    code = _join(config, given.session, "watch", frontend)
    if code is None:
        raise CliFailure("Elwood is not running here. Start it with: elwood run")
    return code


def _join(config: Config, session: str, mode: str, frontend: Frontend) -> int | None:
    """Run *frontend* with the running Elwood; return its exit code, or None if none runs."""
    runtime, commands = config.get(Paths).runtime, dict[str, str]()
    if (joined := client.attach(runtime, session, mode)) is None:
        return None
    connection, name = joined
    with connection:
        if mode == "talk":  # an Elwood of another version may have no list of commands
            with suppress(ServiceUnreachable, msgspec.DecodeError):
                commands = msgspec.json.decode(ask(runtime, "commands").text, type=dict[str, str])
        return frontend(connection, name, commands)


def _run_own_app(
    start_app: StartApp,
    config: Config,
    given: Namespace,
    session: str,
    frontend: Frontend,
    stopped: int,
) -> int:
    """Run *frontend* with an own app; return the exit code, *stopped* for a stop from outside."""
    from elwood.agent.channels.channel import Channels  # a terminal that joins needs none of it

    if Channels(collect_reserved_sessions(given.features)).is_off(session):
        why = f"{session} works only while Elwood is running. Start it with: elwood run"
        raise CliFailure(why, USAGE)
    code = stopped

    def run(connection: socket.socket, name: str, commands: dict[str, str]) -> int:
        nonlocal code
        code = FAILURE
        with connection:
            try:
                code = frontend(connection, name, commands)
            except client.AppGone:
                code = stopped
            except CliFailure as error:
                print(error, file=sys.stderr)
                code = error.code
        return code

    return start_app(config, session, run) or code


def _find_screen(config: Config, note: str = "", *, watches: bool = False) -> Frontend | None:
    """Return the full-screen frontend; None without a capable terminal or the extra `tui`."""
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        sit = import_module("elwood.features.console.screen").sit
    except ImportError:
        return None
    how = {"history": config.get(Paths).state / "history", "note": note, "watches": watches}
    how["settings"] = config.get(ConsoleSettings)
    how["open_new"] = None if watches else partial(_open_new, config.get(Paths).runtime)
    return lambda connection, name, commands: int(
        sit(connection, session=name, commands=list(commands.items()), **how)
    )


def _open_new(runtime: Path) -> tuple[socket.socket, str]:
    """Attach to a new conversation.  Raises CliFailure."""
    joined = client.attach(runtime, f"chat-{secrets.token_hex(4)}", "talk")
    if joined is None:
        raise CliFailure("Elwood is not running here. Start it with: elwood run")
    return joined


def _read_message(text: str | None) -> str:
    """Return *text* followed by the piped input.  Raises CliFailure."""
    piped = b""
    if not sys.stdin.isatty():
        with open(0, "rb", closefd=False) as stdin:
            piped = stdin.read(frames.MAX_TEXT + 1)
    if len(piped) > frames.MAX_TEXT:
        most = f"{frames.MAX_TEXT >> 10} KiB"
        why = f"The piped input is longer than {most}. Save it as a file and name that file."
        raise CliFailure(why, USAGE)
    typed = "" if text in (None, "-") else text or ""
    if piped.lstrip().startswith(b"/") and not typed:
        why = "The piped input begins with /, like a command. Give commands as TEXT."
        raise CliFailure(why, USAGE)
    whole = "\n\n".join(filter(str.strip, (typed, piped.decode("utf-8", "replace"))))
    if not whole:
        raise CliFailure("usage: elwood once TEXT, or pipe the text in", USAGE)
    return whole
