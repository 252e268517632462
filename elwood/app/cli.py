"""The command line: what can be typed, and how a command is run and ends.

Imports next to nothing: what a command needs it imports when it runs.
"""

import argparse
import gc
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elwood import __version__
from elwood.agent.session import cli as session
from elwood.features.backup import cli as backup
from elwood.features.control import cli as service
from elwood.foundation.command_line import FAILURE, USAGE, CliCommand, CliFailure, count
from elwood.foundation.text.words import KEY

if TYPE_CHECKING:
    from elwood.foundation.settings import Config

# 78 is EX_CONFIG of sysexits.h, at which systemd does not start us again.
MISCONFIGURED = 78
INTERRUPTED = 130  # what a shell shows for a command ended by Ctrl-C: 128 + SIGINT
# New objects until garbage is looked for: a start makes 120,000, and looking once took 50 ms of it.
IMPORTING = 1_000_000
# The configuration of a service of the system, for those who have none of their own.
SYSTEM = Path("/etc/elwood/config.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    gc.set_threshold(IMPORTING)
    parser = make_parser()
    given = parser.parse_args(arguments)
    command: CliCommand | None = given.command
    if command is None:
        parser.print_help(sys.stderr)
        return USAGE
    try:
        return _run(command, given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain while flushing at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except CliFailure as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"{error.strerror}: {error.filename}" if error.filename else error, file=sys.stderr)
        return FAILURE


def _run(command: CliCommand, given: Namespace) -> int:
    from elwood.foundation.settings import Config

    assert command.run is not None, "the parser asks for one of those within"
    path = _found(given.config)
    config = Config.holding(file=path)
    level: str | None = None
    needs = command.needs(given) if callable(command.needs) else command.needs
    if needs != "nothing":
        from elwood.app.config.load import ConfigErrors, load
        from elwood.foundation.log import LogSettings

        try:
            config = load(path, os.environ, secrets=needs == "secrets")
        except ConfigErrors as errors:
            for problem in errors.problems:
                print(problem, file=sys.stderr)
            return MISCONFIGURED
        level = config.of(LogSettings).level
    verbose = getattr(given, "verbose", False)
    if level is not None or "verbose" in given:
        _log_to_stderr((level or "info") if verbose or not command.quiet else "error", config)
    return command.run(config, given)


def _log_to_stderr(level: str, config: "Config") -> None:
    from elwood.foundation import log
    from elwood.foundation.secrets.redaction import redact

    log.set_up(level, lambda text: redact(text, config.secrets), environ=os.environ)


# --- the parser -----------------------------------------------------------------------------------


def make_parser() -> ArgumentParser:
    """Make the parser; what it gives has the `CliCommand` as *command*."""
    parser = ArgumentParser(
        prog="elwood",
        description="A self-hosted personal assistant.",
        epilog="Try it without a key or an account: elwood demo",
    )
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="version", version=f"elwood {__version__}")
    _add_config(parser, None)
    _add(parser, COMMANDS, required=False)
    return parser


def _add(parser: ArgumentParser, commands: Sequence[CliCommand], *, required: bool) -> None:
    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=required)
    for command in commands:
        sub = words.add_parser(command.name, help=command.help, description=command.help)
        sub.set_defaults(command=command)
        _add_config(sub, argparse.SUPPRESS)  # may stand on either side of the command
        command.arguments(sub)
        if command.within:
            _add(sub, command.within, required=command.run is None)


def _add_config(parser: ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=default,
        help=f"the configuration (otherwise $XDG_CONFIG_HOME/elwood/config.toml, or {SYSTEM})",
    )


def _found(given: Path | None) -> Path:
    """Choose the configuration: what was *given*, one's own, that of the system."""
    own = given or default_config(os.environ.get)
    return SYSTEM if given is None and not own.exists() and SYSTEM.exists() else own


def default_config(variable: Callable[[str], str | None]) -> Path:
    """Say where config.toml is when nobody says (XDG Base Directory Specification)."""
    folder = variable("XDG_CONFIG_HOME") or ""
    if not folder.startswith("/"):
        folder = f"{variable('HOME') or Path.home()}/.config"
    return Path(folder, "elwood", "config.toml")


# --- the commands of the app ----------------------------------------------------------------------


def _init(config: "Config", given: Namespace) -> int:
    from elwood.app.init import install

    return install(given.config or default_config(os.environ.get), os.environ)


def _doctor(config: "Config", given: Namespace) -> int:
    from elwood.app.doctor import doctor

    return doctor(config.file, os.environ)


def _serve(config: "Config", given: Namespace) -> int:
    from elwood.app import serving

    return serving.run(config)


def _demo(config: "Config", given: Namespace) -> int:
    from elwood.app import serving

    return serving.demo()


def _chat(config: "Config", given: Namespace) -> int:
    from elwood.app import serving

    return serving.chat(config)


def _once(config: "Config", given: Namespace) -> int:
    from elwood.app import serving

    return serving.once(config, given.text, session=given.session, dry_run=given.dry_run)


def _memory(config: "Config", given: Namespace) -> int:
    from elwood.features.daily_notes.store import DailyNoteSearch
    from elwood.features.memory import cli
    from elwood.foundation.net import control
    from elwood.foundation.runtime import inline
    from elwood.foundation.settings import Paths

    paths = config.of(Paths)
    others = (DailyNoteSearch(paths.state, paths.workspace, inline),)
    match given.command.name:
        case "list":
            return cli.show_list(paths.state, given.limit)
        case "search":
            return cli.search(paths.state, " ".join(given.query), given.limit, others)
        case "show":
            return cli.show(paths.state, given.key)
        case _:
            keys = tuple(given.keys)
            # A process that hangs is one, too, and its word is waited for.
            if control.is_reachable(paths.runtime):
                return control.settle(paths.runtime, "forget", *keys)
            return cli.forget(paths.state, keys, others)


def _skills(config: "Config", given: Namespace) -> int:
    from elwood.features.skills import cli

    match given.command.name:
        case "install":
            return cli.install(config, given.source, given.folder, agreed=given.yes)
        case "remove":
            return cli.remove(config, given.name, agreed=given.yes)
        case _:
            return cli.list_skills(config)


def _verbose(parser: ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="show the log")


def _of_once(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=_message, help="the message")
    parser.add_argument(
        "--session", metavar="NAME", type=_session, help="begin or continue this conversation"
    )
    parser.add_argument("--dry-run", action="store_true", help="let no tool change anything")
    parser.add_argument("--verbose", action="store_true", help="show the log and what tools do")


def _of_list(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=count, default=50, help="how many at most")


def _of_search(parser: ArgumentParser) -> None:
    parser.add_argument("query", metavar="WORD", nargs="+", help="words that they should have")
    parser.add_argument("--limit", metavar="N", type=count, default=10, help="how many at most")


def _of_note(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", type=_key, help="the note")


def _of_forget(parser: ArgumentParser) -> None:
    parser.add_argument("keys", metavar="KEY", nargs="+", type=_key, help="the notes")


def _of_install(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a folder, or https://… of a repository")
    parser.add_argument("--folder", metavar="PATH", default=".", help="of the repository")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_remove(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _key(key: str) -> str:
    """Check the name of a note."""
    if not re.fullmatch(KEY, key):
        raise argparse.ArgumentTypeError("a key has 1 to 64 small letters, digits and hyphens")
    return key


def _message(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    # The shell may hand over bytes that are not UTF-8; Python shows them as lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _session(name: str) -> str:
    """Check the name of a conversation, which becomes that of a file."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise argparse.ArgumentTypeError("use at most 64 letters, digits, dots and dashes")
    if name.startswith("tg-"):
        raise argparse.ArgumentTypeError("conversations on Telegram go on there only")
    return name


COMMANDS = (
    CliCommand(
        "init",
        "Write a commented config.toml and the first workspace documents.",
        _init,
        needs="nothing",
    ),
    CliCommand(
        "doctor",
        "Check configuration, secrets, services, clock, disk and files.",
        _doctor,
        needs="nothing",
    ),
    CliCommand("run", "Run the service.", _serve, needs="secrets", quiet=False),
    CliCommand(
        "demo",
        "Try everything here and now: offline, in a fresh folder.",
        _demo,
        _verbose,
        needs="nothing",
    ),
    CliCommand(
        "chat", "Talk on the console with the configured model.", _chat, _verbose, needs="secrets"
    ),
    CliCommand("once", "Answer one message, on stdout.", _once, _of_once, needs="secrets"),
    *service.COMMANDS,
    *session.COMMANDS,
    CliCommand(
        "memory",
        "Show, search or forget what is remembered.",
        within=(
            CliCommand("list", "List the newest notes.", _memory, _of_list),
            CliCommand("search", "Find notes by words.", _memory, _of_search),
            CliCommand("show", "Print a note as its file is.", _memory, _of_note),
            CliCommand("forget", "Forget notes for good.", _memory, _of_forget),
            CliCommand("rebuild", "Make the index anew; the notes stay as they are.", _memory),
        ),
    ),
    CliCommand(
        "skills",
        "List, install or remove skills.",
        _skills,
        within=(
            CliCommand("list", "what there is, and what it lacks", _skills),
            CliCommand("install", "show what is in one, ask, and install it", _skills, _of_install),
            CliCommand("remove", "remove one from the workspace", _skills, _of_remove),
        ),
    ),
    backup.COMMAND,
)
