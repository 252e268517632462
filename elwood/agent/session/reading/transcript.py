"""What was said in a conversation, turn by turn: read from its log, for `elwood session show`."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from textwrap import indent

import attrs
import msgspec

from elwood.agent.conversation.message import Message, Prompt
from elwood.agent.session.log.branch_entries import Retried
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
    Received,
    Replied,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.audit import columns, printable
from elwood.agent.session.reading.receipts import MARKS, one_line

# Entries in order: number, Unix time, entry.
Log = Iterable[tuple[int, float, Entry]]
# Characters of what a turn began with, in the table.
WORDS = 50
HEADINGS = ("turn", "time", "first words", "requests", "calls", "tokens in", "out", "end")


@attrs.define
class Row:
    """One turn; *at* is when it began, Unix seconds.  *read* and *wrote* are tokens."""

    number: int
    at: float
    words: str
    requests: int = 0
    calls: int = 0
    read: int = 0
    wrote: int = 0
    end: str = "under way"


def turns(log: Log) -> Iterator[Row]:
    """Yield the turns of *log*, each when it has ended; one that has not comes last.

    >>> from elwood.agent.conversation.route import Route
    >>> said = Received("a", "hello", "me", Route("console"), 0.0)
    >>> [(row.number, row.words, row.end) for row in turns([
    ...     (1, 0.0, said), (2, 0.0, TurnStarted("t1", ("a",), 1, "[now] hello")),
    ...     (3, 1.0, Replied("t1", "t1", ("a",), Route("console"), "hi"))])]
    [(1, 'hello', 'answered')]
    """
    open_: Row | None = None
    for entry, at, started, inputs in _turns(log):
        if started and open_ is None:
            number = int(started.removeprefix("t")) if started[1:].isdecimal() else 0
            words = " / ".join(one.text for one in inputs) or "(a call that had waited)"
            open_ = Row(number, at, words)
        if open_ is None:
            continue
        match entry:
            case Said(usage=usage):
                open_.requests += 1
                open_.read += usage.input + usage.cache_read + usage.cache_write
                open_.wrote += usage.output
            case CallEnded():
                open_.calls += 1
            case Replied(turn=turn, failed=failed) if turn is not None:
                open_.end = "failed" if failed else "answered"
                yield open_
                open_ = None
            case _:
                pass
    if open_ is not None:
        yield open_


def _turns(log: Log) -> Iterator[tuple[Entry, float, str, list[Received]]]:
    """Yield each entry with the id of the turn that it is in, and what that began with."""
    waiting: dict[str, Received] = {}
    open_, inputs = "", list[Received]()
    for _, at, entry in log:
        match entry:
            case Received(id_):
                waiting[id_] = entry
            case Retried(id_, text) if id_ in waiting:
                waiting[id_] = msgspec.structs.replace(waiting[id_], text=text)
            case TurnStarted(turn, ids) if turn != open_:
                open_ = turn
                inputs = [waiting[id_] for id_ in ids if id_ in waiting]
            case _:
                pass
        yield entry, at, open_, inputs
        if isinstance(entry, Replied):
            for id_ in entry.inputs:
                waiting.pop(id_, None)
            if entry.turn is not None:
                open_, inputs = "", []


def table(found: Iterable[Row], zone: tzinfo) -> Iterator[str]:
    """Draw turns for people, in columns that fit."""
    yield from columns([HEADINGS, *(_cells(row, zone) for row in found)])


def _cells(row: Row, zone: tzinfo) -> tuple[str, ...]:
    return (
        str(row.number),
        f"{datetime.fromtimestamp(row.at, zone):%Y-%m-%d %H:%M:%S}",
        printable(one_line(row.words, WORDS)),
        str(row.requests),
        str(row.calls),
        str(row.read),
        str(row.wrote),
        row.end,
    )


def transcript(log: Log, turn: str, zone: tzinfo) -> Iterator[str]:
    """Tell the turn with the id *turn* for people: who said what, and what was done."""
    begun = False
    for entry, at, open_, inputs in _turns(log):
        if open_ != turn:
            continue
        clock = f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"
        if not begun:
            begun = True
            for received in inputs:
                yield _told(clock, received.principal, received.text)
        for who, text in _lines(entry):
            yield _told(clock, who, text)


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
    lines = "\n".join(printable(line) for line in text.splitlines())
    return f"[{clock}] {printable(one_line(who, 100))}:\n{indent(lines, '  ')}\n"


@attrs.frozen
class Sent:
    """What a model was sent, and the response that was kept."""

    prompt: Prompt
    messages: tuple[Message, ...]
    said: Said


def sent(log: Log, turn: str) -> Iterator[Sent]:
    """Yield the requests of a turn that led to responses, as the same code made them then.

    Those that led to none are not in the log: failures, and answers that were thrown away.
    """
    session = Session()
    for seq, at, entry in log:
        if isinstance(entry, Said) and entry.turn == turn:
            yield Sent(session.prompt or Prompt(""), session.messages, entry)
        session.apply(seq, at, entry)
