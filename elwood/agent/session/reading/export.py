"""Writes a conversation as one file that needs nothing else: Markdown, or a page of HTML.

Everything in it was said by somebody: it is shown as it is, and never read as Markdown or HTML.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from html import escape
from itertools import groupby
from typing import Literal

import msgspec

from elwood.agent.session.reading.receipts import DOT, MAX_TOOL
from elwood.agent.session.reading.records import CallRecord, History
from elwood.agent.session.reading.tables import call_line
from elwood.foundation.text.characters import clean
from elwood.foundation.text.lines import one_line

Format = Literal["md", "html"]
FOREIGN = " (not their own words)"
FAILED = " (no answer)"


class ExportItem(msgspec.Struct, frozen=True):
    """*who* said or did *text* at Unix time *at*; *untrusted*: not all are the owner's words."""

    at: float
    kind: Literal["words", "answer", "calls"]
    who: str
    text: str
    note: str = ""
    untrusted: bool = False


def items_of(history: History, redact: Callable[[str], str]) -> list[ExportItem]:
    """List what stands on the present line, in order; *redact* takes secrets out.

    Commands and their answers are left out, and so is what was taken back.
    """
    return sorted(_items(history, redact), key=lambda item: item.at)


def _items(history: History, redact: Callable[[str], str]) -> Iterator[ExportItem]:
    for turn in history.turns:
        for heard in turn.heard:
            received = heard.received
            if received.text.strip() and history.is_present(heard.seq):
                foreign = received.untrusted
                text, note = redact(received.text), FOREIGN if foreign else ""
                yield ExportItem(heard.at, "words", received.principal, text, note, foreign)
        answer = turn.answer
        if answer is not None and answer.text and history.is_present(turn.answered):
            note = FAILED if answer.failed else ""
            yield ExportItem(turn.answered_at, "answer", "Elwood", redact(answer.text), note)
    for call in history.calls:
        if history.is_present(call.seq):
            untrusted = call.label.untrusted
            yield ExportItem(call.at, "calls", "Done", _called(call, redact), untrusted=untrusted)


def written(title: str, items: Sequence[ExportItem], zone: tzinfo, format_: Format) -> str:
    """Write *items* as a file; times are those of *zone*.

    >>> from datetime import UTC
    >>> print(written("s", [ExportItem(0.0, "words", "me", "```\\n# hello")], UTC, "md"))
    # s
    <BLANKLINE>
    ## me · 1970-01-01 00:00:00 UTC
    <BLANKLINE>
    ````text
    ```
    # hello
    ````
    <BLANKLINE>
    """
    blocks, title = list(_blocks(items, zone)), one_line(title, MAX_TOOL)
    return _markdown(title, blocks) if format_ == "md" else _html(title, blocks)


def _called(call: CallRecord, redact: Callable[[str], str]) -> str:
    plain = msgspec.structs.replace(call, tool=redact(call.tool), target=redact(call.target))
    took = f" {DOT} {call.took}" if call.took else ""
    return f"{call_line(plain)}{took}"


# A heading, the text below it, and what it is: a class of the page.
_Block = tuple[str, str, str]


def _blocks(items: Sequence[ExportItem], zone: tzinfo) -> Iterator[_Block]:
    """Put calls in a row together."""
    for kind, some in groupby(items, key=lambda item: item.kind):
        group = list(some)
        if kind == "calls":
            text = "\n".join(item.text for item in group)
            yield f"{group[0].who} {DOT} {_time(group[0].at, zone)}", text, kind
            continue
        for item in group:
            yield (
                f"{one_line(item.who, MAX_TOOL)}{item.note} {DOT} {_time(item.at, zone)}",
                clean(item.text),
                kind,
            )


def _time(at: float, zone: tzinfo) -> str:
    when = datetime.fromtimestamp(at, zone)
    return f"{when:%Y-%m-%d %H:%M:%S} {when.tzname()}"


def _markdown(title: str, blocks: Sequence[_Block]) -> str:
    parts = [f"# {_plain(title)}\n"]
    for heading, text, _ in blocks:
        longest = max((len(run) for run in re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        parts.append(f"## {_plain(heading)}\n\n{fence}text\n{text}\n{fence}\n")
    return "\n".join(parts)


def _plain(heading: str) -> str:
    """Escape what Markdown or HTML could be in a heading."""
    return re.sub(r"([\\`*_\[\]<>#&|~!])", r"\\\1", heading)


def _html(title: str, blocks: Sequence[_Block]) -> str:
    articles = "\n".join(
        f'<article class="{kind}"><h2 dir="auto">{escape(heading)}</h2>'
        f'<pre dir="auto">{escape(text)}</pre></article>'
        for heading, text, kind in blocks
    )
    return _PAGE.format(title=escape(title), style=_STYLE, articles=articles)


# The policy lets nothing run and nothing be fetched, should anything ever get past the escaping.
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<h1 dir="auto">{title}</h1>
{articles}
</body>
</html>
"""
_STYLE = """\
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
article { margin: 1rem 0; padding: .5rem 1rem; border-left: .25rem solid #8888; }
article.answer { border-color: #2a7ae2; }
article.calls { border-color: #3a9a4a; }
h2 { margin: 0 0 .25rem; font-size: .85rem; font-weight: 600; opacity: .75; }
pre { margin: 0; font: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
article.calls pre { font-family: ui-monospace, monospace; font-size: .85rem; }
"""
