"""Slash commands: what they are called and what they mean."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import msgspec

from elwood.agent.approvals.messages import (
    CommandResult,
    DecideRequest,
    ListApprovals,
    RevokePermission,
    ShowDetails,
)
from elwood.agent.approvals.prompt_text import answer_of
from elwood.agent.conversation.route import Route
from elwood.agent.session.extension import SlashCommand
from elwood.foundation.runtime import Request

# The first line stands in /help and in menus; the others are what /help NAME says besides.
COMMANDS = {
    "new": "begin a new conversation",
    "stop": "stop what is being done",
    "btw": "ask something beside what runs\n/btw QUESTION; it stays out of the conversation.",
    "status": "what is going on",
    "help": "what I understand\n/help NAME says more of one.",
    "undo": "take back your last message and what followed\n"
    "/undo 2: the last two; /undo all: the whole conversation.",
    "retry": "answer your last message once more",
    "branch": "keep the conversation as it is here, and go on\n"
    "/branch NAME gives it a name to come back to by /resume NAME; /branch 2 goes on from before "
    "your last two messages.",
    "sessions": "the conversations of this chat\n/resume NUMBER goes back to one.",
    "resume": "go back to another conversation\n"
    "/resume NUMBER or NAME, as /sessions lists them; alone: to the one before.",
    "compact": "sum up the older part of a long conversation",
    "receipts": "what was really done here\n/receipts 12: all about the call with that number.",
    "budget": "what was spent, on what, and the limits",
    "export": "the conversation as a file\n/export md or /export html.",
    "approvals": "what waits for your yes, asked again, and what is permitted\n"
    "/approvals show CODE: the details of a question. /approvals revoke NUMBER takes a permission "
    "back.",
    "allow": "let a call run that waits, or a person in\n"
    "/allow CODE once, conversation, always or source; the code stands in the details of the "
    "question, and in /approvals. For a person who is to talk, but not to be trusted: "
    "/allow CODE guest.",
    "deny": "refuse a call that waits\n/deny CODE, as with /allow.",
    "people": "who may talk to me\n"
    "/people tg:NUMBER: one of them, to be removed, or made a member or guest.",
    "tools": "what I can use, how often I did, and what failed\n/tools NAME says more of one.",
    "model": "which model thinks\n"
    "/model NAME: another one, for this conversation; /model default: the usual one.",
}
# Under which heading of /help they stand, before those of features.
GROUPS = {
    "Talking with me": ("new", "stop", "btw", "status", "help"),
    "Going back": ("undo", "retry", "branch", "sessions", "resume", "compact"),
    "What I know and plan": (),
    "What I did, and what it cost": ("receipts", "budget", "export"),
    "What I may do": ("approvals", "allow", "deny", "people", "tools"),
    "Looking after me": ("model",),
}
# The menu of whoever is not the owner in a chat of their own: what works for everybody.
EVERYDAY = ("new", "stop", "btw", "undo", "retry", "sessions", "resume", "status", "help")
# Telegram sends "start" when a chat is opened.
ALIASES = {"start": "help", "tool": "tools", "archive": "new", "reset": "new"}


class TypedCommand(msgspec.Struct, frozen=True):
    """A command with what was typed behind it; *name* is in small letters, perhaps a feature's."""

    name: str
    given: str = ""


def parse(text: str) -> TypedCommand:
    first, *words = text.split()
    name = first.removeprefix("/").lower()
    return TypedCommand(ALIASES.get(name, name), " ".join(words))


def request(command: TypedCommand, by: str, route: Route) -> Request[CommandResult] | None:
    """Make of a command what approvals is asked, by *by* at *route*; None if it makes no sense."""
    match command.name, command.given.split():
        case "allow", [code]:
            return DecideRequest(code=code, answer="once", by=by)
        case "allow", [code, "guest"]:
            return DecideRequest(code=code, answer="once", by=by, guest=True)
        case "allow", [code, word] if (answer := answer_of(word)) and answer != "denied":
            return DecideRequest(code=code, answer=answer, by=by)
        case "deny", [code]:
            return DecideRequest(code=code, answer="denied", by=by)
        case "approvals", []:
            return ListApprovals(by=by, route=route)
        case "approvals", ["show", code]:
            return ShowDetails(code=code, by=by)
        case "approvals", ["revoke", number] if number.isascii() and number.isdigit():
            return RevokePermission(number=int(number[:9]), by=by)
    return None


def menu(more: Iterable[SlashCommand]) -> dict[str, dict[str, str]]:
    """Give the commands by their headings, with *more* of features: names, and a few words."""
    found = {
        group: {name: COMMANDS[name] for name in names if name in COMMANDS}
        for group, names in GROUPS.items()
    }
    for one in more:
        found.setdefault(one.group, {})[one.name] = one.help
    return {
        group: {name: said.partition("\n")[0] for name, said in commands.items()}
        for group, commands in found.items()
    }


def help_text(more: Sequence[SlashCommand], given: str = "") -> str:
    """Say what can be asked of us, with *more* commands of features; or more of the one *given*."""
    known = COMMANDS | {one.name: one.help for one in more}
    if not given:
        lines = [ABOUT]
        for group, commands in menu(more).items():
            lines += ["", f"**{group}**", *(f"/{name}: {said}" for name, said in commands.items())]
        return "\n".join([*lines, "", MORE])
    if (name := parse(given).name) in known:
        return f"/{name}: {known[name]}"
    near = get_close_matches(name, known, n=1)
    meant = f" Did you mean /{near[0]}?" if near else ""
    return f"I do not know /{name}.{meant} /help lists what I understand."


ABOUT = (
    "Write to me as you would to a person: I answer, remember what matters, remind you, and do "
    "things for you. Before anything that could do harm I ask. For instance:\n"
    "- Remind me tomorrow at nine to call Ann.\n"
    "- What did we say about the trip?\n"
    "- Read notes.txt and make a list of it."
)
MORE = "/help NAME says more of one, as in /help undo. The name of a skill is a command, too."
