"""Lines of Markdown, block by block: headings, lists, quotes, code and tables."""

import re
from collections.abc import Iterable, Sequence

import attrs

# Levels of lists that are indented; each costs characters on every line.
_MAX_INDENT = 6


@attrs.frozen
class Block:
    """Some lines; *part* says in which part of a page they stand.

    Neighbours of the same *kind* follow without an empty line; "" is not like any other.
    """

    text: str
    part: str
    kind: str


@attrs.define
class _List:
    is_ordered: bool
    count: int = 0


class Sheet:
    """Collects blocks; the caller says what is opened and closed, in the order of the page.

    >>> sheet = Sheet()
    >>> sheet.heading = 2
    >>> sheet.write(["Title"])
    >>> sheet.heading = 0
    >>> sheet.open_list(is_ordered=True)
    >>> sheet.item()
    >>> sheet.write(["one", "more"])
    >>> joined(sheet.blocks)
    '## Title\\n\\n1. one\\n  more'
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.part = ""
        self.heading = 0
        self.quotes = 0
        self._lists: list[_List] = []
        self._marker = ""
        self._tables = 0  # how deep we are in them; only the outermost is one for us
        self._number = 0  # of the table
        self._is_first_row = False
        self._row: list[str] = []
        self._cell: list[str] | None = None

    def write(self, lines: Sequence[str]) -> None:
        """Add a block of *lines*, in the form of where we are."""
        if not lines:
            return
        if self._cell is not None:
            self._cell.extend(lines)
            return
        if self.heading:
            lines = ["#" * self.heading + " " + " ".join(lines)]
        marker, self._marker = self._marker, ""
        if marker or self._lists:
            indent = "  " * (min(len(self._lists), _MAX_INDENT) - 1)
            first, *rest = lines
            lines = [indent + (marker or "  ") + first, *(f"{indent}  {line}" for line in rest)]
        quoted = "> " if self.quotes else ""
        self._put("\n".join(quoted + line for line in lines), "item" if marker else "")

    def code(self, code: str) -> None:
        """Add preformatted text; the fence is longer than any inside it."""
        if not code.strip():
            return
        lines = [line.rstrip() for line in code.strip("\n").split("\n")]
        if self._cell is None:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
            lines = [fence, *lines, fence]
        self.write(lines)

    def open_list(self, *, is_ordered: bool) -> None:
        """Begin a list, perhaps within another."""
        self._lists.append(_List(is_ordered))

    def close_list(self) -> None:
        """End the innermost list."""
        self._lists.pop()
        self._marker = ""

    def item(self) -> None:
        """Begin an item: the next block gets its mark."""
        if self._lists and self._lists[-1].is_ordered:
            self._lists[-1].count += 1
            self._marker = f"{self._lists[-1].count}. "
        else:
            self._marker = "- "

    def open_table(self) -> None:
        """Begin a table; one within another is text of its cell."""
        self._tables += 1
        if self._tables == 1:
            self._number += 1
            self._is_first_row = True

    def close_table(self) -> None:
        """End the innermost table."""
        self._tables -= 1

    def open_cell(self) -> None:
        """Begin a cell: what is written goes into it."""
        if self._tables == 1:
            self._cell = []

    def close_cell(self) -> None:
        """End a cell."""
        if self._tables == 1 and self._cell is not None:
            self._row.append(" ".join(self._cell))
            self._cell = None

    def close_row(self) -> None:
        """End a row; one of a single cell is a paragraph, as in pages laid out by tables."""
        if self._tables != 1:
            return
        row, self._row = self._row, []
        if len(row) == 1:
            self.write(row if row[0] else [])
        elif any(row):
            text = "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
            if self._is_first_row:
                text += "\n|" + " --- |" * len(row)
            self._is_first_row = False
            self._put(text, f"table {self._number}")

    def _put(self, text: str, kind: str) -> None:
        self.blocks.append(Block(text, self.part, kind))


def joined(blocks: Iterable[Block]) -> str:
    """Write the blocks below one another.

    >>> joined([Block("- a", "", "item"), Block("- b", "", "item"), Block("c", "", "")])
    '- a\\n- b\\n\\nc'
    """
    parts = []
    before = ""
    for block in blocks:
        parts.append("\n" if block.kind and block.kind == before else "\n\n")
        parts.append(block.text)
        before = block.kind
    return "".join(parts[1:])
