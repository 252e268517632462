"""The message that asks about a call: the complete call, the reason, and buttons.

The codes for typed answers and technical facts are behind the button "Details".  All text from
the model or from strangers is escaped; buttons carry random ids only.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import tzinfo
from typing import Literal, get_args

from elwood.agent.approvals.state import (
    GIST,
    ApprovalRequest,
    Permission,
    Question,
    answers,
    describe_permission,
    gist,
)
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import Button
from elwood.agent.channels.questions import (
    Piece,
    build_text,
    describe_decider,
    flatten,
    format_time,
)
from elwood.agent.conversation.calls import Outcome, OwnerAnswer, Ruling, RunCommand, allows
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import PRINCIPAL, SESSION
from elwood.agent.people.state import People
from elwood.agent.policy.decide import name_source, name_sources
from elwood.foundation.text.characters import describe_unusual, escape_invisible
from elwood.foundation.text.lines import shorten
from elwood.foundation.text.markdown import Rich
from elwood.foundation.text.splitting import MessageSize

# Maximum characters, escaped, of a call in a question: a dozen messages.
MAX_SHOWN = 40_000
# Characters of the start and of the end that the message with the buttons always shows.
ENDS = 200
# Units of a message reserved for the text around a part of a call.
FRAME = 300
# Maximum characters of the reason and of a source, and maximum of named sources.
REASON, SOURCE, SOURCES = 300, 80, 5
# Maximum characters of the arguments in the details.
MAX_ARGUMENTS = 1500
# Maximum characters of a source's name on a button, and of a button that shows its scope.
LABEL, BUTTON = 30, 40
LETTERS: dict[OwnerAnswer, str] = {
    "once": "o",
    "conversation": "c",
    "always": "a",
    "source": "s",
    "denied": "d",
}
# Buttons that switch between the question and its details.
View = Literal["details", "question"]
VIEWS: dict[View, str] = {"details": "?", "question": "<"}
RULINGS = {
    "once": "allowed once",
    "conversation": "allowed in this conversation",
    "always": "always allowed",
    "source": "allowed once",
    "standing": "allowed by a permission",
    "denied": "denied",
    "expired": "expired",
    "withdrawn": "withdrawn",
}

# Ends of allowed calls.
OUTCOMES: dict[Outcome, str] = {
    "ok": "✓ Done",
    "failed": "✗ Failed",
    "denied": "⛔ Not done",
    "unknown": "⚠ I do not know whether this was done",
    "dry run": "Dry run, so not done",
    "waiting": "Not done yet",
}
# Outcomes that are not answers of the owner.
ENDED: dict[Ruling, str] = {
    "expired": "Not done: no one answered in time",
    "withdrawn": "Not done: I took the question back",
}

NO_PEOPLE = People()

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def request_messages(
    request: ApprovalRequest, at: Route, channels: Channels, people: People = NO_PEOPLE
) -> tuple[Rich, ...]:
    """Format a question as messages to be read *at* a place; the last one gets the buttons."""
    question = request.question
    why, strange = flatten(question.why, REASON), describe_unusual(question.subject)
    is_named = name_sources(question.origins) in why
    return _format_messages(
        request,
        f"Why I ask: {why}.\n{'' if is_named else _describe_sources(question)}"
        f"{_describe_coverage(question)}"
        f"{f'The text above {strange}.{chr(10)}' if strange else ''}"
        f"{_describe_requester(question, at, channels, people)}".rstrip(),
        channels.get_by_route(at).size,
    )


def format_decision(request: ApprovalRequest, at: Route, channels: Channels, zone: tzinfo) -> Rich:
    """Format the text that replaces the question *at* its place after the decision."""
    assert request.ruling is not None
    ended = ENDED.get(request.ruling)
    if request.ruling == "standing":
        ended = f"Allowed by {flatten(request.by)}"
    by = describe_decider(request.by, at, channels)
    ended = ended or f"{RULINGS[request.ruling].capitalize()} {by}"
    mark, when = "✓" if allows(request.ruling) else "⛔", format_time(request.decided_at, zone)
    covers = ""
    if request.ruling in ("conversation", "always"):
        permission = flatten(describe_permission(request.question), REASON)
        covers = f"\nI will not ask again about: {permission}"
    elif request.ruling == "source":
        covers = f"\n{describe_trust(request.question)}"
    return _format_messages(
        request, f"{mark} {ended}, {when}.{covers}", channels.get_by_route(at).size
    )[-1]


def format_outcome(question: Question, outcome: Outcome) -> Rich:
    """Format how a call of another conversation has ended, for the chat with its question."""
    return Rich(f"{OUTCOMES[outcome]}: {gist(question)}, in {flatten(question.session)}.")


def details_message(request: ApprovalRequest, size: MessageSize) -> Rich:
    """Format the details, which replace the question; they have no buttons for an answer."""
    question = request.question
    typed = " | ".join(answer for answer in answers(question) if answer != "denied")
    what = f"{flatten(question.subject, GIST)}\n\nTool: {flatten(question.tool)}"
    before = f"{_format_headline(question)}\n{what}\nArguments: "
    after = (
        f"\nAsked in {flatten(question.session)} for {flatten(question.principal)}.\n"
        f"{_describe_sources(question)}Your answer is bound to the plan {question.plan[:16]}.\n"
        f"\nYou can also type one of these:\n/allow {request.code} {typed}\n/deny {request.code}"
    )
    # A character has two units at most.
    room = min(MAX_ARGUMENTS, (size.room - size.measure(before + after)) // 2)
    arguments = shorten(escape_invisible(question.arguments), max(1, room)) or "(not stored)"
    return build_text((before, ""), (arguments, "code"), (after, ""))


def _format_headline(question: Question) -> str:
    asks = flatten(question.asks, GIST) or flatten(f"use {question.tool}")
    return f"May I {asks}?"


def _format_messages(request: ApprovalRequest, end: str, size: MessageSize) -> tuple[Rich, ...]:
    """Format what would run, as messages of which the last one ends with *end*."""
    shown = _show_subject(request.question.subject) or "(nothing)"
    before, after = f"{_format_headline(request.question)}\n\n", f"\n\n{end}"
    frame = size.measure(before + after)
    if frame + size.measure(shown) <= size.room:
        return (build_text((before, ""), (shown, "code"), (after, "")),)
    # A character has two units at most, and there are two ends.
    ends = _format_ends(request.code, shown, max(ENDS, (size.room - frame - FRAME) // 4))
    return (*_format_parts(request.code, shown, size), build_text((before, ""), *ends, (after, "")))


def _show_subject(subject: str) -> str:
    r"""Make every character of *subject* visible.

    The first characters of a diff's lines show its line breaks.

    >>> _show_subject("edit a\n@@ -1,1 +1,1 @@\n-b\n+c")
    'edit a\n@@ -1,1 +1,1 @@\n-b\n+c'
    >>> _show_subject("a\nb")
    'a⏎\nb'
    """
    shown = escape_invisible(subject)
    _, *lines = subject.split("\n")
    is_diff = bool(lines) and lines[0].startswith("@@ ")
    if is_diff and all(line[:1] in tuple(" +-@") for line in lines):
        return shown.replace("⏎\n", "\n")
    return shown


def view_buttons(request: ApprovalRequest, view: View) -> tuple[Button, ...]:
    """Return the buttons below a question, or below its details."""
    if view == "details":
        return (Button("Back to the question", f"a:{request.id}:{VIEWS['question']}"),)
    show = f"/approvals show {request.code}"
    return (*buttons(request), Button("Details", f"a:{request.id}:{VIEWS['details']}", show))


def buttons(request: ApprovalRequest) -> tuple[Button, ...]:
    """Return the buttons for the answers to a question."""
    origins = request.question.origins
    words: dict[OwnerAnswer, str] = {
        "once": "Allow once",
        "conversation": _format_scope_button("This conversation", request.question),
        "always": _format_scope_button("Always", request.question),
        "source": f"Trust {flatten(name_source(origins[0], SOURCE), LABEL)}"
        if len(origins) == 1
        else f"Trust {len(origins)} sources",
        "denied": "Deny",
    }
    allow, deny = f"/allow {request.code}", f"/deny {request.code}"
    return tuple(
        Button(
            words[answer],
            f"a:{request.id}:{LETTERS[answer]}",
            deny if answer == "denied" else f"{allow} {answer}",
        )
        for answer in answers(request.question)
    )


def button_pressed(data: str) -> tuple[str, OwnerAnswer | View] | None:
    """Parse the data of a button into the question's id and the answer; None if it is another.

    >>> button_pressed("a:abc:d"), button_pressed("a:abc:x"), button_pressed("p:ABCD2345:y")
    (('abc', 'denied'), None, None)
    """
    match data.split(":"):
        case ["a", id, letter] if _ID.fullmatch(id):
            known: dict[str, OwnerAnswer | View] = {at: one for one, at in LETTERS.items()}
            known |= {at: view for view, at in VIEWS.items()}
            return (id, known[letter]) if letter in known else None
    return None


def answer_of(word: str) -> OwnerAnswer | None:
    """Parse an answer that a person typed.

    >>> answer_of("Always"), answer_of("yes")
    ('always', None)
    """
    return next((answer for answer in get_args(OwnerAnswer) if answer == word.lower()), None)


def overview(requests: Sequence[ApprovalRequest], permissions: Sequence[Permission]) -> str:
    lines = ["No question is waiting for you."]
    if requests:
        lines = ["These questions wait for you (/allow CODE or /deny CODE):"]
        asked = [(one.code, one.question) for one in requests]
        lines += [f"{code}: {gist(one)}, in {flatten(one.session)}" for code, one in asked]
    if permissions:
        lines.append("Standing permissions (/approvals revoke NUMBER ends one):")
        lines += [f"{p.number}: {permission_words(p)}, by {p.by}" for p in permissions]
    else:
        lines.append("There are no standing permissions.")
    return "\n".join(lines)


def permission_words(permission: Permission) -> str:
    match permission.kind:
        case "conversation":
            return f"in {flatten(permission.session)}: {permission.what}"
        case "always":
            return f"always: {permission.what}"


def _format_scope_button(lead: str, question: Question) -> str:
    """Format a button with its scope, shortened if needed, but never the scope's note."""
    if (scope := question.scope) is None:
        is_command = question.asks == RunCommand.asks
        return f"{lead}: {'this exact command' if is_command else 'with these details'}"
    return f"{lead}: {flatten(scope.words, BUTTON - len(f'{lead}: {scope.note}'))}{scope.note}"


def _describe_coverage(question: Question) -> str:
    """Describe in full the coverage of a standing permission."""
    if "always" not in question.offered:
        return ""
    covers = "use this tool with these details, as long as the files it uses stay the same"
    if question.asks == RunCommand.asks:
        covers = "run this exact command, as long as the files it names stay the same"
    if (scope := question.scope) is not None:
        where = "" if question.route.private else ", in this group"
        covers = flatten(scope.covers, REASON) + where
    choices = "If you choose “This conversation” or “Always”"
    return f"{choices}, I will not ask again before I {covers}.\n"


def _describe_requester(question: Question, at: Route, channels: Channels, people: People) -> str:
    """Describe who caused the call, unless it is the reader in their own chat."""
    here, who = question.route, question.principal
    is_own = here.private and here.is_same_chat(at) and who in channels.owners
    if is_own and here.thread == at.thread:
        return ""
    if who.startswith(PRINCIPAL):
        task = f"The task {flatten(who.removeprefix(PRINCIPAL))} asked for this"
        is_run = question.session.startswith(SESSION)
        return f"{task}.\n" if is_run else f"{task} in {flatten(question.session)}.\n"
    reader = channels.recipient(who)
    role = people.role(who)
    person = flatten(who)
    if name := people.known.get(who):
        person = f"{flatten(name)} ({f'a {role}, ' if role else ''}{person})"
    if reader is not None and reader.is_same_chat(at):
        person = "You"
    group = people.known.get(f"{channels.get_by_route(here).people}{here.chat}", "")
    where = flatten(question.session)
    if here.private and who not in channels.owners:
        where = "a private chat"
    elif group and not here.private:
        where = f"the group “{flatten(group)}”"
    return f"{person} asked for this in {where}.\n"


def _describe_sources(question: Question) -> str:
    if not question.origins:
        return ""
    origins = question.origins
    named = ", ".join(flatten(name_source(one, SOURCE), SOURCE) for one in origins[:SOURCES])
    more = len(origins) - SOURCES
    return (
        f"This conversation contains text from {named}{f' and {more} more' if more > 0 else ''}.\n"
    )


def describe_trust(question: Question) -> str:
    """Describe the effect of the answer "source"."""
    sources = flatten(name_sources(question.origins), REASON)
    return f"Text read so far from {sources} now counts as trusted."


def _format_ends(code: str, shown: str, size: int) -> list[Piece]:
    """Show both ends of a text that other messages show in full."""
    left_out = len(shown) - 2 * size
    note = f"\n[… {left_out} characters; the full text is above, marked {code} …]\n"
    return [(shown[:size], "code"), (note, ""), (shown[-size:], "code")]


def _format_parts(code: str, shown: str, size: MessageSize) -> list[Rich]:
    """Format a long text as separate messages, without losing a character at the cuts."""
    offsets, parts, start = size.offsets(shown), list[str](), 0
    while start < len(shown):
        end = bisect_right(offsets, offsets[start] + size.room - FRAME) - 1
        parts.append(shown[start:end])
        start = end
    return [
        build_text(
            (f"{code}, part {number} of {len(parts)} of the full text:\n", ""),
            (part, "code"),
            (f"\n[end of part {number}]", ""),
        )
        for number, part in enumerate(parts, 1)
    ]
