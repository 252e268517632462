"""Slash commands: what they are called and what they mean."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from elwood.agent.approvals.messages import (
    CommandResult,
    DecideRequest,
    ListApprovals,
    RevokePermission,
    TrustDomain,
)
from elwood.agent.approvals.prompt_text import answer_of
from elwood.agent.session.extension import SlashCommand
from elwood.foundation.runtime import Request

COMMANDS = {
    "new": "start a new conversation",
    "undo": "take back your last message and what followed; again: further back",
    "retry": "answer your last message once more",
    "branch": "keep the conversation as it is here, and go on: /branch NAME",
    "tree": "list the other conversations and branches of this chat",
    "resume": "go back to one of them: /resume NUMBER or NAME; alone: to the one before",
    "export": "write the conversation into a file: /export md or html",
    "stop": "stop what is being done",
    "status": "say what is going on and what it has cost",
    "budget": "show what was spent today and this month, on what, and the limits",
    "receipts": "list what was really done here, newest last (/receipts 20: so many)",
    "allow": "let a call run that waits: /allow CODE [once, conversation, always or source]",
    "deny": "refuse a call that waits: /deny CODE",
    "approvals": "say what waits and what is permitted; /approvals revoke NUMBER",
    "trust": "permit requests to a domain: /trust example.org",
    "help": "say what I understand",
}

Name = Literal[
    "new",
    "undo",
    "retry",
    "branch",
    "tree",
    "resume",
    "export",
    "stop",
    "status",
    "budget",
    "receipts",
    "help",
]
Verb = Literal["allow", "deny", "approvals", "trust"]


class TypedCommand(msgspec.Struct, frozen=True):
    """One of the known commands, with what was typed behind it if it takes something."""

    name: Name
    given: str = ""


class Approval(msgspec.Struct, frozen=True):
    """A command about approvals, with the words behind it."""

    verb: Verb
    words: tuple[str, ...] = ()


class Unknown(msgspec.Struct, frozen=True):
    """A command of a feature, or none; *name* is in small letters, *given* stands behind it."""

    name: str
    given: str = ""


def parse(text: str) -> TypedCommand | Approval | Unknown:
    """Read a slash command; a bot's name behind ``@`` is ignored.

    >>> parse("/stop now")
    TypedCommand(name='stop', given='')
    >>> parse("/Status@elwood_bot")
    TypedCommand(name='status', given='')
    >>> parse("/branch before the trip")
    TypedCommand(name='branch', given='before the trip')
    >>> parse("/allow abc234 always")
    Approval(verb='allow', words=('abc234', 'always'))
    >>> parse("/dance")
    Unknown(name='dance', given='')
    """
    first, *words = text.split()
    word = first.removeprefix("/").split("@")[0].lower()
    match word:
        case "receipts" | "branch" | "resume" | "export":
            return TypedCommand(word, " ".join(words))
        case "new" | "undo" | "retry" | "tree" | "stop" | "status" | "budget" | "help":
            return TypedCommand(word)
        case "allow" | "deny" | "approvals" | "trust":
            return Approval(word, tuple(words))
        case "start":  # Telegram sends it when a chat is opened
            return TypedCommand("help")
        case _:
            return Unknown(word, " ".join(words))


def request(approval: Approval, by: str) -> Request[CommandResult] | None:
    """Make of a command what approvals is asked, by the person *by*; None if it makes no sense.

    >>> request(Approval("allow", ("ABC234",)), "tg:1")
    DecideRequest(code='ABC234', answer='once', by='tg:1')
    >>> request(Approval("allow", ("ABC234", "maybe")), "tg:1")
    """
    match approval.verb, approval.words:
        case "allow", (code,):
            return DecideRequest(code=code, answer="once", by=by)
        case "allow", (code, word) if (answer := answer_of(word)) and answer != "denied":
            return DecideRequest(code=code, answer=answer, by=by)
        case "deny", (code,):
            return DecideRequest(code=code, answer="denied", by=by)
        case "approvals", ():
            return ListApprovals(by=by)
        case "approvals", ("revoke", number) if number.isascii() and number.isdigit():
            return RevokePermission(number=int(number[:9]), by=by)
        case "trust", (host,):
            return TrustDomain(host=host, by=by)
    return None


def help_text(more: Iterable[SlashCommand] = ()) -> str:
    """List the commands, with *more* of features."""
    lines = [f"/{name}: {meaning}" for name, meaning in COMMANDS.items()]
    lines += [f"/{one.name}: {one.help}" for one in more]
    lines.append("/NAME of a skill: use it, for what is said behind it")
    return "Write to me in plain words. Besides, I understand:\n" + "\n".join(lines)
