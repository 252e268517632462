"""Exports a conversation as one self-contained file: Markdown, or an HTML page.

All text in it is untrusted. In Markdown it is in fences. On the page, people's messages are plain
text, and answers cannot create elements of the page's own kind.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from html import escape
from typing import Literal

import msgspec

from elwood.agent.session.reading.receipts import DOT, MAX_TOOL, outcome_line, what_was_called
from elwood.agent.session.reading.records import CallRecord, History, TurnRecord
from elwood.foundation.text.characters import clean
from elwood.foundation.text.html import as_it_stands, to_html
from elwood.foundation.text.lines import fence_of, literal, one_line

Format = Literal["md", "html"]
Line = Sequence[TurnRecord]

WORDS = 60  # characters of a turn's first words in the table of contents
# Characters of answers that a page renders as Markdown, which takes seconds; the rest is plain.
MAX_RENDERED = 2_000_000


def export_conversation(
    title: str, history: History, zone: tzinfo, format_: Format, redact: Callable[[str], str]
) -> str:
    """Return the present conversation; empty if it has no messages.

    *redact* removes secrets. Markdown has the present line, the page also the other lines of the
    conversation; neither has commands and their answers.
    """
    title, lines = one_line(title, MAX_TOOL), lines_of(history)
    if not lines:
        return ""
    # A call that waited for the owner belongs to two turns, and is shown in the later one.
    places = {
        id(call): turn.seq for line in reversed(lines) for turn in line for call in turn.calls
    }
    if format_ == "html":
        return _Page(lines, places, zone, redact).write(title)
    items = [item for turn in lines[0] for item in items_of(turn, places, redact)]
    return "\n".join([f"# {literal(title)}\n", *(_block(item, zone) for item in items)])


def lines_of(history: History) -> list[list[TurnRecord]]:
    """Return the lines of the present conversation: the present line, then the rest of the others.

    A line continues with the first turn after its last one; each further turn begins a new line.
    Archived and completely undone conversations are not included.
    """
    present = [one for one in history.turns if history.is_present(one.seq)]
    if not present:
        return []
    lines, roots, ends = [present], dict[int, int](), dict[int, list[TurnRecord]]()
    for turn in history.turns:
        root = roots[turn.seq] = roots.get(turn.parent, turn.parent)
        if root == present[0].parent and not history.is_present(turn.seq):
            if (line := ends.pop(turn.parent, None)) is None:
                lines.append(line := [])
            line.append(turn)
            ends[turn.seq] = line
    return lines


class ExportItem(msgspec.Struct, frozen=True):
    """*who* said *text* at Unix time *at*; or a summary of calls, with their list."""

    kind: Literal["person", "answer", "receipts"]
    who: str
    at: float
    text: str


def items_of(
    turn: TurnRecord, places: dict[int, int], redact: Callable[[str], str]
) -> Iterator[ExportItem]:
    for heard in turn.heard:
        one = heard.received
        if one.text.strip():
            who = one.speaker or (one.principal if one.untrusted or one.bounds else "You")
            if one.untrusted and not one.speaker:
                who = f"{who} (not their own words)"
            yield ExportItem("person", who, heard.at, redact(one.text))
    if done := [one for one in turn.calls if places[id(one)] == turn.seq]:
        bad = Counter(one.outcome for one in done if one.outcome != "ok")
        told = [_count(len(done), "call"), *(f"{many} {what}" for what, many in bad.items())]
        text = "\n".join(_describe_call(one, redact) for one in done)
        yield ExportItem("receipts", ", ".join(told), max(one.at for one in done), text)
    if (answer := turn.answer) is not None and answer.text:
        who = "Elwood (no answer)" if answer.failed else "Elwood"
        yield ExportItem("answer", who, turn.answered_at, redact(answer.text))


def _describe_call(call: CallRecord, redact: Callable[[str], str]) -> str:
    what = what_was_called(redact(call.tool), redact(call.target))
    took = f" {DOT} {call.took}" if call.took else ""
    return f"{outcome_line(call.outcome, what, call.ruling)}{took}"


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _block(item: ExportItem, zone: tzinfo) -> str:
    when, who = datetime.fromtimestamp(item.at, zone), one_line(item.who, MAX_TOOL)
    heading = literal(f"{who} {DOT} {when:%Y-%m-%d %H:%M:%S %Z}")
    text = clean(item.text)
    fence = fence_of(text)
    return f"## {heading}\n\n{fence}text\n{text}\n{fence}\n"


# --- a page ---------------------------------------------------------------------------------------


class _Page(msgspec.Struct):
    """Writes *lines* as HTML, calls at their *places*; renders *room* characters of Markdown."""

    lines: Sequence[Line]
    places: dict[int, int]
    zone: tzinfo
    redact: Callable[[str], str]
    room: int = MAX_RENDERED

    def write(self, title: str) -> str:
        main, *others = self.lines
        head = f"<header><h1>{escape(title)}</h1></header>\n<nav>{self._contents()}</nav>\n"
        body = [head, "<main>\n", self._fork_links(main[0].parent), *map(self._turn, main)]
        body += [
            _fold_block("branch", self._about(line), "".join(map(self._turn, line)))
            for line in others
        ]
        return _PAGE.format(title=escape(title), style=_STYLE, body="".join(body))

    def _contents(self) -> str:
        """Draw the tree; a fork is inside its origin, so the last lines come first."""
        drawn: defaultdict[int, str] = defaultdict(str)
        for line in reversed(self.lines):
            rows = "".join(
                f'<li value="{one.number}"><a href="#t{one.number}">{self._words(one)}</a>'
                f"{drawn[one.seq]}</li>\n"
                for one in line
            )
            many = _count(len(line), "turn")
            head = f"Contents, {many}" if line is self.lines[0] else f"Another branch, {many}"
            start = line[0].parent
            drawn[start] = f"{_fold_block('contents', head, f'<ol>{rows}</ol>')}{drawn[start]}"
        return drawn[self.lines[0][0].parent]

    def _fork_links(self, parent: int) -> str:
        """Link to the lines that fork after the turn *parent*."""
        return "".join(
            f'<p class="fork">⤷ <a href="#t{line[0].number}">{self._about(line)}</a></p>\n'
            for line in self.lines[1:]
            if line[0].parent == parent
        )

    def _about(self, line: Line) -> str:
        return f"Another branch, {_count(len(line), 'turn')}: {self._words(line[0])}"

    def _words(self, turn: TurnRecord) -> str:
        return escape(one_line(self.redact(turn.words), WORDS))

    def _turn(self, turn: TurnRecord) -> str:
        items = "".join(map(self._item, items_of(turn, self.places, self.redact)))
        return f'<section id="t{turn.number}">\n{items}{self._fork_links(turn.seq)}</section>\n'

    def _item(self, item: ExportItem) -> str:
        who, when = escape(one_line(item.who, MAX_TOOL)), datetime.fromtimestamp(item.at, self.zone)
        if item.kind == "receipts":
            return _fold_block("receipts", who, as_it_stands(item.text))
        self.room -= len(item.text)
        render = to_html if item.kind == "answer" and self.room >= 0 else as_it_stands
        head = f"<header><h2>{who}</h2> <time>{when:%Y-%m-%d %H:%M %Z}</time></header>"
        return f'<article class="{item.kind}">{head}\n{render(item.text)}</article>\n'


def _fold_block(kind: str, head: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{head}</summary>\n{body}</details>\n'


# The policy blocks scripts and requests, in case text gets past the escaping.
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
{style}</style></head><body>
{body}</main></body></html>
"""
_STYLE = """\
:root { color-scheme: light dark; --dim: light-dark(#5b6570, #9aa4af);
  --line: light-dark(#d9dee4, #373e47); --tint: light-dark(#f2f4f7, #20262d); }
html { background: light-dark(#fff, #15181c); color: light-dark(#1b1f24, #dde2e8); }
body { max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 4rem;
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: light-dark(#0b57a4, #8ab8f0); }
h1, h2, h3, h4, h5, h6 { margin: 1.25rem 0 .5rem; font-size: 1.1rem; line-height: 1.3; }
h1, .plain { unicode-bidi: plaintext; }
time, nav, .receipts, .fork, .branch > summary { color: var(--dim); font-size: .85rem; }
nav ol { margin: .25rem 0; padding-left: 2.5rem; }
section, .branch { margin-top: 2rem; } article { margin: .75rem 0; }
article > header h2 { display: inline; margin-right: .5rem; font-size: .85rem; }
.person { padding: .6rem .9rem; border-radius: .6rem; background: var(--tint); }
.plain, .fork { margin: .25rem 0 0; white-space: pre-wrap; }
.answer > :is(p, ul, ol, table, blockquote, pre) { margin: .6rem 0; }
code, pre { font: .875em/1.5 ui-monospace, Menlo, Consolas, monospace; background: var(--tint); }
pre { padding: .75rem .9rem; border-radius: .5rem; overflow-x: auto; overflow-wrap: normal; }
pre code { font-size: 1em; }
code[data-language]::before { content: attr(data-language); display: block; color: var(--dim); }
table { display: block; overflow-x: auto; border-collapse: collapse; overflow-wrap: normal; }
td, th { padding: .3rem .7rem; border: 1px solid var(--line); }
blockquote, .receipts, .branch { padding-inline-start: .9rem;
  border-inline-start: .2rem solid var(--line); }
@media print {
  :root { color-scheme: light; } body { max-width: none; padding: 0; font-size: 10pt; }
  nav, .fork { display: none; } .receipts::details-content { content-visibility: visible; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  header, h1, h2, h3 { break-after: avoid; } tr, .person, pre { break-inside: avoid; }
  .answer a[href^=http]::after { content: " (" attr(href) ")"; }
}
"""
