"""Slash commands: what they are called and what they mean."""

from collections.abc import Iterable

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
from elwood.agent.session.log.entries import Received
from elwood.foundation.runtime import Request

COMMANDS = {
    "new": "start a new conversation",
    "undo": "take back your last message and what followed; /undo 2: the last two; /undo all",
    "retry": "answer your last message once more",
    "branch": "keep the conversation as it is here, and go on: /branch NAME",
    "tree": "list the other conversations and branches of this chat",
    "resume": "go back to one of them: /resume NUMBER or NAME; alone: to the one before",
    "export": "write the conversation into a file: /export md or html",
    "stop": "stop what is being done",
    "status": "say what is going on and what it has cost",
    "budget": "show what was spent today and this month, on what, and the limits",
    "receipts": "list what was really done here, newest last (/receipts 20: so many)",
    "allow": "let a call run that waits: /allow CODE [once, conversation, always or source]; or a "
    "person in",
    "deny": "refuse a call that waits: /deny CODE",
    "approvals": "say what waits and what is permitted; /approvals revoke NUMBER",
    "trust": "permit requests to a domain: /trust example.org",
    "help": "say what I understand",
}


class TypedCommand(msgspec.Struct, frozen=True):
    """A command with what was typed behind it; *name* is in small letters, perhaps a feature's."""

    name: str
    given: str = ""


def parse(text: str) -> TypedCommand:
    """Read a slash command."""
    first, *words = text.split()
    name = first.removeprefix("/").lower()
    # Telegram sends "start" when a chat is opened.
    return TypedCommand("help" if name == "start" else name, " ".join(words))


def request(command: TypedCommand, by: str) -> Request[CommandResult] | None:
    """Make of a command what approvals is asked, by the person *by*; None if it makes no sense."""
    match command.name, command.given.split():
        case "allow", [code]:
            return DecideRequest(code=code, answer="once", by=by)
        case "allow", [code, word] if (answer := answer_of(word)) and answer != "denied":
            return DecideRequest(code=code, answer=answer, by=by)
        case "deny", [code]:
            return DecideRequest(code=code, answer="denied", by=by)
        case "approvals", []:
            return ListApprovals(by=by)
        case "approvals", ["revoke", number] if number.isascii() and number.isdigit():
            return RevokePermission(number=int(number[:9]), by=by)
        case "trust", [host]:
            return TrustDomain(host=host, by=by)
    return None


def withheld(what: str, received: Received) -> str:
    """Say why *what* is private is not told to those who read the answer; empty if it may be."""
    if received.untrusted:
        return f"{what} is for my owner only."
    if not received.route.private:
        return f"{what} is private, and others read this chat: ask me in our own."
    return ""


def help_text(more: Iterable[SlashCommand] = ()) -> str:
    """List the commands, with *more* of features."""
    lines = [f"/{name}: {meaning}" for name, meaning in COMMANDS.items()]
    lines += [f"/{one.name}: {one.help}" for one in more]
    lines.append("/NAME of a skill: use it, for what is said behind it")
    return "Write to me in plain words. Besides, I understand:\n" + "\n".join(lines)
