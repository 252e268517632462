"""What is shown of records: tables of calls and of turns, one turn as it was told, /receipts."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from textwrap import indent

from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Entry,
    Joined,
    Noticed,
    Prompted,
    Replied,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.reading.receipts import MARKS, allowed_by, outcome_line, what_was_called
from elwood.agent.session.reading.records import CallRecord, TurnRecord
from elwood.foundation.text.lines import columns, one_line

# Characters of a target, of what a turn began with, and of other cells.
TARGET, WORDS, CELL = 60, 50, 24
# Calls that /receipts lists when nobody says how many.
LISTED = 10
CALLS = ("time", "session", "tool", "target", "outcome", "allowed by", "took", "label")
TURNS = ("turn", "time", "first words", "requests", "calls", "tokens in", "out", "end")


def calls_table(calls: Iterable[CallRecord], zone: tzinfo) -> Iterator[str]:
    """Draw calls for people, in columns that fit."""
    return columns([CALLS, *(_call_cells(call, zone) for call in calls)])


def turns_table(turns: Iterable[TurnRecord], zone: tzinfo) -> Iterator[str]:
    """Draw turns for people, in columns that fit."""
    return columns([TURNS, *(_turn_cells(turn, zone) for turn in turns)])


def transcript(turn: TurnRecord, zone: tzinfo) -> Iterator[str]:
    """Tell a turn that was read whole: who said what, and what was done."""
    for heard in turn.heard:
        if heard.at == turn.at:
            received = heard.received
            yield _told(_time(heard.at, zone), received.principal, received.text)
    for at, entry in turn.entries:
        for who, text in _lines(entry):
            yield _told(_time(at, zone), who, text)


def listing(calls: Iterable[CallRecord], given: str, zone: tzinfo) -> tuple[str, str]:
    """Answer ``/receipts`` with the newest of *calls* that ended: a text, and below it the calls.

    *given* is what was typed behind it: how many.

    >>> from datetime import UTC
    >>> one = CallRecord("s", "t", "c", "read_file", "ok", "notes.txt", ended_at=0.0)
    >>> listing([one], "5", UTC)
    ('The last call of this conversation:', '1970-01-01 00:00 ✓ read_file notes.txt')
    >>> listing([one], "many", UTC)[0]
    'Say how many calls to list: /receipts 20'
    """
    count = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if given and not count:
        return "Say how many calls to list: /receipts 20", ""
    ended = sorted((one for one in calls if one.ended_at is not None), key=lambda one: one.at)
    if not ended:
        return "No tool was called in this conversation.", ""
    lines = [
        f"{datetime.fromtimestamp(one.at, zone):%Y-%m-%d %H:%M} {call_line(one)}"
        for one in ended[-(count or LISTED) :]
    ]
    many = "call" if len(lines) == 1 else f"{len(lines)} calls"
    return f"The last {many} of this conversation:", "\n".join(lines)


def call_line(call: CallRecord) -> str:
    """Say in one line what became of a call.

    >>> call_line(CallRecord("s", "t1", "c1", "pay", "failed", "rent", ruling="once"))
    '✗ pay rent (failed) · allowed once by you'
    """
    return outcome_line(call.outcome, what_was_called(call.tool, call.target), call.ruling)


def _time(at: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"


def _call_cells(call: CallRecord, zone: tzinfo) -> tuple[str, ...]:
    label = [name for name in ("untrusted", "private") if getattr(call.label, name)]
    return (
        _time(call.at, zone),
        one_line(call.session, CELL),
        one_line(call.tool, CELL),
        one_line(call.target, TARGET),
        call.outcome,
        allowed_by(call.ruling),
        call.took,
        " ".join(label),
    )


def _turn_cells(turn: TurnRecord, zone: tzinfo) -> tuple[str, ...]:
    words = " / ".join(heard.received.text for heard in turn.heard) or "(a call that had waited)"
    end = "under way"
    if turn.answer is not None:
        end = "failed" if turn.answer.failed else "answered"
    return (
        str(turn.number),
        _time(turn.at, zone),
        one_line(words, WORDS),
        str(turn.requests),
        str(len(turn.calls)),
        str(turn.read),
        str(turn.wrote),
        end,
    )


def _lines(entry: Entry) -> Iterator[tuple[str, str]]:
    """Say who did what, if an entry tells."""
    match entry:
        case TurnStarted(attempt=attempt) if attempt > 1:
            yield "Elwood", f"begins for the {attempt}. time"
        case Joined(text=text):
            yield "said meanwhile", text
        case Prompted(prompt):
            size = len(prompt.system)
            yield "Elwood", f"new prompt: {size} characters, {len(prompt.tools)} tools"
        case Said(message=message, usage=usage):
            calls = [f"→ {call.name} {call.arguments}" for call in message.calls]
            read = usage.input + usage.cache_read + usage.cache_write
            who = f"model {message.model} ({read} tokens in, {usage.output} out)"
            yield who, "\n".join(filter(None, [message.text, *calls]))
        case Noticed(text=text):
            yield "Elwood, to the model", text
        case CallPending(tool=tool, target=target):
            yield "Elwood", f"asks the owner about {tool} {target}".rstrip()
        case CallDecided(ruling=ruling, by=by):
            yield "decided", f"{ruling} {by}".rstrip()
        case CallStarted(tool=tool, target=target):
            yield "Elwood", f"starts {tool} {target}".rstrip()
        case CallEnded(tool=tool, target=target, outcome=outcome, text=text):
            yield f"{MARKS[outcome]} {tool} {target} ({outcome})", text
        case Compacted(summary=summary):
            yield "Elwood, for all that was before", summary
        case Rewound():
            yield "Elwood", "leaves out what was said since"
        case Replied(turn=turn, text=text, footer=footer) if turn is not None:
            yield "Elwood, answering", "\n\n".join(filter(None, [text, footer]))
        case _:
            pass


def _told(clock: str, who: str, text: str) -> str:
    # What was said is indented and cannot begin a line: nobody speaks in another's name.
    shown = ("".join(filter(str.isprintable, line)) for line in text.splitlines())
    lines = "\n".join(shown)
    return f"[{clock}] {one_line(who, 100)}:\n{indent(lines, '  ')}\n"
