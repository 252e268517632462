"""Tables that fit a terminal, and small charts.

A line consists of styled parts; only the printer writes terminal control sequences.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from elwood.foundation.text.characters import printable
from elwood.foundation.text.lines import clip, width, wrap

Style = Literal["", "bold", "dim", "good", "warning", "bad"]
# Minimum columns of a shrunk cell that is not spare; maximum characters of a cell.
LEAST, MAX_CELL = 20, 2_000
GAP, _SPARKS = "  ", "▁▂▃▄▅▆▇█"


class Styled(NamedTuple):
    """A part of a line, or the text of a table cell."""

    text: str
    style: Style = ""


Line = Sequence[Styled]
Row = Sequence[str | Styled]


def table(
    titles: Sequence[str], rows: Sequence[Row], room: int | None, spare: Sequence[str] = ()
) -> list[Line]:
    """Draw *rows* below their *titles*, in at most *room* columns of the terminal.

    If there is too little room, the widest cells shrink: a text of one line is clipped, a longer
    one is wrapped.  *spare* columns do not shrink: they are omitted in order, or if empty.  Without
    *room* each row is one complete line, for programs.

    >>> def plain(lines): return ["".join(part.text for part in line) for line in lines]
    >>> drawn = [("tea", "a drink made of leaves\\nin water", "me")]
    >>> plain(table(("name", "what", "by"), drawn, None))
    ['name  what                             by', 'tea   a drink made of leaves in water  me']
    >>> plain(table(("name", "what", "by"), drawn, 24, spare=("by",)))
    ['name  what', 'tea   a drink made of', '      leaves', '      in water']
    """
    cells = [[Styled(title, "dim") for title in titles], *([*map(_cell, row)] for row in rows)]
    if room is None:
        cells = [[Styled(text.replace("\n", " ").strip()) for text, _ in row] for row in cells]
    shown = list(range(len(titles)))
    natural = [max(width(one) for row in cells for one in row[n].text.split("\n")) for n in shown]
    if room is None:
        return [line for row in cells for line in _lines(row, natural)]
    least = [one if titles[n] in spare else min(one, LEAST) for n, one in enumerate(natural)]
    for n in map(titles.index, spare):
        if not any(row[n].text for row in cells[1:]) or _total(least[n] for n in shown) > room:
            shown.remove(n)
    widths = [natural[n] for n in shown]
    while _total(widths) > room and max(widths) > 1:
        slack = [(one > least[n], one) for n, one in zip(shown, widths, strict=True)]
        widths[slack.index(max(slack))] -= 1
    return [line for row in cells for line in _lines([row[n] for n in shown], widths)]


def _total(widths: Iterable[int]) -> int:
    return sum(width + len(GAP) for width in widths) - len(GAP)


def _cell(cell: str | Styled) -> Styled:
    text, style = cell if isinstance(cell, Styled) else Styled(cell)
    return Styled(printable(re.sub(r"[^\S\n]", " ", text[:MAX_CELL])), style)


def _lines(cells: Sequence[Styled], widths: Sequence[int]) -> list[Line]:
    parts = []
    for (text, _), room in zip(cells, widths, strict=True):
        lines = [line for one in text.split("\n") for line in wrap(one, room)]
        parts.append([*filter(None, lines)] if "\n" in text else [clip(text, room)])
    drawn: list[Line] = []
    for line in zip_longest(*parts, fillvalue=""):
        padded = [
            one + " " * (room - width(one)) + GAP for one, room in zip(line, widths, strict=True)
        ]
        padded[-1] = line[-1]
        drawn.append([Styled(one, cell.style) for one, cell in zip(padded, cells, strict=True)])
    return drawn


def bar(share: float, size: int = 14) -> Styled:
    """Draw a *share* of 1 as *size* blocks, the rest of them empty.

    >>> bar(0.5, 6), bar(0.9, 6).style, bar(2.0, 3)
    (Styled(text='███░░░', style=''), 'warning', Styled(text='███', style='bad'))
    """
    full = min(size, max(round(share * size), 1 if share > 0 else 0))
    style: Style = "bad" if share >= 1 else "warning" if share >= 0.8 else ""
    return Styled("█" * full + "░" * (size - full), style)


def spark(values: Sequence[float]) -> str:
    """Draw *values* as a sparkline that starts at 0.

    >>> spark([0, 1, 5, 10])
    '▁▂▅█'
    """
    most = max(values, default=0) or 1
    return "".join(_SPARKS[round(value / most * (len(_SPARKS) - 1))] for value in values)
