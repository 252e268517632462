"""The words of the command line: what can be typed, and what it is for."""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from elwood import __version__
from elwood.foundation.text.words import KEY

Command = Callable[[argparse.Namespace], int]
SINCE = "2h or 3d ago, or a date: 2026-11-01, 2026-11-01T10:00"
# Calls that `receipts` may show at once: it holds them to put them in order.
MOST_RECEIPTS = 100_000
# The configuration of a service of the system, for those who have none of their own.
SYSTEM = Path("/etc/elwood/config.toml")


def parser_for(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Make the parser; *commands* are called with what was parsed."""
    parser = argparse.ArgumentParser(
        prog="elwood",
        description="A self-hosted personal assistant.",
        epilog="Try it without a key or an account: elwood demo",
    )
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="version", version=f"elwood {__version__}")
    _add_config(parser, None)
    words = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, help: str) -> argparse.ArgumentParser:
        sub = words.add_parser(name, help=help, description=help)
        sub.set_defaults(command=commands.get(name))
        _add_config(sub, argparse.SUPPRESS)  # may stand on either side of the command
        return sub

    add("init", "Write a commented config.toml and the first workspace documents.")
    add("doctor", "Check configuration, secrets, services, clock, disk and files.")
    add("run", "Run the service.")
    demo = add("demo", "Try everything here and now: offline, in a fresh folder.")
    demo.add_argument("--verbose", action="store_true", help="show the log")
    chat = add("chat", "Talk on the console with the configured model.")
    chat.add_argument("--verbose", action="store_true", help="show the log")
    once = add("once", "Answer one message, on stdout.")
    once.add_argument("text", type=_message, help="the message")
    once.add_argument(
        "--session", metavar="NAME", type=_session, help="begin or continue this conversation"
    )
    once.add_argument("--dry-run", action="store_true", help="let no tool change anything")
    once.add_argument("--verbose", action="store_true", help="show the log and what tools do")
    inspect = add("inspect", "Show what every part of the running Elwood does.")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.add_argument("--watch", action="store_true", help="look again each second")
    receipts = add("receipts", "Show what tools did, or prove the records.")
    receipts.add_argument("--since", metavar="WHEN", help=SINCE)
    receipts.add_argument("--session", metavar="ID", help="of this conversation only")
    receipts.add_argument("--json", action="store_true", help="print one JSON object per call")
    receipts.add_argument("--limit", metavar="N", type=_count, default=100, help="how many at most")
    verify = receipts.add_subparsers(metavar="verify").add_parser(
        "verify", help="prove that no record was edited, moved or removed"
    )
    verify.set_defaults(command=commands["receipts verify"])
    _add_config(verify, argparse.SUPPRESS)
    verify.add_argument("paths", nargs="*", type=Path, help="journals or folders; else all")
    session = add("session", "List conversations, show one, or write one into a file.")
    within = session.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def about(name: str, help: str) -> argparse.ArgumentParser:
        sub = within.add_parser(name, help=help, description=help)
        sub.set_defaults(command=commands[f"session {name}"])
        _add_config(sub, argparse.SUPPRESS)
        return sub

    about("list", "List the conversations on the disk.")
    show = about("show", "List a conversation's turns, or tell one of them.")
    show.add_argument("session", metavar="ID", help="the conversation; session list names all")
    show.add_argument("--turn", metavar="N", type=_count, help="tell this turn")
    show.add_argument(
        "--prompt", action="store_true", help="print what the model was sent in it (or the newest)"
    )
    export = about("export", "Write a conversation into one file.")
    export.add_argument("id", metavar="ID", help="the conversation; session list names all")
    export.add_argument("--format", choices=["md", "html"], default="md", help="(md)")
    export.add_argument("-o", dest="output", metavar="FILE", type=Path, help="otherwise stdout")
    memory = add("memory", "Show, search or forget what is remembered.").add_subparsers(
        title="what to do", metavar="WHAT", required=True
    )

    def remember(name: str, help: str) -> argparse.ArgumentParser:
        sub = memory.add_parser(name, help=help, description=help)
        sub.set_defaults(command=commands["memory"], what=name)
        _add_config(sub, argparse.SUPPRESS)
        return sub

    listed = remember("list", "List the newest notes.")
    listed.add_argument("--limit", metavar="N", type=_count, default=50, help="how many at most")
    search = remember("search", "Find notes by words.")
    search.add_argument("query", metavar="WORD", nargs="+", help="words that they should have")
    search.add_argument("--limit", metavar="N", type=_count, default=10, help="how many at most")
    shown = remember("show", "Print a note as its file is.")
    shown.add_argument("key", metavar="KEY", type=_key, help="the note")
    forget = remember("forget", "Forget notes for good.")
    forget.add_argument("keys", metavar="KEY", nargs="+", type=_key, help="the notes")
    remember("rebuild", "Make the index anew; the notes stay as they are.")
    pair = add("pair", "Let the stranger talk who was shown this code.")
    pair.add_argument("code", metavar="CODE", help="the pairing code")
    approve = add("approve", "List what waits for your decision, or decide it.")
    approve.add_argument("code", metavar="CODE", nargs="?", help="the call's code; else list")
    approve.add_argument(
        "answer",
        nargs="?",
        choices=["once", "conversation", "always", "source"],
        help="how far it goes (once)",
    )
    approve.add_argument("--deny", action="store_true", help="refuse it")
    approve.add_argument("--revoke", metavar="N", type=int, help="take a permission back")
    _add_backups(add("backup", "Take a backup, list them, or put one in place."))
    _add_skills(add("skills", "List, install or remove skills."))
    return parser


def _add_skills(skills: argparse.ArgumentParser) -> None:
    deeds = skills.add_subparsers(dest="deed", metavar="DEED")
    deeds.add_parser("list", help="what there is, and what it lacks")
    install = deeds.add_parser("install", help="show what is in one, ask, and install it")
    install.add_argument("source", metavar="SOURCE", help="a folder, or https://… of a repository")
    install.add_argument("--folder", metavar="PATH", default=".", help="of the repository")
    remove = deeds.add_parser("remove", help="remove one from the workspace")
    remove.add_argument("name", metavar="NAME", help="its name")
    for deed in (install, remove):
        deed.add_argument("--yes", action="store_true", help="do not ask")
    for deed in deeds.choices.values():
        _add_config(deed, argparse.SUPPRESS)


def _add_backups(backup: argparse.ArgumentParser) -> None:
    within = backup.add_subparsers(dest="what", metavar="WHAT", required=True)
    within.add_parser("now", help="take one, beside a running Elwood or without")
    within.add_parser("list", help="number them, the newest first")
    restore = within.add_parser("restore", help="put one in place; what is there is moved aside")
    restore.add_argument("which", metavar="N", help="its number in the list, or a file")
    restore.add_argument("--yes", action="store_true", help="do not ask")
    backup.set_defaults(which="", yes=False)
    for what in within.choices.values():
        _add_config(what, argparse.SUPPRESS)


def _message(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    # The shell may hand over bytes that are not UTF-8; Python shows them as lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:10]) <= MOST_RECEIPTS:
        raise argparse.ArgumentTypeError(f"use a number between 1 and {MOST_RECEIPTS}")
    return int(text)


def _key(key: str) -> str:
    """Check the name of a note."""
    if not re.fullmatch(KEY, key):
        raise argparse.ArgumentTypeError("a key has 1 to 64 small letters, digits and hyphens")
    return key


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


def found(given: Path | None) -> Path:
    """Choose the configuration: what was *given*, one's own, that of the system."""
    own = given or default_config(os.environ.get)
    return SYSTEM if given is None and not own.exists() and SYSTEM.exists() else own


def default_config(variable: Callable[[str], str | None]) -> Path:
    """Say where config.toml is when nobody says (XDG Base Directory Specification)."""
    folder = variable("XDG_CONFIG_HOME") or ""
    if not folder.startswith("/"):
        folder = f"{variable('HOME') or Path.home()}/.config"
    return Path(folder, "elwood", "config.toml")
