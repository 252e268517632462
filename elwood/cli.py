"""The command ``elwood``: knows its sub-commands, and what each needs before it can begin.

Nothing heavy is imported here: each command imports what it runs, so that ``elwood --help`` is
quick and works whatever is broken.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elwood import __version__

if TYPE_CHECKING:
    from elwood.config import Config

# Exit codes; 78 is EX_CONFIG of sysexits.h, at which systemd does not start us again.
OK, FAILURE, USAGE, MISCONFIGURED = 0, 1, 2, 78
# What a shell shows for a command ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
SINCE = "2h or 3d ago, or a date: 2026-11-01, 2026-11-01T10:00"
# Calls that `receipts` may show at once: it holds them to put them in order.
MOST_RECEIPTS = 100_000
# The configuration of a service of the system, for those who have none of their own.
SYSTEM = Path("/etc/elwood/config.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    command: Callable[[argparse.Namespace], int] = given.command
    try:
        return command(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain while flushing at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


# --- the commands -------------------------------------------------------------------------------


def _init(given: argparse.Namespace) -> int:
    from elwood import installing

    return installing.install(given.config or default_config(os.environ.get), os.environ)


def _doctor(given: argparse.Namespace) -> int:
    from elwood import doctor

    return doctor.doctor(_found(given.config), os.environ)


def _run(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood import serving

        return serving.run(config)

    return _configured(given, body)


def _demo(given: argparse.Namespace) -> int:
    from elwood import serving

    _log_to_stderr("info" if given.verbose else "error", None)
    return serving.demo()


def _chat(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood import serving

        return serving.chat(config)

    return _configured(given, body, console=True)


def _once(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood import serving

        return serving.once(config, given.text, session=given.session, dry_run=given.dry_run)

    return _configured(given, body, console=True)


def _inspect(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood import inspecting

        return inspecting.inspect(config.paths.runtime, given.json, given.watch)

    return _configured(given, body, console=True, secrets=False)


def _pair(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood import inspecting

        return inspecting.pair(config.paths.runtime, given.code)

    return _configured(given, body, console=True, secrets=False)


def _receipts(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        import time
        from zoneinfo import ZoneInfo

        from elwood import auditing
        from elwood.core import audit

        zone = ZoneInfo(config.owner.timezone)
        since = 0.0 if given.since is None else audit.since(given.since, time.time(), zone)
        if since is None:
            print(f"--since {given.since}: {SINCE}", file=sys.stderr)
            return USAGE
        return auditing.receipts(
            config.paths.state,
            zone,
            since=since,
            session=given.session,
            limit=given.limit,
            as_json=given.json,
        )

    return _configured(given, body, console=True, secrets=False)


def _verify(given: argparse.Namespace) -> int:
    from elwood import verifying

    if given.paths:
        return verifying.verify(given.paths)

    def body(config: "Config") -> int:
        return verifying.verify([config.paths.state])

    return _configured(given, body, console=True, secrets=False)


def _configured(
    given: argparse.Namespace,
    body: Callable[["Config"], int],
    *,
    console: bool = False,
    secrets: bool = True,
) -> int:
    """Run *body* with the configuration; say what is wrong with it, if anything is.

    On a *console* only what goes wrong is logged, unless the person wants more.  Without *secrets*
    everybody can run it who may read the configuration.
    """
    from elwood.config import ConfigErrors, load

    try:
        config = load(_found(given.config), os.environ, secrets=secrets)
    except ConfigErrors as errors:
        for problem in errors.problems:
            print(problem, file=sys.stderr)
        return MISCONFIGURED
    quiet = console and not getattr(given, "verbose", False)
    _log_to_stderr("error" if quiet else config.log.level, config)
    return body(config)


def _log_to_stderr(level: str, config: "Config | None") -> None:
    from elwood import log
    from elwood.core.redaction import strip

    secrets = config.secrets if config is not None else ()
    log.set_up(level, lambda text: strip(text, secrets), environ=os.environ)


# --- the words ----------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elwood",
        description="A self-hosted personal assistant.",
        epilog="Try it without a key or an account: elwood demo",
    )
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="version", version=f"elwood {__version__}")
    _add_config(parser, None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace], int], help: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(command=command)
        _add_config(sub, argparse.SUPPRESS)  # may stand on either side of the command
        return sub

    add("init", _init, "Write a commented config.toml and the first workspace documents.")
    add("doctor", _doctor, "Check configuration, secrets, services, clock, disk and files.")
    add("run", _run, "Run the service.")
    demo = add("demo", _demo, "Try everything here and now: offline, in a fresh folder.")
    demo.add_argument("--verbose", action="store_true", help="show the log")
    chat = add("chat", _chat, "Talk on the console with the configured model.")
    chat.add_argument("--verbose", action="store_true", help="show the log")
    once = add("once", _once, "Answer one message, on stdout.")
    once.add_argument("text", type=_message, help="the message")
    once.add_argument(
        "--session", metavar="NAME", type=_session, help="begin or continue this conversation"
    )
    once.add_argument("--dry-run", action="store_true", help="let no tool change anything")
    once.add_argument("--verbose", action="store_true", help="show the log and what tools do")
    inspect = add("inspect", _inspect, "Show what every part of the running Elwood does.")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.add_argument("--watch", action="store_true", help="look again each second")
    receipts = add("receipts", _receipts, "Show what tools did, or prove the records.")
    receipts.add_argument("--since", metavar="WHEN", help=SINCE)
    receipts.add_argument("--session", metavar="ID", help="of this conversation only")
    receipts.add_argument("--json", action="store_true", help="print one JSON object per call")
    receipts.add_argument("--limit", metavar="N", type=_count, default=100, help="how many at most")
    verify = receipts.add_subparsers(metavar="verify").add_parser(
        "verify", help="prove that no record was edited, moved or removed"
    )
    verify.set_defaults(command=_verify)
    _add_config(verify, argparse.SUPPRESS)
    verify.add_argument("paths", nargs="*", type=Path, help="journals or folders; else all")
    pair = add("pair", _pair, "Let the stranger talk who was shown this code.")
    pair.add_argument("code", metavar="CODE", help="the pairing code")
    return parser


def _message(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    # The shell may hand over bytes that are not UTF-8; Python shows them as lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:10]) <= MOST_RECEIPTS:
        raise argparse.ArgumentTypeError(f"use a number between 1 and {MOST_RECEIPTS}")
    return int(text)


def _session(name: str) -> str:
    """Check the name of a conversation, which becomes that of a file."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise argparse.ArgumentTypeError("use at most 64 letters, digits, dots and dashes")
    if name.startswith("tg-"):
        raise argparse.ArgumentTypeError("conversations on Telegram go on there only")
    return name


def _add_config(parser: argparse.ArgumentParser, default: str | None) -> None:
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
