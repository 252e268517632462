"""Files for shells, generated from the parser: help, a man page, completions."""

import argparse
import re
from argparse import Action, ArgumentParser, HelpFormatter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from elwood import __version__
from elwood.app.cli import SYSTEM, make_parser
from elwood.foundation.command_line import FAILURE, INTERRUPTED, MISCONFIGURED, OK, USAGE

COMPLETIONS = {
    "bash": "share/bash-completion/completions/elwood",
    "zsh": "share/zsh/site-functions/_elwood",
    "fish": "share/fish/vendor_completions.d/elwood.fish",
}


def pages() -> dict[str, str]:
    """Generate all of them; completions only if shtab, of the extra `dev`, is installed."""
    made = {"share/man/man1/elwood.1": "\n".join(manual(make_parser())) + "\n"}
    made["elwood/app/help.txt"] = overview()
    if find_spec("shtab"):
        made |= {path: completion(shell) for shell, path in COMPLETIONS.items()}
    return made


def overview() -> str:
    """Format the help of ``elwood`` for 80 columns, the minimum of a terminal."""
    parser = make_parser()
    parser.formatter_class = partial(HelpFormatter, width=78)  # argparse subtracts two columns
    return parser.format_help()


def completion(shell: str) -> str:
    import shtab

    parser = make_parser()
    for _, one in commands("elwood", parser):
        for action in one._actions:
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            if action.choices and not isinstance(action.choices, dict):
                # shtab splits a word with a blank in two.
                action.choices = [choice for choice in action.choices if " " not in choice]
    text = shtab.complete(parser, shell)
    assert isinstance(text, str)
    return re.sub(r"(?m)^# Usage:\n(# .*\n)+", "", text)  # already installed


def commands(typed: str, parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser]]:
    """List the *parser* of the command *typed*, and those of all its subcommands."""
    yield typed, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                yield from commands(f"{typed} {name}", one)


# --- the man page ---------------------------------------------------------------------------------

EXAMPLES = {
    "elwood demo": "Try everything, without a key or an account.",
    "elwood init; elwood doctor; elwood run": "Set up Elwood, check the setup, and run it.",
    'elwood once "what is new in the folder inbox?"': "Ask once, and print the answer.",
    "elwood receipts --since 2h --outcome failed": "Show the failed calls of the last two hours.",
    "elwood session export home --format html -o home.html": "Export a conversation as a web page.",
}
FILES = {
    "~/.config/elwood/config.toml": "The configuration; elwood init writes it, with comments.",
    SYSTEM: "The system-wide configuration, for users without their own.",
    "~/.local/state/elwood/": "Conversations, notes, tasks and the workspace (paths.state).",
}
STATUS = {
    OK: "Success.",
    FAILURE: "Failure; a line gives the reason.",
    USAGE: "Wrong usage of the command line.",
    MISCONFIGURED: "The configuration is wrong; systemd does not start the service again.",
    INTERRUPTED: "Stopped by Ctrl-C.",
}


def manual(parser: ArgumentParser) -> Iterator[str]:
    yield '.\\" -*- coding: utf-8 -*-'
    yield f'.TH ELWOOD 1 "" "elwood {__version__}" "User Commands"'
    yield ".nh\n.ad l"  # names of options and files are not hyphenated
    about = parser.description or ""
    yield f".SH NAME\nelwood \\- {escape(about.rstrip('.')[:1].lower() + about.rstrip('.')[1:])}"
    yield f".SH SYNOPSIS\n{synopsis('elwood', parser, every=True)}"
    yield f".SH DESCRIPTION\n{escape(about)}\n{escape(parser.epilog or '')}"
    yield ".SH OPTIONS"
    yield from options(parser, every=True)
    yield ".SH COMMANDS\nEach takes \\fB\\-\\-help\\fR and \\fB\\-\\-config\\fR as well."
    for typed, one in commands("elwood", parser):
        if one is not parser:
            yield f".SS {synopsis(typed, one)}\n{escape(one.description or '')}"
            yield from options(one)
    yield ".SH EXIT STATUS"
    yield from (f".TP\n.B {code}\n{escape(text)}" for code, text in STATUS.items())
    yield ".SH FILES"
    yield from (f".TP\n.I {escape(name)}\n{escape(text)}" for name, text in FILES.items())
    yield ".SH EXAMPLES"
    for typed, text in EXAMPLES.items():
        yield f".TP\n\\fB{escape(typed)}\\fR\n{escape(text)}"


def synopsis(typed: str, parser: ArgumentParser, *, every: bool = False) -> str:
    words = [f"\\fB{escape(typed)}\\fR", *map(usage, arguments(parser, every=every))]
    return " ".join(words)


def arguments(parser: ArgumentParser, *, every: bool) -> list[Action]:
    """List the arguments of a command, options first; all of them, or those not common to all."""
    known = () if every else ("help", "config")
    actions = [one for one in parser._actions if one.dest not in known]
    return sorted(actions, key=lambda one: not one.option_strings)


def usage(action: Action) -> str:
    value = f"\\fI{value_of(action)}\\fR" if action.nargs != 0 else ""
    if action.option_strings:
        return f"[\\fB{escape(action.option_strings[-1])}\\fR{value and ' '}{value}]"
    if isinstance(action, argparse._SubParsersAction):
        return f"{value} ..." if action.required else f"[{value} ...]"
    several = f"{value} ..." if action.nargs in ("*", "+") else value
    return f"[{several}]" if action.nargs in ("*", "?") else several


def options(parser: ArgumentParser, *, every: bool = False) -> Iterator[str]:
    for action in arguments(parser, every=every):
        if isinstance(action, argparse._SubParsersAction):
            continue
        value = f"\\fI{value_of(action)}\\fR" if action.nargs != 0 else ""
        names = ", ".join(f"\\fB{escape(name)}\\fR" for name in action.option_strings)
        yield f".TP\n{' '.join(filter(None, (names, value)))}\n{escape(action.help or '')}"


def value_of(action: Action) -> str:
    if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
        return "\\fR|\\fI".join(map(escape, action.choices))
    return escape(str(action.metavar or action.dest))


def escape(text: str) -> str:
    """Format *text* so that roff prints it unchanged.

    >>> escape(".a -b\\\\c")
    '\\\\&.a \\\\-b\\\\ec'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
