"""Convert Markdown to text with entities, in UTF-16 units as in Telegram."""

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

# Longer Markdown, in characters, is shown unparsed: hostile text costs the parser up to 20 µs per
# character, which would block Elwood.  The limit equals 15 messages.
MAX_MARKDOWN = 64_000
# Levels of lists and quotes, a list counts as two, as in the library's preset.  It drops deeper
# ones.
MAX_NESTING = 20
REPEAT_MARK = "(again) "

# Possible Markdown; a text without a match needs no parser.
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
    """Text as a channel shows it, and its formatting."""

    text: str
    entities: tuple[Entity, ...] = ()


def to_entities(markdown: str, *, hide_targets: bool = True) -> Rich:
    """Render *markdown* (CommonMark, tables, strikethrough) for Telegram.

    No text is lost: HTML, unknown syntax, links by reference and unsafe link targets stay visible
    as text, as do all targets without *hide_targets*; images become links, so that nothing is
    loaded.  The text is trimmed; entities nest properly and begin and end in visible characters.
    It may be longer than a message, or empty: `splitting.split` turns it into messages.
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
    """Return True if the parser dropped text because of MAX_NESTING."""
    deepest = (token.type for token in tokens if token.level >= MAX_NESTING - 1)
    return not {"blockquote_open", "list_item_open"}.isdisjoint(deepest)


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
    """Create a parser of CommonMark, tables and strikethrough, without HTML and link definitions.

    It accepts every link target unchanged: `address` checks them.
    """
    # Imported here because it takes 20 ms, and a first poll does not need it.
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


# Characters of a link target behind text.
MAX_TARGET = 2048

# Addresses that tdlib's LinkManager::check_link accepts, except disguised ones: Telegram responds
# with 400 to a host without a dot (localhost) or with odd characters; user:password@ disguises the
# host.
_WEB = re.compile(
    r"https?://[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\.?(?::(?P<port>[0-9]{1,5}))?(?:[/?#]\S*)?",
    re.IGNORECASE,
)
# tg://user may refer to an unknown account: "User not found" would reject the whole message.
_TELEGRAM = re.compile(r"tg://(?!user\b)[a-z0-9_-]+(?:[/?]\S*)?", re.IGNORECASE)
# Reserved by RFC 3986, or already quoted.
_NOT_QUOTED = ":/?#[]@!$&'()*+,;=%"
_LOOKS_LIKE_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//|www\.", re.IGNORECASE)
_HAS_ADDRESS_SIGNS = re.compile(r"[:/#?@.]")


def address(target: str) -> str | None:
    """Return *target* as an address that may be hidden behind text, or None.

    None for a ``mailto:``, because the Bot API turns it into ``http://mailto:…``.  Clients make it
    clickable when it is shown as text.
    """
    if len(target) > MAX_TARGET:
        return None
    url = quote(target, safe=_NOT_QUOTED)
    if match := _WEB.fullmatch(url):
        port = match["port"]
        return url if port is None or 0 < int(port) < 65536 else None
    return url if _TELEGRAM.fullmatch(url) else None


def visible(target: str) -> str:
    """Return *target* for a reader: a mail address without its scheme."""
    return target[7:] if target[:7].lower() == "mailto:" else target


def is_target(text: str) -> bool:
    """Return True if *text* can be a link target: ``f[i](x)`` is not a link."""
    return _HAS_ADDRESS_SIGNS.search(text) is not None


def claims_another(label: str, target: str) -> bool:
    """Return True if *label* looks like an address other than *target*."""
    if _LOOKS_LIKE_ADDRESS.match(label) is None:
        return False
    bare, other = (re.sub(r"^(?:https?:)?//|/$", "", s.lower()) for s in (label, target))
    return bare != other


Align = Literal["left", "center", "right"]

# Columns of a phone in portrait mode; wider lines wrap, which breaks the alignment.
MAX_WIDTH = 40


def grid(rows: Sequence[Sequence[str]], aligns: Sequence[Align]) -> str | None:
    """Draw *rows*, with a header first; return None if a line would exceed `MAX_WIDTH`.

    Cells are single lines.  The first line never begins with a space: Telegram would strip it.
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
# Maximum characters of a label that each row repeats if a table is too wide for a grid.
MAX_LABEL = 24

_KINDS = {"strong_open": "bold", "em_open": "italic", "s_open": "strikethrough"}
_TASK = re.compile(r"\[([ xX])\](?=[ \t]+\S)")
_LANGUAGE = re.compile(r"[\w+#./-]{1,32}")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
_NOT_BLANK = re.compile(r"[^ \t>]")


class Renderer:
    """Write tokens to *page*.  *lines* are the source, for the author's blank lines.

    With *hide_targets* link targets are hidden behind their text, else shown after it.
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
        # Telegram's quotes cannot nest: an inner one is marked with "> ".
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
        # Telegram replaces each tab by one space.
        code = _BLANK_LINES.sub("", token.content.expandtabs(4)).rstrip()
        if code.startswith(" "):
            # Leading spaces would be outside the code block, and misalign its first line.
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
        """Write a table that is too wide for a phone row by row, each cell after its label."""
        page = self._page
        labels = [self._flat(cell) for cell in header]
        if not rows:
            page.write(" · ".join(filter(None, labels)))
        for number, row in enumerate(rows):
            page.block(1)
            page.indent("• ", "  ")
            for label, cell in zip(labels, row, strict=True):
                # The first row has every label in full, so that no label is lost.
                if number == 0 or cell.content.strip():
                    is_short = number == 0 or len(label) <= MAX_LABEL
                    page.block(1)
                    page.write(label and f"{label if is_short else label[:MAX_LABEL] + '…'}: ")
                    self._inline(cell.children or ())
            page.dedent()

    def _flat(self, cell: "Token") -> str:
        """Return a table cell as one line of text."""
        if not cell.content:
            return ""  # the parser pads short rows, with many cells perhaps
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
                case "link_open" if not in_link:  # the parser allows <…> within a link
                    start = index + 1
                    while tokens[index].type != "link_close" or tokens[index].level != token.level:
                        index += 1
                    self._link(token, str(token.attrs["href"]), tokens[start:index])
                case "image" if in_link:
                    self._inline(token.children or (), in_link=True)
                case "image":
                    # Never the image itself: fetching it would tell its server what we read.
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
            page.write("[")  # the source text, because this is not a link
            self._inline(inside, in_link=True)
            page.write(f"]({target})")
        else:
            self._inline(inside, in_link=True)
            shown = visible(target)
            if label != shown:
                page.write(f" ({shown})" if label else shown)


def _task_box(following: Sequence["Token"]) -> str:
    """Remove the ``[x]`` of a task list item from the text and return a box, or ""."""
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
