"""HTML → the text that a reader sees, as Markdown, without menus, pictures and hidden parts."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin

import attrs

from elwood.foundation.text.elements import (
    BLOCKS,
    FORMATTING,
    VOID,
    OpenElements,
    tags,
)
from elwood.foundation.text.html import End, Start, tokens
from elwood.foundation.text.markdown_writer import Block, Sheet, joined

# Elements that are no part of what is read, or cannot be.
_DROPPED = tags(
    "applet aside audio button canvas datalist embed footer frameset iframe map math nav noembed "
    "noframes noscript object script select style svg template textarea video"
)
_DROPPED_ROLES = frozenset(("navigation", "complementary", "contentinfo", "search", "menu"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Characters of a style attribute that are looked at: more is no style by hand.
_MAX_STYLE = 2000
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|content-visibility:hidden"
    r"|(?:font-size|opacity):0?\.?0+(?:px|pt|em|rem|%)?(?:;|!|$)"
    r"|(?:left|top|text-indent):-\d{4,}|(?<![-\w])color:transparent"
)
_BLANKS = re.compile(r"[ \t\r\f\xa0]+")
_SPACE = re.compile(r"\s+")
# Characters of a link that are shown; what is longer carries data rather than a place.
_MAX_LINK = 500
# Tags and texts of a page that are read: some times those of a long article; each takes 10 µs.
MAX_TAGS = 100_000
# Characters that the main part of a page must have to be taken for the whole.
_ENOUGH = 200


@attrs.frozen
class Article:
    """The *title* of a page, if it has one, and its *text* in Markdown.

    *is_cut* says that the page has more tags than are read.
    """

    title: str
    text: str
    is_cut: bool = False


def article(html: str, url: str) -> Article:
    """Write what is readable of *html*, whose links are relative to *url*.

    If the page marks its main part, and that is not nearly empty, only that.

    >>> page = "<title>T</title><nav>menu</nav><h1>A</h1><p>b <a href=c>d</a><p hidden>e<ul><li>f"
    >>> article(page, "https://x.example/")
    Article(title='T', text='# A\\n\\nb d (https://x.example/c)\\n\\n- f', is_cut=False)
    """
    writer = _Writer(url)
    for number, token in enumerate(tokens(html)):
        if number >= MAX_TAGS:
            return writer.finish(is_cut=True)
        match token:
            case Start():
                writer.start(token)
            case End():
                writer.end(token.name)
            case _:
                writer.text(token)
    return writer.finish(is_cut=False)


class _Writer:
    def __init__(self, url: str) -> None:
        self._base = url
        self._open = OpenElements()
        self._dropped_at: int | None = None  # how many elements were open around the dropped one
        self._dropped = ""
        self._sheet = Sheet()
        self._title: str | None = None
        self._line: list[str] = []
        self._pre: list[str] | None = None
        self._parts: dict[str, list[int]] = {"main": [], "article": []}  # where they were opened
        self._link = ""
        self._has_link_text = False

    def start(self, tag: Start) -> None:
        name = tag.name
        self._close(self._open.kept_at_start(name))
        if name in VOID:
            self._void(name, tag)
            return
        if name in ("svg", "math") and tag.raw.endswith("/"):
            return
        depth = len(self._open)
        self._open.push(name)
        if self._dropped_at is not None:
            return
        attributes = tag.attributes if tag.raw else {}
        if _is_dropped(name, attributes):
            self._dropped_at, self._dropped = depth, name
        else:
            self._enter(name, attributes, depth)

    def end(self, name: str) -> None:
        kept = self._open.kept_at_end(name)
        if self._dropped == name and name in FORMATTING and kept == len(self._open):
            kept = self._dropped_at or 0
        self._close(kept, by=name)

    def text(self, text: str) -> None:
        if self._dropped_at is not None:
            return
        if self._title == "":
            self._title = _SPACE.sub(" ", text).strip()
        elif self._pre is not None:
            self._pre.append(text)
        else:
            self._line.append(_SPACE.sub(" ", text))
            self._has_link_text = self._has_link_text or not text.isspace()

    def finish(self, *, is_cut: bool) -> Article:
        self._close(0)
        self._flush()
        blocks = self._sheet.blocks
        main = [block for block in blocks if block.part == "main"]
        articles = [block for block in blocks if block.part]
        if _size(main) >= _ENOUGH:
            blocks = main
        elif _size(articles) >= max(_ENOUGH, _size(blocks) // 2):
            blocks = articles
        return Article(self._title or "", joined(blocks), is_cut)

    def _close(self, kept: int, by: str = "") -> None:
        goes_on = False
        while len(self._open) > kept:
            name = self._open.pop()
            if self._dropped_at is None:
                self._leave(name, len(self._open))
            elif self._dropped_at == len(self._open):
                self._dropped_at = None
                goes_on = name in FORMATTING and name != by
        if goes_on:
            self._dropped_at = len(self._open)
            self._open.push(self._dropped)
        elif self._dropped_at is None:
            self._dropped = ""

    def _void(self, name: str, tag: Start) -> None:
        if self._dropped_at is not None:
            return
        if name == "br":
            (self._line if self._pre is None else self._pre).append("\n")
        elif name == "hr":
            self._flush()
        elif name == "base" and (href := tag.attributes.get("href")):
            self._base = _link(self._base, href) or self._base

    def _enter(self, name: str, attributes: Mapping[str, str], depth: int) -> None:
        if name in BLOCKS:
            self._flush()
        part = "main" if attributes.get("role") == "main" else name
        if part in self._parts:
            self._parts[part].append(depth)
            self._sheet.part = self._part()
        match name:
            case "title":
                self._title = "" if self._title is None else self._title
            case "pre":
                self._pre = [] if self._pre is None else self._pre
            case "code" if self._pre is None:
                self._line.append("`")
            case "blockquote":
                self._sheet.quotes += 1
            case "ul" | "ol" | "menu":
                self._sheet.open_list(is_ordered=name == "ol")
            case "li":
                self._sheet.item()
            case "table":
                self._sheet.open_table()
            case "td" | "th":
                self._sheet.open_cell()
            case "a":
                self._link = _link(self._base, attributes.get("href", ""))
                self._has_link_text = False
            case _ if name in _HEADINGS:
                self._sheet.heading = _HEADINGS[name]

    def _leave(self, name: str, depth: int) -> None:
        if name in BLOCKS:
            self._flush()
        match name:
            case "title":
                self._title = self._title or None
            case "pre" if self._pre is not None:
                code, self._pre = "".join(self._pre), None
                self._sheet.code(code)
            case "code" if self._pre is None:
                self._line.append("`")
            case "blockquote":
                self._sheet.quotes -= 1
            case "ul" | "ol" | "menu":
                self._sheet.close_list()
            case "table":
                self._sheet.close_table()
            case "td" | "th":
                self._sheet.close_cell()
            case "tr":
                self._sheet.close_row()
            case "a":
                self._end_link()
            case _ if name in _HEADINGS:
                self._sheet.heading = 0
        for places in self._parts.values():
            if places and places[-1] == depth:
                places.pop()
                self._sheet.part = self._part()

    def _part(self) -> str:
        return next((name for name, places in self._parts.items() if places), "")

    def _end_link(self) -> None:
        if self._link and self._has_link_text:
            self._line.append(f" ({self._link})")
        self._link = ""

    def _flush(self) -> None:
        """End a line: what was collected becomes a block."""
        if self._line and self._has_link_text:
            self._end_link()
        text = "".join(self._line)
        self._line.clear()
        lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
        self._sheet.write([line for line in lines if line.strip("`")])


def _is_dropped(name: str, attributes: Mapping[str, str]) -> bool:
    """Tell whether an element is hidden, as far as its own tag says, or no text of the page."""
    if name in _DROPPED or (name == "dialog" and "open" not in attributes):
        return True
    if name in ("html", "body") or not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return True
    style = attributes.get("style", "")[:_MAX_STYLE]
    if style and _HIDING.search(_SPACE.sub("", style).lower()):
        return True
    return attributes.get("role", "").lower() in _DROPPED_ROLES


def _link(base: str, href: str) -> str:
    """Write where a link leads; empty if it is none that could be fetched."""
    href = href.strip()
    if not href or href.startswith("#"):
        return ""
    try:
        joined = urljoin(base, href)
    except ValueError:
        return ""
    if not joined.startswith(("http://", "https://")) or len(joined) > _MAX_LINK:
        return ""
    return quote(joined, safe="/%:@!$&'()*+,;=~?#[]")


def _size(blocks: list[Block]) -> int:
    return sum(len(block.text) for block in blocks)
