"""The command line: the parser, and how a command is run and ends.

It imports very little: each command imports its needs when it runs.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from elwood import __version__
from elwood.agent.feature import Feature, import_lazily
from elwood.agent.session import cli as session
from elwood.app.main import ALL, CHAT, ONCE
from elwood.foundation.command_line import (
    FAILURE,
    INTERRUPTED,
    USAGE,
    CliCommand,
    CliFailure,
    Printer,
    json_switch,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path
    from typing import NoReturn

    from elwood.foundation.settings import Config

# New objects before a garbage collection: a start makes 120,000, and one collection took 50 ms of
# it.
IMPORTING = 1_000_000
# The configuration of a system service, for users without their own.
SYSTEM = "/etc/elwood/config.toml"


def main(arguments: Sequence[str] | None = None, features: Sequence[Feature] = ALL) -> int:
    gc.set_threshold(IMPORTING)
    Printer.install()
    words = sys.argv[1:] if arguments is None else arguments
    parser = make_parser(features, words)
    given = parser.parse_args(words)
    command: CliCommand | None = given.command
    if command is None:
        parser.print_help(sys.stderr)
        return USAGE
    try:
        code = _run(command, given)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except BaseExceptionGroup as group:
        # Ctrl-C in a nursery that does not handle it yet arrives as a group.
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has exited
        return FAILURE
    except CliFailure as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        with suppress(OSError):  # stderr may be closed, too
            print(
                f"{error.strerror}: {error.filename}" if error.filename else error, file=sys.stderr
            )
        return FAILURE
    finally:
        Printer.release()


def _run(command: CliCommand, given: "Namespace") -> int:
    from elwood.foundation.settings import Config

    assert command.run is not None, "the parser asks for one of those within"
    path = _choose_config(given.config)
    config = Config.from_values(file=path)
    needs = command.needs(given) if callable(command.needs) else command.needs
    if needs != "nothing":
        from elwood.app.config.load import load
        from elwood.foundation.settings import Paths
        from elwood.foundation.storage.version import refusal

        config = load(path, os.environ, given.features, secrets=needs == "secrets")
        if why := refusal(config.get(Paths).state):
            raise CliFailure(why)
        if needs == "secrets":
            gc.collect()  # the settings classes leave 0.7 MB in cycles, and a service runs for long
    if needs != "nothing" or "verbose" in given:
        _log_to_stderr(config, given, quiet=command.quiet)
    return command.run(config, given)


def _log_to_stderr(config: "Config", given: "Namespace", *, quiet: bool) -> None:
    from elwood.foundation import log
    from elwood.foundation.secrets.redaction import redact

    settings = config.get(log.LogSettings)
    debug = getattr(given, "debug", False)
    if debug:
        settings = log.LogSettings(level="debug")
    elif (verbose := getattr(given, "verbose", False)) and "debug" in given:
        settings = log.LogSettings(level="warning", levels=log.TOOLS)
    quiet = quiet and not (debug or verbose)
    log.set_up(settings, lambda text: redact(text, config.secrets), environ=os.environ, quiet=quiet)


# --- the parser -----------------------------------------------------------------------------------


def make_parser(features: Sequence[Feature] = ALL, words: Sequence[str] = ()) -> "ArgumentParser":
    """Create the parser of all commands, or of one only if *words* start with its name."""
    from argparse import ArgumentParser

    class Parser(ArgumentParser):
        def error(self, message: str) -> "NoReturn":
            super().error(_suggest(message))

    parser = Parser(
        prog="elwood",
        description="A self-hosted personal assistant.",
        epilog="Try it without a key or an account: elwood demo",
    )
    parser.set_defaults(command=None, features=features)
    parser.add_argument("--version", action="version", version=f"elwood {__version__}")
    _add_config(parser, None)
    commands = [
        *APP,
        *(command for feature in features for command in feature.cli),
        *session.COMMANDS,
    ]
    # Systemd units give the configuration first; parsers of all commands take 10 ms and 1.9 MB.
    first = words[2:] if [*words[:1]] == ["--config"] else words
    named = [command for command in commands if [command.name] == [*first[:1]]]
    _add_commands(parser, named or commands, required=False)
    return parser


def _suggest(message: str) -> str:
    """Replace argparse's list of all choices by the choice that is most like the mistyped one."""
    import re
    from difflib import get_close_matches

    if (
        found := re.search(r"COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message)
    ) is None:
        return message
    close = get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), 1)
    hint = f"Did you mean {close[0]}?" if close else "--help lists the commands."
    return f"there is no command {found[1]}. {hint}"


def _add_commands(
    parser: "ArgumentParser", commands: Sequence[CliCommand], *, required: bool
) -> None:
    from argparse import SUPPRESS

    words = parser.add_subparsers(title="commands", metavar="COMMAND", required=required)
    for command in commands:
        sub = words.add_parser(command.name, help=command.help, description=command.help)
        # A group without an own action lists its things.
        lists = [one for one in command.within if one.name == "list" and command.run is None]
        itself = lists[0] if lists else command
        sub.set_defaults(command=itself)
        _add_config(sub, SUPPRESS)  # allowed on either side of the command
        itself.arguments(sub)
        if command.within:
            _add_commands(sub, command.within, required=itself.run is None)


def _add_config(parser: "ArgumentParser", default: str | None) -> None:
    from pathlib import Path

    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=default,
        help=f"configuration file (default: $XDG_CONFIG_HOME/elwood/config.toml, then {SYSTEM})",
    )


def _choose_config(given: "Path | None") -> "Path":
    """Return the configuration: the *given* one, the user's own, or that of the system."""
    from pathlib import Path

    own = given or default_config(os.environ.get)
    # Not Path.exists: it raises without permission, as for the home of root.
    is_there = given is not None or os.path.exists(own)
    return own if is_there or not os.path.exists(SYSTEM) else Path(SYSTEM)


def default_config(variable: Callable[[str], str | None]) -> "Path":
    """Return the default path of config.toml (XDG Base Directory Specification)."""
    from pathlib import Path

    folder = variable("XDG_CONFIG_HOME") or ""
    if not folder.startswith("/"):
        folder = f"{variable('HOME') or Path.home()}/.config"
    return Path(folder, "elwood", "config.toml")


# --- the commands of the app ----------------------------------------------------------------------


def _run_init(config: "Config", given: "Namespace") -> int:
    from elwood.app.init import install, set_up

    path = given.config or default_config(os.environ.get)
    if given.yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return install(path, os.environ)
    return set_up(path, given)


def _run_chat(config: "Config", given: "Namespace") -> int:
    return CHAT(config, given, import_lazily("elwood.app.serving", "run_own_app"))


def _run_once(config: "Config", given: "Namespace") -> int:
    run_own_app = import_lazily("elwood.app.serving", "run_own_app")
    return ONCE(config, given, lambda *args: run_own_app(*args, "once", given.dry_run))


def _add_demo_arguments(parser: "ArgumentParser") -> None:
    parser.add_argument("--verbose", action="store_true", help="show the log")
    parser.add_argument(
        "--plain", action="store_true", help="plain lines, without colors, menus or cursor movement"
    )


def _add_chat_arguments(parser: "ArgumentParser") -> None:
    which = parser.add_mutually_exclusive_group()
    what = 'start or continue this conversation; "telegram": your Telegram chat'
    which.add_argument("--session", metavar="NAME", type=_check_session, help=what)
    which.add_argument("--last", action="store_true", help="continue the most recent conversation")
    _add_demo_arguments(parser)


def _add_once_arguments(parser: "ArgumentParser") -> None:
    parser.epilog = (
        "Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 a call waits for your "
        "approval, 130 stopped by Ctrl-C, 143 stopped by SIGTERM."
    )
    what = "the message; piped input is appended, or used alone"
    parser.add_argument("text", nargs="?", type=_check_message, help=what)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--session", metavar="NAME", type=_check_session, help="start or continue this conversation"
    )
    parser.add_argument("--dry-run", action="store_true", help="do not let tools change anything")
    parser.add_argument("--verbose", action="store_true", help="show the log, with each tool call")
    parser.add_argument(
        "--debug", action="store_true", help="also show the input and output of models and tools"
    )


def _check_message(text: str) -> str:
    from argparse import ArgumentTypeError

    if not text.strip():
        raise ArgumentTypeError("the message is empty")
    # The shell may pass bytes that are not UTF-8; Python represents them as lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _check_session(name: str) -> str:
    """Check the name of a conversation; it becomes a file name."""
    import re
    from argparse import ArgumentTypeError

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ArgumentTypeError(
            "use at most 64 letters, digits, dots, dashes and underscores; begin "
            "with a letter or digit"
        )
    return name


RUN = CliCommand(
    "run",
    "Run the service.",
    import_lazily("elwood.app.serving", "run"),
    needs="secrets",
    quiet=False,
)
APP = (
    CliCommand(
        "init",
        "Set up Elwood: answer a few questions, and it writes config.toml and the first documents.",
        _run_init,
        lambda parser: parser.add_argument("--yes", action="store_true", help="ask no questions"),
        needs="nothing",
    ),
    CliCommand(
        "doctor",
        "Check the configuration, secrets, services, clock, disk and files.",
        import_lazily("elwood.app.doctor", "doctor"),
        json_switch,
        needs="nothing",
    ),
    RUN,
    RUN._replace(name="start", help="The same as run."),
    CliCommand(
        "demo",
        "Try Elwood offline in a temporary folder, without a key or an account.",
        import_lazily("elwood.app.serving", "demo"),
        _add_demo_arguments,
        needs="nothing",
    ),
    CliCommand(
        "chat",
        "Chat with Elwood in this terminal.",
        _run_chat,
        _add_chat_arguments,
        needs="secrets",
    ),
    CliCommand(
        "once",
        "Answer one message and print the answer.",
        _run_once,
        _add_once_arguments,
        needs="secrets",
    ),
)
