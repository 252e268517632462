"""How a question about calls looks: what will run, complete and in words, with buttons under it.

The codes to answer by, and what only an expert asks for, stand behind the button "Details".
Nothing in it comes from the model or from strangers without being escaped; buttons carry random
ids only.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from datetime import datetime, tzinfo
from typing import Literal, get_args

from elwood.agent.approvals.state import (
    GIST,
    AccessDecided,
    AccessRequested,
    ApprovalRequest,
    Permission,
    Question,
    answers,
    gist,
    permitted,
)
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import Button
from elwood.agent.conversation.calls import OwnerAnswer, Ruling, allows
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import PRINCIPAL, SESSION
from elwood.foundation.text.characters import escape_invisible, remark, utf16_length
from elwood.foundation.text.lines import cut, one_line
from elwood.foundation.text.markdown import Entity, Rich
from elwood.foundation.text.splitting import MessageSize

# Characters, escaped, above which a call cannot be put to anybody: a dozen messages.
MAX_SHOWN = 40_000
# Characters of the beginning and of the end that the message with the buttons always shows.
ENDS = 200
# Strangers that one notice names.
MAX_CROWD = 10
# Units of a message kept free for what is around a part of a call.
FRAME = 300
# Characters of the reason, and of each source and how many of them are named.
REASON, SOURCE, SOURCES = 300, 80, 5
# Characters of the arguments that the details show at most.
MAX_ARGUMENTS = 1500
# Characters of a source's name on a button, and of a button that says what it covers.
LABEL, BUTTON = 30, 40
LETTERS: dict[OwnerAnswer, str] = {
    "once": "o",
    "conversation": "c",
    "always": "a",
    "source": "s",
    "denied": "d",
}
# What a button shows in place of the question, and the question again.
View = Literal["details", "question"]
VIEWS: dict[View, str] = {"details": "?", "question": "<"}
# On the buttons under what a stranger asks.
ACCESS_LETTERS: dict[OwnerAnswer, str] = {"once": "y", "denied": "n"}
RULINGS = {
    "once": "allowed once",
    "conversation": "allowed in this conversation",
    "always": "always allowed",
    "source": "allowed once, and what was read is trusted",
    "standing": "covered by a permission",
    "denied": "denied",
    "expired": "expired",
    "withdrawn": "withdrawn, as it will not run any more",
}

# What came of a question, where that is no answer of the owner's.
ENDED: dict[Ruling, str] = {
    "expired": "Not done: nobody answered in time",
    "withdrawn": "Not done: the question was taken back",
}
# Here the code that the control socket requires is shown.
CONSOLE = "console"

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")

Piece = tuple[str, Literal["", "code"]]
# What a button stands under: a question about a call, or what a stranger asks.
Kind = Literal["a", "p"]


def request_messages(
    request: ApprovalRequest, at: Route, channels: Channels, ending: str = ""
) -> tuple[Rich, ...]:
    """Write one question as messages to be read *at* a place; the last one gets the buttons.

    An *ending* stands behind the code on the command line.
    """
    question = request.question
    strange = remark(question.subject)
    typed = f"Answer by typing one of:\n{_typed(request, ending)}" if ending else ""
    typed = typed if at.channel == CONSOLE else ""
    return _messages(
        request,
        f"Why I ask: {_flat(question.why, REASON)}\n{_sources(question)}"
        f"{_coverage(question)}"
        f"{f'It {strange}.{chr(10)}' if strange else ''}"
        f"{_asker(question, at, channels.owners)}{typed}".rstrip(),
        channels.at(at).size,
    )


def settled_message(request: ApprovalRequest, at: Route, channels: Channels, zone: tzinfo) -> Rich:
    """Write what the message with the buttons says *at* its place when all is decided."""
    assert request.ruling is not None
    ended = ENDED.get(request.ruling)
    if request.ruling == "standing":
        ended = f"Allowed by {_flat(request.by)}"
    ended = ended or f"{RULINGS[request.ruling].capitalize()} {_by(request.by, at, channels)}"
    mark, when = "✓" if allows(request.ruling) else "⛔", _when(request.decided_at, zone)
    covers = ""
    if request.ruling in ("conversation", "always"):
        covers = f"\nThis covers: {_flat(permitted(request.question), REASON)}"
    return _messages(request, f"{mark} {ended}, {when}.{covers}", channels.at(at).size)[-1]


def details_message(request: ApprovalRequest, size: MessageSize, ending: str = "") -> Rich:
    """Write what stands behind a question: it takes its place, and has no buttons to decide by."""
    question = request.question
    what = f"{_flat(question.subject, GIST)}\n\nTool: {_flat(question.tool)}"
    before = f"{_headline(question)}\n{what}\nIts arguments: "
    after = (
        f"\nAsked in {_flat(question.session)} for {_flat(question.principal)}\n"
        f"{_sources(question)}A yes is bound to {question.plan[:16]}\n"
        f"\nYou can also type one of:\n{_typed(request, ending)}"
    )
    # A character has two units at most.
    room = min(MAX_ARGUMENTS, (size.room - size.measure(before + after)) // 2)
    arguments = cut(escape_invisible(question.arguments), max(1, room)) or "(not kept)"
    return _rich((before, ""), (arguments, "code"), (after, ""))


def _headline(question: Question) -> str:
    return f"May I {_flat(question.asks or f'use {question.tool}')}?"


def _typed(request: ApprovalRequest, ending: str) -> str:
    typed = " | ".join(answer for answer in answers(request.question) if answer != "denied")
    on_machine = f"\nOn the machine: elwood approve {request.code}-{ending}" if ending else ""
    return f"/allow {request.code} {typed}\n/deny {request.code}{on_machine}"


def _messages(request: ApprovalRequest, end: str, size: MessageSize) -> tuple[Rich, ...]:
    """Write what would run, as messages of which the last one closes with *end*."""
    shown = escape_invisible(request.question.subject) or "(nothing)"
    before, after = f"{_headline(request.question)}\n\n", f"\n\n{end}"
    frame = size.measure(before + after)
    if frame + size.measure(shown) <= size.room:
        return (_rich((before, ""), (shown, "code"), (after, "")),)
    # A character has two units at most, and there are two ends.
    ends = _ends(request.code, shown, max(ENDS, (size.room - frame - FRAME) // 4))
    return (*_whole(request.code, shown, size), _rich((before, ""), *ends, (after, "")))


def view_buttons(request: ApprovalRequest, view: View) -> tuple[Button, ...]:
    """Return the buttons under one question, or under its details."""
    if view == "details":
        return (Button("Back to the question", f"a:{request.id}:{VIEWS['question']}"),)
    show = f"/approvals show {request.code}"
    return (*buttons(request), Button("Details", f"a:{request.id}:{VIEWS['details']}", show))


def buttons(request: ApprovalRequest) -> tuple[Button, ...]:
    """Return the answers to one question."""
    origins = request.question.origins
    words: dict[OwnerAnswer, str] = {
        "once": "Allow once",
        "conversation": _covering("This conversation", request.question),
        "always": _covering("Always", request.question),
        "source": f"Trust {_flat(origins[0], LABEL)}"
        if len(origins) == 1
        else f"Trust {len(origins)} sources",
        "denied": "Deny",
    }
    allow, deny = f"/allow {request.code}", f"/deny {request.code}"
    return tuple(
        Button(
            words[answer],
            button("a", request.id, answer),
            deny if answer == "denied" else f"{allow} {answer}",
        )
        for answer in answers(request.question)
    )


def access_question(asked: AccessRequested) -> Rich:
    """Ask about a stranger; the name is theirs, so it stands as code: no link, no mention."""
    if asked.is_group:
        return _rich(
            (asked.by, "code"),
            (" wants me in the group ", ""),
            (asked.name or "without a name", "code"),
            (
                f" ({asked.principal}). Shall I answer there? Everybody in it can then talk to me, "
                "but I trust only you and whom you let in.",
                "",
            ),
        )
    return _rich(
        ("Somebody wants to talk to me: ", ""),
        (asked.name or "somebody", "code"),
        (
            f" ({asked.principal})\nTheir code is {asked.code}. "
            "Approve only if they gave it to you themselves.",
            "",
        ),
    )


def access_settled(
    asked: AccessRequested,
    decided: AccessDecided | None,
    at: Route,
    channels: Channels,
    now: float,
    zone: tzinfo,
) -> Rich:
    """Say what became of a stranger who asked; None: nothing, until the code was over."""
    yes, no = "may talk to me now", "stays out"
    if asked.is_group:
        yes, no = "is a group that I answer in now", "is a group that I stay silent in"
    ended = f"{no}: nobody decided in time"
    if decided is not None:
        ended = f"{yes if decided.approved else no}, decided {_by(decided.by, at, channels)}"
    name = asked.name or "somebody"
    return _rich((name, "code"), (f" ({asked.principal}) {ended}, {_when(now, zone)}.", ""))


def crowd_message(asked: Sequence[AccessRequested]) -> Rich:
    """Tell of several strangers at once; no code is shown, so the owner has it from who asks."""
    names: list[Piece] = [
        (f"\n{one.name or 'somebody'} ({one.principal})", "code") for one in asked[:MAX_CROWD]
    ]
    more = len(asked) - MAX_CROWD
    return _rich(
        (f"{len(asked)} people want to talk to me:", ""),
        *names,
        (f"\nand {more} others" if more > 0 else "", ""),
        ("\nIf one of them gave you their code themselves: /allow CODE", ""),
    )


def access_buttons(asked: AccessRequested) -> tuple[Button, ...]:
    yes, no = ("Answer there", "Stay silent") if asked.is_group else ("Approve", "Deny")
    return (
        Button(yes, button("p", asked.code, "once")),
        Button(no, button("p", asked.code, "denied")),
    )


def button(kind: Kind, id: str, answer: OwnerAnswer) -> str:
    """Write what a button carries: at most 64 bytes (TG-29).

    >>> button("a", "x" * 22, "once"), button("p", "ABCD2345", "denied")
    ('a:xxxxxxxxxxxxxxxxxxxxxx:o', 'p:ABCD2345:n')
    """
    return f"{kind}:{id}:{_letters(kind)[answer]}"


def button_pressed(data: str) -> tuple[Kind, str, OwnerAnswer | View] | None:
    """Read what a button carries; None if it is not one of these.

    >>> button_pressed("a:abc:d"), button_pressed("a:abc:x"), button_pressed("p:ABCD2345:y")
    (('a', 'abc', 'denied'), None, ('p', 'ABCD2345', 'once'))
    """
    match data.split(":"):
        case [("a" | "p") as kind, id, letter] if _ID.fullmatch(id):
            known: dict[str, OwnerAnswer | View] = {at: one for one, at in _letters(kind).items()}
            if kind == "a":
                known |= {at: view for view, at in VIEWS.items()}
            return (kind, id, known[letter]) if letter in known else None
    return None


def _letters(kind: Kind) -> dict[OwnerAnswer, str]:
    return ACCESS_LETTERS if kind == "p" else LETTERS


def answer_of(word: str) -> OwnerAnswer | None:
    """Read an answer as people type it.

    >>> answer_of("Always"), answer_of("yes")
    ('always', None)
    """
    return next((answer for answer in get_args(OwnerAnswer) if answer == word.lower()), None)


def overview(requests: Sequence[ApprovalRequest], permissions: Sequence[Permission]) -> str:
    lines = ["Nothing waits for a decision."]
    if requests:
        lines = ["Waiting for a decision (/allow CODE, /deny CODE):"]
        lines += [f"{c.code}: {gist(c.question)}, in {_flat(c.question.session)}" for c in requests]
    if permissions:
        lines.append("Permitted for good (/approvals revoke NUMBER):")
        lines += [f"{p.number}: {permission_words(p)}, by {p.by}" for p in permissions]
    else:
        lines.append("Nothing is permitted for good.")
    return "\n".join(lines)


def permission_words(permission: Permission) -> str:
    match permission.kind:
        case "conversation":
            return f"in {_flat(permission.session)}: {permission.what}"
        case "always":
            return f"always: {permission.what}"


def _covering(lead: str, question: Question) -> str:
    """Say on a button what it covers: cut, if need be, before what must stay as it is."""
    if (scope := question.scope) is None:
        return f"{lead}: exactly this"
    return f"{lead}: {_flat(scope.words, BUTTON - len(f'{lead}: {scope.note}'))}{scope.note}"


def _coverage(question: Question) -> str:
    """Say in full what an answer for the conversation, or for good, would cover."""
    if "always" not in question.offered:
        return ""
    covers = "do exactly this again, while nothing that it names has changed"
    if (scope := question.scope) is not None:
        covers = _flat(scope.covers, REASON) + ("" if question.route.private else ", in this group")
    return f"“Conversation” and “always” would let me {covers}.\n"


def _flat(text: str, limit: int = 64) -> str:
    """Make words that are not ours one line with nothing hidden in it."""
    # Of 22 characters three at least are shown: no more than 20 blanks stand in a row.
    return one_line(escape_invisible(cut(text, 10 * limit)).replace("⏎", ""), limit)


def _asker(question: Question, at: Route, owners: Collection[str]) -> str:
    """Say who made it happen, unless it is the one who is asked, where they talk with us."""
    here = question.route
    # In a private chat with an owner no other owner writes, except from the console.
    if here.private and here.is_same_chat(at) and question.principal in owners:
        return ""
    who = question.principal
    if who.startswith(PRINCIPAL):
        who = f"the task {who.removeprefix(PRINCIPAL)}"
        if question.session.startswith(SESSION):
            return f"For {_flat(who)}.\n"
    return f"For {_flat(who)} in {_flat(question.session)}.\n"


def _by(by: str, at: Route, channels: Channels) -> str:
    """Say who decided to who reads it *at* a place."""
    reader = channels.recipient(by)
    if reader is not None and reader.is_same_chat(at):
        return "by you"
    return "at the console" if by.startswith(CONSOLE) else f"by {_flat(by)}"


def _when(at: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, zone):%a %H:%M}"


def _sources(question: Question) -> str:
    if not question.origins:
        return ""
    named = ", ".join(_flat(origin, SOURCE) for origin in question.origins[:SOURCES])
    more = len(question.origins) - SOURCES
    return f"This conversation holds words from {named}{f' and {more} more' if more > 0 else ''}.\n"


def _ends(code: str, shown: str, size: int) -> list[Piece]:
    """Show both ends of a text that is shown whole elsewhere."""
    left_out = len(shown) - 2 * size
    note = f"\n[… {left_out} characters; the whole stands above, marked {code} …]\n"
    return [(shown[:size], "code"), (note, ""), (shown[-size:], "code")]


def _whole(code: str, shown: str, size: MessageSize) -> list[Rich]:
    """Write a long text as messages of its own, with not one character lost at the cuts."""
    offsets, parts, start = size.offsets(shown), list[str](), 0
    while start < len(shown):
        end = bisect_right(offsets, offsets[start] + size.room - FRAME) - 1
        parts.append(shown[start:end])
        start = end
    return [
        _rich(
            (f"{code}, part {number} of {len(parts)} of what would run:\n", ""),
            (part, "code"),
            (f"\n[end of part {number}]", ""),
        )
        for number, part in enumerate(parts, 1)
    ]


def _rich(*pieces: Piece) -> Rich:
    text, entities, offset = "", [], 0
    for piece, kind in pieces:
        length = utf16_length(piece)
        if kind:
            entities.append(Entity(kind, offset, length))
        text += piece
        offset += length
    return Rich(text, tuple(entities))
