"""Writes a transcript as one file that needs nothing else: Markdown, or a page of HTML.

Everything in it was said by somebody: it is shown as it is, and never read as Markdown or HTML.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from html import escape
from itertools import groupby
from typing import Literal

from elwood.agent.session.reading.audit import Row
from elwood.agent.session.reading.receipts import (
    DOT,
    MARKS,
    MAX_TARGET,
    MAX_TOOL,
    WORDS,
    allowed_by,
    one_line,
)
from elwood.agent.session.reading.telling import (
    Answer,
    Done,
    Item,
    Words,
)
from elwood.foundation.text.characters import clean

Format = Literal["md", "html"]
UNDER_WAY = "…"
FOREIGN = "not their own words"
FAILED = "no answer"
# Marks that turn the direction of what follows them in their line.
_TURNING = re.compile("[\u061c\u200e\u200f\u2066-\u2069]")


def written(title: str, items: Sequence[Item], zone: tzinfo, format_: Format) -> str:
    """Write *items* as a file; times are those of *zone*.

    >>> from datetime import UTC
    >>> print(written("s", [Words(0.0, "me", "```\\n# hello")], UTC, "md"))
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
    blocks, title = list(_blocks(items, zone)), _heading(title)
    return _markdown(title, blocks) if format_ == "md" else _html(title, blocks)


def called(row: Row) -> str:
    """Say in one line what became of a call.

    >>> called(Row("s", "t1", "c1", "pay", "failed", "rent", ruling="once", by="tg:1"))
    '✗ pay rent (failed) · allowed once by you'
    """
    tool, target = one_line(row.tool, MAX_TOOL), one_line(row.target, MAX_TARGET)
    line = f"{MARKS.get(row.outcome, UNDER_WAY)} {tool} {target}".rstrip().replace(DOT, ".")
    if row.outcome != "ok":
        line += f" ({WORDS.get(row.outcome, row.outcome)})"
    if row.ruling:
        line += f" {DOT} {allowed_by(row.ruling)}"
    if row.started_at is not None and row.ended_at is not None:
        line += f" {DOT} {row.ended_at - row.started_at:.1f} s"
    return _TURNING.sub("", clean(line))


def _heading(text: str) -> str:
    return _TURNING.sub("", clean(one_line(text, MAX_TOOL)))


# A heading, the text below it, and what it is: a class of the page.
_Block = tuple[str, str, str]


def _blocks(items: Sequence[Item], zone: tzinfo) -> Iterator[_Block]:
    """Put calls in a row together."""
    for are_calls, some in groupby(items, key=lambda item: isinstance(item, Done)):
        group = list(some)
        if are_calls:
            lines = [called(item.row) for item in group if isinstance(item, Done)]
            yield f"Done {DOT} {_time(group[0].at, zone)}", "\n".join(lines), "calls"
            continue
        for item in group:
            at = _time(item.at, zone)
            match item:
                case Words(_, who, text, foreign):
                    note = f" ({FOREIGN})" if foreign else ""
                    yield f"{_heading(who)}{note} {DOT} {at}", clean(text), "words"
                case Answer(_, text, failed):
                    note = f" ({FAILED})" if failed else ""
                    yield f"Elwood{note} {DOT} {at}", clean(text), "answer"


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
