"""Texts about records: tables, a turn's transcript, /receipts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from itertools import groupby
from textwrap import indent

from elwood.agent.session.extension import CommandAnswer
from elwood.agent.session.log import entries
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Log
from elwood.agent.session.paging import page, parse_page
from elwood.agent.session.reading.receipts import (
    DOT,
    MARKS,
    describe_ruling,
    outcome_line,
    what_was_called,
)
from elwood.agent.session.reading.records import CallRecord, History, TurnRecord
from elwood.agent.tools.tool import Tool
from elwood.foundation.text.characters import clean
from elwood.foundation.text.lines import ago, code, fence_of, literal, one_line, shorten
from elwood.foundation.text.tables import Row, Style, Styled

# Characters of a text in a table, of a name, and of a fact about a call.
CELL, NAME, FACT = 200, 60, 60
# Calls on a page of /receipts; characters of an error.
LISTED, MAX_ERROR = 10, 300
# Nested calls listed with a call; the rest is counted.
WITHIN = 20
# Characters of a call's arguments, and of its result.
MAX_GIVEN, MAX_RESULT = 1000, 1500
FORGOTTEN = "(deleted: it contained words that must not be stored)"
CALLS = (
    "when", "time", "session", "number", "tool", "target", "outcome", "allowed by", "took", "label",
)  # fmt: skip
SPARE_OF_CALLS = ("time", "label", "took", "allowed by", "number", "session")
TURNS = ("turn", "when", "time", "first words", "requests", "calls", "tokens in", "out", "end")
SPARE_OF_TURNS = ("time", "tokens in", "out", "requests", "calls")
_STYLES: Mapping[str, Style] = {"failed": "bad", "unknown": "bad", "denied": "warning"}


def list_receipts(calls: Iterable[CallRecord], given: str, zone: tzinfo) -> CommandAnswer:
    """Answer ``/receipts`` with the newest ended *calls*, the newest last.

    *given* are the arguments: the page.
    """
    wanted, number = parse_page(given)
    if wanted:
        return CommandAnswer("Give the number of a call, for example: /receipts 12")
    shown = (one for one in calls if one.ended_at is not None and not one.is_detail)
    ended = sorted(shown, key=lambda one: one.at)
    if not ended:
        return CommandAnswer("I have not used any tools in this conversation.")
    newest, pages = page(ended[::-1], number, LISTED, "/receipts")
    lines = [_dated_line(one, zone) for one in reversed(newest)]
    head = f"Tool calls in this conversation: {len(ended)}. The newest is last. "
    head += "/receipts NUMBER shows one:"
    return CommandAnswer(head, "\n".join(lines), pages=pages)


def show_receipt(
    log: Log, number: int, zone: tzinfo, redact: Callable[[str], str]
) -> CommandAnswer:
    """Answer ``/receipts 12`` with the details of the call with that *number* in *log*."""
    proposed, given, result, forgets = dict[str, str](), "", "", False

    def noting() -> Iterator[tuple[int, float, Entry]]:
        nonlocal given, result, forgets, proposed
        for line in log:
            match line[2]:
                case entries.Said(message=message):
                    proposed = {call.id: call.arguments for call in message.calls}
                case entries.CallEnded(call=id_, number=found) as ended if found == number:
                    # A waiting call was proposed in an earlier turn.
                    given = given or proposed.get(id_, "")
                    result, forgets = ended.text, ended.forgets
            yield line

    made = History("", noting()).calls
    calls = {one.number: one for one in made if one.number and not one.place}
    call = calls.get(number)
    if call is None:
        return CommandAnswer(f"This conversation has no call {number}. /receipts lists the calls.")
    label = [name for name in ("untrusted", "private") if getattr(call.label, name)]
    by = call.by or call.ruling.partition(" ")[2]
    facts = {
        "when": _time(call.at, zone),
        "took": call.took,
        "decided": f"{describe_ruling(call.ruling)} ({by})"
        if call.ruling
        else "no approval needed",
        "label": f"{', '.join(label) or 'none'}{f', from {call.origin}' if call.origin else ''}",
    }
    lines = [literal(redact(f"{number}: {_call_line(call)}")), ""]
    told = ((name, one_line(redact(said), FACT)) for name, said in facts.items())
    lines += [f"- {name}: {literal(said)}" for name, said in told if said]
    for name, text, most in (("Arguments", given, MAX_GIVEN), ("Result", result, MAX_RESULT)):
        shown = clean(shorten(redact(FORGOTTEN if forgets else text), most))
        fence = fence_of(shown)
        lines += ["", f"{name}:", fence, shown, fence] if shown.strip() else []
    within = [one for one in made if one.place and one.number == number]
    # Those with effects first: most of hundreds only read.
    within.sort(key=lambda one: one.is_detail)
    lines += ["", f"Calls it made: {len(within)}"] if within else []
    lines += [f"- {literal(redact(f'{one.name}: {_call_line(one)}'))}" for one in within[:WITHIN]]
    near = {f"← {number - 1}": number - 1, f"{number + 1} →": number + 1}
    pages = {text: f"/receipts {one}" for text, one in near.items() if one in calls}
    return CommandAnswer("\n".join(lines), pages=pages)


def tool_listing(tools: Mapping[str, Tool], given: str, log: Log, zone: tzinfo) -> CommandAnswer:
    """Answer ``/tools`` with all *tools* and counts from *log*, or with one and its last calls."""
    errors = dict[str, str]()

    def noting() -> Iterator[tuple[int, float, Entry]]:
        for line in log:
            match line[2]:
                case entries.CallEnded(tool=tool, outcome="failed", text=text):
                    errors[tool] = text
            yield line

    made = [call for call in History("", noting()).calls if call.ended_at is not None]
    calls = Counter(call.tool for call in made)
    failed = Counter(call.tool for call in made if call.outcome == "failed")

    def counted(name: str) -> str:
        bad = f", {failed[name]} failed" if failed[name] else ""
        return f"{code(name)} ({calls[name]}{bad})" if calls[name] else code(name)

    if (tool := tools.get(given)) is not None:
        error = literal(one_line(errors.get(given, ""), MAX_ERROR))
        lines = [f"{code(given)}: {tool.description}", ""]
        lines.append(f"Calls in this conversation: {calls[given]}; failed: {failed[given]}.")
        lines += [f"Last failure: {error}"] if error else []
        last = sorted((one for one in made if one.tool == given), key=lambda one: one.at)
        shown = [_dated_line(one, zone) for one in last[-LISTED:]]
        return CommandAnswer("\n".join(lines), "\n".join(shown))
    lines = ["My tools, and in brackets how often I used them in this conversation:", ""]
    if given:
        lines[:0] = [f"I have no tool called {literal(one_line(given))}.", ""]
    ordered = sorted(tools.values(), key=lambda tool: tool.id)
    for subject, found in groupby(ordered, lambda tool: tool.id.partition(".")[0]):
        lines.append(f"- {subject}: {', '.join(counted(one.name) for one in found)}")
    return CommandAnswer("\n".join([*lines, "", "/tools NAME explains one tool."]))


def _dated_line(call: CallRecord, zone: tzinfo) -> str:
    number = f" {DOT} #{call.name}" if call.name else ""
    return f"{datetime.fromtimestamp(call.at, zone):%Y-%m-%d %H:%M} {_call_line(call)}{number}"


def _call_line(call: CallRecord) -> str:
    return outcome_line(call.outcome, what_was_called(call.tool, call.target), call.ruling)


def _time(at: float, zone: tzinfo) -> str:
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M:%S}"


def call_cells(call: CallRecord, zone: tzinfo, now: float) -> Row:
    label = [name for name in ("untrusted", "private") if getattr(call.label, name)]
    return (
        ago(now - call.at),
        _time(call.at, zone),
        one_line(call.session, NAME),
        call.name,
        one_line(call.tool, NAME),
        one_line(call.target, CELL),
        Styled(call.outcome, _STYLES.get(call.outcome, "")),
        describe_ruling(call.ruling),
        call.took,
        " ".join(label),
    )


def turn_cells(turn: TurnRecord, zone: tzinfo, now: float) -> Row:
    end = "under way"
    if turn.answer is not None:
        end = "failed" if turn.answer.failed else "answered"
    return (
        str(turn.number),
        ago(now - turn.at),
        _time(turn.at, zone),
        one_line(turn.words, CELL),
        *(f"{number:,}" for number in (turn.requests, len(turn.calls), turn.read, turn.wrote)),
        Styled(end, _STYLES.get(end, "")),
    )


# --- one turn -------------------------------------------------------------------------------------


def transcript(turn: TurnRecord, log: Log, zone: tzinfo) -> Iterator[str]:
    """Yield a turn of *log*: messages and calls until its answer."""
    for seq, at, entry in log:
        for one in (heard.received for heard in turn.heard if heard.seq == seq):
            yield _format_entry(at, zone, one.principal, one.text)
        is_of_it = turn.seq <= seq and (seq <= turn.answered or not turn.answered)
        if is_of_it and (told := _describe_entry(entry)) is not None:
            yield _format_entry(at, zone, *told)


def _describe_entry(entry: Entry) -> tuple[str, str] | None:
    match entry:
        case entries.Prompted(prompt):
            tools = ", ".join(tool.name for tool in prompt.tools)
            return "Elwood, system prompt", f"{prompt.system}\n\nTools: {tools}"
        case entries.Said(message=message, usage=usage):
            calls = [f"→ {call.name} {call.arguments}" for call in message.calls]
            read = usage.input + usage.cache_read + usage.cache_write
            who = f"model {message.model} ({read} tokens in, {usage.output} out)"
            return who, "\n".join(filter(None, [message.text, *calls]))
        case entries.Noticed(text=text) | entries.Reminded(text=text):
            return "Elwood, to the model", text
        case entries.CallPending(tool=tool, target=target):
            return "Elwood", f"asks the owner about {tool} {target}".rstrip()
        case entries.CallDecided(ruling=ruling, by=by):
            return "decided", f"{ruling} {by}".rstrip()
        case entries.CallStarted(tool=tool, target=target):
            return "Elwood", f"starts {tool} {target}".rstrip()
        case entries.CallNested(outer=outer, tool=tool, arguments=arguments):
            return f"the call {outer}", f"→ {tool} {arguments}"
        case entries.CallEnded(tool=tool, target=target, outcome=outcome, text=text):
            return f"{MARKS[outcome]} {tool} {target} ({outcome})", text
        case entries.Compacted(summary=summary):
            return "Elwood, summary of the earlier part", summary
        case entries.Replied(turn=turn, text=text, footer=footer) if turn is not None:
            return "Elwood, answer", "\n\n".join(filter(None, [text, footer]))
    return None


def _format_entry(at: float, zone: tzinfo, who: str, text: str) -> str:
    # The text is indented and cannot begin a line, so it cannot imitate another speaker.
    shown = ("".join(filter(str.isprintable, line)) for line in text.splitlines())
    lines = indent("\n".join(shown), "  ")
    return f"[{_time(at, zone)}] {one_line(who, 100)}:\n{lines}\n"
