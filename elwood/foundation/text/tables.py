"""Tables as aligned monospaced text, in the columns that East Asian characters really take."""

import unicodedata
from collections.abc import Sequence
from typing import Literal

Align = Literal["left", "center", "right"]

# Columns of a telephone in portrait: a wider line wraps and the alignment is worse than none.
MAX_WIDTH = 48


def width(text: str) -> int:
    """Count the columns that *text* takes in a monospaced font.

    >>> width("abc"), width("漢字"), width("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def clip(text: str, limit: int) -> str:
    """Make *text* one harmless line of at most *limit* columns.

    What would move the cursor, turn the direction of writing or is otherwise invisible becomes
    a question mark: errors quote strangers.

    >>> clip("a\\x1b[2Jb", 10), clip("abcdef", 4), clip("日本語", 4)
    ('a?[2Jb', 'abc…', '日…')
    """
    text = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
    if width(text) <= limit:
        return text
    kept, room = "", limit - 1
    for character in text:
        room -= width(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…" if limit > 0 else ""


def grid(
    rows: Sequence[Sequence[str]], aligns: Sequence[Align], limit: int = MAX_WIDTH
) -> str | None:
    """Draw *rows*, the first of which is the header; None if a line would exceed *limit* columns.

    Cells are single lines.  The first line never begins with a space, for Telegram would strip it.

    >>> print(grid([["fruit", "n"], ["apple", "3"]], ["left", "right"]))
    fruit | n
    ------+--
    apple | 3
    """
    columns = len(aligns)
    if not columns or 4 * columns - 3 > limit:  # the narrowest: one character and " | " each
        return None
    widths = [1] * columns
    for row in rows:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], width(cell))
    if sum(widths) + 3 * (columns - 1) > limit:
        return None
    head = [cell or ("·" if index == 0 else "") for index, cell in enumerate(rows[0])]
    lines = [_line(head, widths, ["left", *aligns[1:]])]
    lines.append("-+-".join("-" * columns_of for columns_of in widths))
    lines.extend(_line(row, widths, aligns) for row in rows[1:])
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], aligns: Sequence[Align]) -> str:
    padded = map(_pad, cells, widths, aligns)
    return " | ".join(padded).rstrip()


def _pad(cell: str, columns: int, align: Align) -> str:
    room = columns - width(cell)
    if align == "right":
        return " " * room + cell
    if align == "center":
        return " " * (room // 2) + cell + " " * (room - room // 2)
    return cell + " " * room


def _columns(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
