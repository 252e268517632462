"""Markdown to text with entities, in UTF-16 units as Telegram counts."""

import re
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec

from elwood.foundation.text.characters import clean, utf16_length, utf16_offsets
from elwood.foundation.text.lines import width
from elwood.foundation.text.rich_text import Span, TextPage

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Markdown longer than this, in characters, is shown as it stands.  Hostile text costs the parser
# up to 20 µs a character, and the answer must not hold up Elwood; it is 15 messages long.
MAX_MARKDOWN = 64_000
# Levels of lists and quotes, a list counting two, as in the library's own preset.  It drops what
# lies deeper.
MAX_NESTING = 20
REPEAT_MARK = "(again) "
# Stands above the receipts in the footer of a reply.
RECORDS_HEAD = "— from the records —"

# Anything that could be Markdown: a text without it needs no parser.
_SYNTAX = re.compile(
    r"[\\`*_~\[\]<>#|&]|\n\n\n|[^\S\n]$|^(?:[^\S\n]|[-+=:]|[0-9]+[.)])", re.MULTILINE
)


class Entity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A formatted span: *offset* and *length* in UTF-16 code units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Rich(msgspec.Struct, frozen=True):
    """Text as a channel shows it, with its formatting beside it."""

    text: str
    entities: tuple[Entity, ...] = ()


def to_entities(markdown: str, *, hide_targets: bool = True) -> Rich:
    """Render *markdown* (CommonMark, tables, strikethrough) for Telegram.

    No character of the text is lost: HTML, unknown syntax, links by reference and unsafe link
    targets stay visible as text, as do all targets without *hide_targets*; images become links, so
    that nothing is loaded.  The text is
    trimmed, entities nest properly and begin and end in visible characters.  It may be longer than
    a message, and empty: `splitting.split` makes messages of it.
    """
    source = clean(markdown)
    if len(source) > MAX_MARKDOWN or _SYNTAX.search(source) is None:
        return Rich(source.strip())
    tokens = _parser().parse(source)
    if is_too_deep(tokens):
        return Rich(source.strip())
    page = TextPage()
    Renderer(page, source.split("\n"), hide_targets=hide_targets).render(tokens)
    text, spans = page.finish()
    offsets = utf16_offsets(text)
    return Rich(text, tuple(_entity(span, offsets) for span in spans))


def is_too_deep(tokens: "Sequence[Token]") -> bool:
    """Tell whether the parser has dropped some of what it made *tokens* of."""
    deepest = (token.type for token in tokens if token.level >= MAX_NESTING - 1)
    return not {"blockquote_open", "list_item_open"}.isdisjoint(deepest)


# Characters of Markdown that Telegram draws itself; it takes 32,768.
MAX_NATIVE = 30_000
# Pictures, which it would load, and HTML; formulas, spoilers and marks, which nobody meant.
_NOT_NATIVE = re.compile(r"!\[|<[A-Za-z/!?]|\$[^$]*\$|\|\|[^|]*\|\||==\S[^=]*==")
# Links, also by reference, which Telegram hides the address of.
_LINK = re.compile(r"\][(\[:]")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def native(markdown: str, footer: str, *, hide_targets: bool = True) -> str:
    r"""Return a reply as Markdown that Telegram draws itself; empty if it must be sent otherwise.

    It must if there is a picture or HTML anywhere in it: what is code to our parser need not be
    code to theirs, and a picture that is loaded carries words out.  Without *hide_targets* it must
    if there is a link.  The footer is a quote.

    >>> native("# A\n\nb", "read *x*"), native("`![](https://evil.example/?words)`", "")
    ('# A\n\nb\n\n> read \\*x\\*', '')
    """
    text, footer = clean(markdown).strip(), clean(footer)
    if len(text) + len(footer) > MAX_NATIVE or _NOT_NATIVE.search(f"{text}\n{footer}"):
        return ""
    if not hide_targets and _LINK.search(text):
        return ""
    lines = [_PUNCTUATION.sub(r"\\\1", line) for line in footer.splitlines()]
    quote = "  \n> ".join(lines)
    return f"{text}\n\n> {quote}" if footer else text


def mark_repeat(rich: Rich) -> Rich:
    """Mark *rich* as a message that may have arrived before; it grows by `REPEAT_MARK`."""
    shift = utf16_length(REPEAT_MARK)
    moved = (msgspec.structs.replace(e, offset=e.offset + shift) for e in rich.entities)
    return Rich(REPEAT_MARK + rich.text, tuple(moved))


def _entity(span: Span, offsets: Sequence[int]) -> Entity:
    start = offsets[span.start]
    return Entity(span.kind, start, offsets[span.end] - start, span.url, span.language)


@cache
def _parser() -> "MarkdownIt":
    """Make a parser of CommonMark, tables and strikethrough, without HTML and link definitions.

    It takes every link target as it is written: `address` judges them.
    """
    # Imported here because it takes 20 ms, and a first poll needs none of it.
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        def validateLink(self, url: str) -> bool:
            return True

        def normalizeLink(self, url: str) -> str:
            return url

        def normalizeLinkText(self, link: str) -> str:
            return link

    parser = Parser("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    return parser.enable(["table", "strikethrough"]).disable("reference")


# Characters of an address that is hidden behind text.
MAX_TARGET = 2048

# What tdlib's LinkManager::check_link accepts, less what we do not want hidden: it answers
# 400 for a host without a dot (localhost) or with odd characters, so those are never entities;
# user:password@ disguises the host.
_WEB = re.compile(
    r"https?://[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\.?(?::(?P<port>[0-9]{1,5}))?(?:[/?#]\S*)?",
    re.IGNORECASE,
)
# tg://user names an account the bot may not know: "User not found" would cost the whole message.
_TELEGRAM = re.compile(r"tg://(?!user\b)[a-z0-9_-]+(?:[/?]\S*)?", re.IGNORECASE)
# What RFC 3986 reserves, and what is quoted already.
_NOT_QUOTED = ":/?#[]@!$&'()*+,;=%"
_LOOKS_LIKE_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//|www\.", re.IGNORECASE)
_HAS_ADDRESS_SIGNS = re.compile(r"[:/#?@.]")


def address(target: str) -> str | None:
    """Return *target* as the address that may stand hidden behind text, or None.

    None for a ``mailto:``: the Bot API turns it into ``http://mailto:…``.  Shown as text, it is
    made clickable by the reader's own client.
    """
    if len(target) > MAX_TARGET:
        return None
    url = quote(target, safe=_NOT_QUOTED)
    if match := _WEB.fullmatch(url):
        port = match["port"]
        return url if port is None or 0 < int(port) < 65536 else None
    return url if _TELEGRAM.fullmatch(url) else None


def visible(target: str) -> str:
    """Write *target* for a reader: a mail address without its scheme."""
    return target[7:] if target[:7].lower() == "mailto:" else target


def is_target(text: str) -> bool:
    """Tell whether *text* in the place of a link's target can be one: ``f[i](x)`` is no link."""
    return _HAS_ADDRESS_SIGNS.search(text) is not None


def claims_another(label: str, target: str) -> bool:
    """Tell whether *label* reads like an address other than *target*: a disguise."""
    if _LOOKS_LIKE_ADDRESS.match(label) is None:
        return False
    bare, other = (re.sub(r"^(?:https?:)?//|/$", "", s.lower()) for s in (label, target))
    return bare != other


Align = Literal["left", "center", "right"]

# Columns of a telephone in portrait: a wider line wraps and the alignment is worse than none.
MAX_WIDTH = 40


def grid(rows: Sequence[Sequence[str]], aligns: Sequence[Align]) -> str | None:
    """Draw *rows*, the first of which is the header; None if a line would exceed `MAX_WIDTH`.

    Cells are single lines.  The first line never begins with a space, for Telegram would strip it.
    """
    columns = len(aligns)
    if not columns or 4 * columns - 3 > MAX_WIDTH:  # the narrowest: one character and " | " each
        return None
    widths = [1] * columns
    for row in rows:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], width(cell))
    if sum(widths) + 3 * (columns - 1) > MAX_WIDTH:
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


BULLETS = "•◦▪"
BREAK = "———"
# Characters of a label that are repeated in each row of a table that is too wide for a grid.
MAX_LABEL = 24

_KINDS = {"strong_open": "bold", "em_open": "italic", "s_open": "strikethrough"}
_TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")
_LANGUAGE = re.compile(r"[\w+#./-]{1,32}")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
_NOT_BLANK = re.compile(r"[^ \t>]")


class Renderer:
    """Writes tokens on *page*.  *lines* are the source, for the author's blank lines.

    Targets of links are hidden behind their text if *hide_targets*, else shown beside it.
    """

    def __init__(self, page: TextPage, lines: Sequence[str], *, hide_targets: bool) -> None:
        self._page = page
        self._lines = lines
        self._hide = hide_targets
        self._counters: list[int | None] = []

    def render(self, tokens: Sequence["Token"]) -> None:
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
        if self._page.indents or self._page.is_inside("blockquote"):
            self._page.indent("> ", "> ")
        else:
            self._page.open("blockquote")

    def _close_quote(self) -> None:
        if self._page.indents:
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
        """Write a table that is too wide for a telephone row by row, each cell behind its label."""
        page = self._page
        labels = [self._flat(cell) for cell in header]
        if not rows:
            page.write(" · ".join(filter(None, labels)))
        for number, row in enumerate(rows):
            page.block(1)
            page.indent("• ", "  ")
            for label, cell in zip(labels, row, strict=True):
                # The first row names every column in full, lest a label be lost.
                if number == 0 or cell.content.strip():
                    is_short = number == 0 or len(label) <= MAX_LABEL
                    page.block(1)
                    page.write(label and f"{label if is_short else label[:MAX_LABEL] + '…'}: ")
                    self._inline(cell.children or ())
            page.dedent()

    def _flat(self, cell: "Token") -> str:
        """Return a table cell as one line of text."""
        if not cell.content:
            return ""  # short rows are filled up by the parser, which can be many cells
        page = TextPage()
        Renderer(page, (), hide_targets=False)._inline(cell.children or ())
        return " ".join(page.finish()[0].split())

    def _inline(self, tokens: Sequence["Token"], *, in_link: bool = False) -> None:
        page = self._page
        index = 0
        while index < len(tokens):
            token = tokens[index]
            match token.type:
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

    def _link(self, token: "Token", target: str, inside: Sequence["Token"]) -> None:
        page = self._page
        label = _words(inside).strip()
        url = address(target)
        if label and label == target:
            self._inline(inside, in_link=True)  # clients make it clickable themselves
        elif self._hide and label and url and not claims_another(label, target):
            page.open("text_link", url)
            self._inline(inside, in_link=True)
            page.close()
        elif not is_target(target):
            page.write("[")  # as it was written: this is no link at all
            self._inline(inside, in_link=True)
            page.write(f"]({target})")
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
