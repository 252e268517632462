"""From the parser's tokens to a page: what each construct of Markdown looks like as text."""

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elwood.foundation.text.links import (
    address,
    claims_another,
    is_target,
    visible,
)
from elwood.foundation.text.rich_text import Page
from elwood.foundation.text.tables import Align, grid

if TYPE_CHECKING:
    from markdown_it.token import Token

BULLETS = "•◦▪"
BREAK = "———"
# Tables too wide for a grid repeat their header in each row, if it is this short (characters).
MAX_LABEL = 24

_KINDS = {"strong_open": "bold", "em_open": "italic", "s_open": "strikethrough"}
_TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")
# Within one stretch of text, hugging its words, so that "a || b || c" stays an expression.
_SPOILER = re.compile(r"(?<![\w|])\|\|(?=[^\s|])([^|]+)(?<=\S)\|\|(?![\w|])")
_LANGUAGE = re.compile(r"[\w+#./-]{1,32}")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
_NOT_BLANK = re.compile(r"[^ \t>]")


class Renderer:
    """Writes tokens on *page*.  *lines* are the source, for the author's blank lines.

    Targets of links are hidden behind their text if *hide_targets*, else shown beside it.
    """

    def __init__(self, page: Page, lines: Sequence[str], *, hide_targets: bool) -> None:
        self._page = page
        self._lines = lines
        self._hide = hide_targets
        self._counters: list[int | None] = []

    def render(self, tokens: Sequence["Token"]) -> None:
        """Write whole blocks."""
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.nesting >= 0 and token.block and token.type != "inline":
                self._page.block(self._gap(token))
            if token.type == "table_open":
                end = next(i for i in range(index, len(tokens)) if tokens[i].type == "table_close")
                self._table(tokens[index:end])
                index = end
            else:
                self._block(tokens, index)
            index += 1

    def _gap(self, token: "Token") -> int:
        """Count the line ends before a block: two where the author left a line blank."""
        line = token.map[0] if token.map else 0
        return 1 if line == 0 or _NOT_BLANK.search(self._lines[line - 1]) else 2

    def _block(self, tokens: Sequence["Token"], index: int) -> None:
        token = tokens[index]
        match token.type:
            case "inline":
                self._inline(token.children or ())
            case "heading_open":
                self._page.open("bold")
            case "heading_close":
                self._page.close()
            case "bullet_list_open":
                self._counters.append(None)
            case "ordered_list_open":
                self._counters.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                self._counters.pop()
            case "list_item_open":
                self._item(token, tokens[index + 1 : index + 3])
            case "list_item_close":
                self._page.dedent()
            case "blockquote_open":
                self._open_quote()
            case "blockquote_close":
                self._close_quote()
            case "fence" | "code_block":
                self._code_block(token)
            case "hr":
                self._page.write(BREAK)
            case _:
                self._page.write(token.content)

    def _item(self, token: "Token", following: Sequence["Token"]) -> None:
        counter = self._counters[-1]
        box = _task_box(following)
        if counter is None:
            depth = self._counters.count(None)
            mark = box or BULLETS[min(depth, len(BULLETS)) - 1] + " "
        else:
            self._counters[-1] = counter + 1
            mark = f"{counter}{token.markup} {box}"
        self._page.indent(mark, " " * len(mark))

    def _open_quote(self) -> None:
        # Telegram's quotes are blocks that cannot nest: an inner one is marked as in a mail.
        if self._page.is_indented or self._page.is_inside("blockquote"):
            self._page.indent("> ", "> ")
        else:
            self._page.open("blockquote")

    def _close_quote(self) -> None:
        if self._page.is_indented:
            self._page.dedent()
        else:
            self._page.close()

    def _code_block(self, token: "Token") -> None:
        # Telegram makes each tab one space.
        code = _BLANK_LINES.sub("", token.content.expandtabs(4)).rstrip()
        if code.startswith(" "):
            # Spaces before a code block would stand outside of it, and its first line aslant.
            code = textwrap.dedent(code)
        words = token.info.split(maxsplit=1)
        language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else None
        if code:
            self._page.verbatim(code, "pre", language)

    def _table(self, tokens: Sequence["Token"]) -> None:
        rows: list[list[Token]] = []
        aligns: list[Align] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                aligns.append(_align(token))
            elif token.type == "inline":
                rows[-1].append(token)
        drawn = grid([[self._flat(cell) for cell in row] for row in rows], aligns)
        if drawn is not None:
            self._page.verbatim(drawn, "pre")
        else:
            self._records(rows[0], rows[1:])

    def _records(self, header: Sequence["Token"], rows: Sequence[Sequence["Token"]]) -> None:
        """Write a table that is too wide for a telephone row by row."""
        page = self._page
        labels = [self._flat(cell) for cell in header]
        labelled = bool(rows) and max(map(len, labels)) <= MAX_LABEL
        if not labelled:
            page.open("bold")
            self._cells(header)
            page.close()
        for number, row in enumerate(rows):
            page.block(1)
            page.indent("• ", "  ")
            if labelled:
                for label, cell in zip(labels, row, strict=True):
                    # The first row names every column, lest a label be lost.
                    if cell.content.strip() or number == 0:
                        page.block(1)
                        page.write(label and f"{label}: ")
                        self._inline(cell.children or ())
            else:
                self._cells(row)
            page.dedent()

    def _cells(self, cells: Sequence["Token"]) -> None:
        for index, cell in enumerate(cells):
            if index and cell.content.strip():
                self._page.write(" · ")
            self._inline(cell.children or ())

    def _flat(self, cell: "Token") -> str:
        """Return a table cell as one line of text."""
        if not cell.content:
            return ""  # short rows are filled up by the parser, which can be many cells
        page = Page()
        Renderer(page, (), hide_targets=False)._inline(cell.children or ())
        return " ".join(page.finish()[0].split())

    def _inline(self, tokens: Sequence["Token"], *, in_link: bool = False) -> None:
        page = self._page
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
                case "text":
                    self._text(token.content)
                case "softbreak" | "hardbreak":
                    page.write("\n")
                case "code_inline":
                    page.code(token.content)
                case "strong_open" | "em_open" | "s_open":
                    page.open(_KINDS[token.type])
                case "strong_close" | "em_close" | "s_close":
                    page.close()
                case "link_open" if not in_link:  # the parser lets <…> be a link within a link
                    start = index + 1
                    while tokens[index].type != "link_close" or tokens[index].level != token.level:
                        index += 1
                    self._link(token, str(token.attrs["href"]), tokens[start:index])
                case "image" if in_link:
                    self._inline(token.children or (), in_link=True)
                case "image":
                    # Never the image itself: to fetch it would tell its server what we read.
                    self._link(token, str(token.attrs["src"]), token.children or ())
                case _:
                    page.write(token.content)
            index += 1

    def _text(self, text: str) -> None:
        page = self._page
        done = 0
        for match in _SPOILER.finditer(text) if "||" in text else ():
            page.write(text[done : match.start()])
            page.open("spoiler")
            page.write(match[1])
            page.close()
            done = match.end()
        page.write(text[done:])

    def _link(self, token: "Token", target: str, inside: Sequence["Token"]) -> None:
        page = self._page
        label = _words(inside).strip()
        url = address(target)
        by_reference = "label" in token.meta
        if label and label == target:
            self._inline(inside, in_link=True)  # clients make it clickable themselves
        elif self._hide and label and url and not claims_another(label, target):
            page.open("text_link", url)
            self._inline(inside, in_link=True)
            page.close()
        elif by_reference or not is_target(target):
            # As it was written: a definition shows the target already, or this is no link at all.
            page.write("[")
            self._inline(inside, in_link=True)
            page.write("]" if by_reference else f"]({visible(target)})")
        else:
            self._inline(inside, in_link=True)
            shown = visible(target)
            if label != shown:
                page.write(f" ({shown})" if label else shown)


def _task_box(following: Sequence["Token"]) -> str:
    """Return the box of a task list's item, taking its ``[x]`` out of the text; or nothing."""
    if len(following) < 2 or not (children := following[1].children):
        return ""
    match = _TASK.match(children[0].content) if children[0].type == "text" else None
    if match is None:
        return ""
    children[0].content = children[0].content[match.end() :].lstrip()
    return "☐ " if match[1] == " " else "☑ "


def _align(token: "Token") -> Align:
    style = str(token.attrs.get("style", ""))
    return "right" if style.endswith("right") else "center" if style.endswith("center") else "left"


def _words(tokens: Sequence["Token"]) -> str:
    parts = (
        _words(t.children) if t.children else t.content or " " for t in tokens if not t.nesting
    )
    return "".join(parts)
