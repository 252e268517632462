"""Slash commands: what they are called and what they mean."""

from typing import Literal

import attrs

COMMANDS = {
    "new": "start a new conversation",
    "stop": "stop what is being done",
    "status": "say what is going on and what it has cost",
    "receipts": "list what was really done here, newest last (/receipts 20: so many)",
    "help": "say what I understand",
}

Name = Literal["new", "stop", "status", "receipts", "help"]


@attrs.frozen
class Command:
    """One of the known commands, with what was typed behind it if it takes something."""

    name: Name
    given: str = ""


@attrs.frozen
class Unknown:
    """Looks like a command, but is none; *name* is as typed."""

    name: str


def parse(text: str) -> Command | Unknown:
    """Read a slash command; a bot's name behind ``@`` is ignored.

    >>> parse("/stop now")
    Command(name='stop', given='')
    >>> parse("/Status@elwood_bot")
    Command(name='status', given='')
    >>> parse("/dance")
    Unknown(name='dance')
    """
    first, *rest = text.split(maxsplit=1)
    word = first.removeprefix("/").split("@")[0].lower()
    match word:
        case "receipts":
            return Command(word, "".join(rest).strip())
        case "new" | "stop" | "status" | "help":
            return Command(word)
        case "start":  # Telegram sends it when a chat is opened
            return Command("help")
        case _:
            return Unknown(word)


def help_text() -> str:
    """List the commands."""
    lines = [f"/{name}: {meaning}" for name, meaning in COMMANDS.items()]
    return "Write to me in plain words. Besides, I understand:\n" + "\n".join(lines)
