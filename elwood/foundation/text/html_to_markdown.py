"""HTML → the text that a reader sees, as Markdown, without menus, pictures and hidden parts.

lxml builds the tree; it is imported with the first page.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin

import msgspec


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Elements that are no part of what is read, or cannot be.
_DROPPED = _tags(
    "applet aside audio button canvas datalist embed footer frameset iframe map math nav noembed "
    "noframes noscript object script select style svg template textarea video"
)
_DROPPED_ROLES = frozenset(("navigation", "complementary", "contentinfo", "search", "menu"))
# Elements that begin a new line.
_BLOCKS = _tags(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main "
    "menu nav ol optgroup option p pre search section summary table tbody td tfoot th thead tr ul "
    "xmp"
)
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
# Elements of a page that are read: some times those of a long article; each takes 10 µs.
MAX_ELEMENTS = 50_000
# Characters that the main part of a page must have to be taken for the whole.
_ENOUGH = 200
# Levels of lists that are indented; each costs characters on every line.
_MAX_INDENT = 6

# Elements that go on in what follows if they are closed by anything but their own end tag.
_FORMATTING = _tags("a b big code em font i nobr s small strike strong tt u")

# A comment, an element that holds no markup (one of its attributes), or a tag with its attributes;
# nothing is tried twice.
_ATTRIBUTES = r"""(?: [^>=]++ | =\s*+ (?: "[^"]*+" | '[^']*+' )? )*+"""
_TAG = re.compile(
    rf"""<!--.*?(?:--!?>|\Z)
    | <(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>]) ({_ATTRIBUTES})
      (?: >.*?(?: </\1(?=[\s/>]) | \Z ) | \Z )
    | <(/?)([a-z][^\s/>]*+) ({_ATTRIBUTES}) (?: > | \Z )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r""""[^"]*+"|'[^']*+'""")
# Characters of one tag without what is quoted in it; the parser takes quadratic time on many
# attributes, 50 ms for so many.
MAX_TAG = 16_384


class TooManyAttributes(Exception):
    """A tag has more attributes than anybody writes."""


class Article(msgspec.Struct, frozen=True):
    """The *title* of a page, if it has one, and its *text* in Markdown.

    *is_cut* says that the page has more, or is nested more deeply, than is read.
    """

    title: str
    text: str
    is_cut: bool = False


def article(html: str, url: str) -> Article:
    """Write what is readable of *html*, whose links are relative to *url*.

    If the page marks its main part, and that is not nearly empty, only that.  Takes time in
    proportion to the length of *html*.  Raises TooManyAttributes.

    >>> page = "<title>T</title><nav>menu</nav><h1>A</h1><p>b <a href=c>d</a><p hidden>e<ul><li>f"
    >>> article(page, "https://x.example/")
    Article(title='T', text='# A\\n\\nb d (https://x.example/c)\\n\\n- f', is_cut=False)
    """
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        data = _without_hidden_formatting(html).encode("utf-8", "replace")
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError:  # there is not one element in it
        return Article("", "")
    if root is None:
        return Article("", "")
    is_cut = any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)
    writer = _Writer(url)
    walk = etree.iterwalk(root, events=("start", "end"))
    dropped: object = None
    for number, (event, element) in enumerate(walk):
        if number >= 2 * MAX_ELEMENTS:
            is_cut = True
            break
        name, attributes = element.tag, element.attrib
        if event == "start":
            if _is_dropped(name, attributes):
                dropped = element
                walk.skip_subtree()
            else:
                writer.enter(name, attributes)
                writer.write(element.text)
            continue
        after = element.tail
        if element is dropped:
            writer.flush(when=name in _BLOCKS)
        else:
            writer.leave(name, attributes)
        writer.write(after)
    return writer.finish(is_cut=is_cut)


def _without_hidden_formatting(html: str) -> str:
    """Cut out hidden elements that browsers carry on through whatever closes around them.

    The parser does not.  Raises TooManyAttributes.
    """
    pieces = []
    at, hidden, depth = 0, "", 0
    for tag in _TAG.finditer(html):
        _, in_raw, slash, name, in_tag = tag.groups("")
        attributes = in_raw or in_tag
        if len(attributes) > MAX_TAG and len(_QUOTED.sub("", attributes)) > MAX_TAG:
            raise TooManyAttributes
        if hidden and name.lower() == hidden:
            depth += -1 if slash else 1
            if depth == 0:
                at, hidden = tag.end(), ""
        elif not hidden and not slash and name.lower() in _FORMATTING and _hides(tag[0]):
            pieces.append(html[at : tag.start()])
            hidden, depth = name.lower(), 1
    return "".join(pieces) if hidden else "".join([*pieces, html[at:]])


def _hides(tag: str) -> bool:
    """Tell whether a tag hides its element."""
    from lxml import etree

    if not re.search("hidden|style|role", tag, re.IGNORECASE):
        return False
    root = etree.fromstring(tag.encode("utf-8", "replace"), etree.HTMLParser(encoding="utf-8"))
    for found in root.iter():
        attributes = {str(key): str(value) for key, value in found.items()}
        if _is_dropped(str(found.tag), attributes):
            return True
    return False


class _Block(msgspec.Struct, frozen=True):
    """Some lines; *part* says in which part of a page they stand.

    Neighbours of the same *kind* follow without an empty line; "" is not like any other.
    """

    text: str
    part: str
    kind: str


class _Writer:
    """Collects blocks of Markdown; is told what begins and ends, in the order of the page."""

    def __init__(self, url: str) -> None:
        self._base = url
        self._title = ""
        self._in_title = False
        self._blocks: list[_Block] = []
        self._parts: list[str] = []
        self._line: list[str] = []
        self._pre = 0
        self._heading = 0
        self._quotes = 0
        # For each list that is open the number of its next item; 0 if it has none.
        self._lists: list[int] = []
        self._marker = ""
        self._tables = 0  # how deep we are in them; only the outermost is one for us
        self._rows = 0  # of the outermost
        self._table = 0  # its number
        self._row: list[str] = []
        self._cell: list[str] | None = None
        self._link = ""
        self._has_link_text = False

    def write(self, text: str | None) -> None:
        if not text:
            return
        if self._in_title:
            self._title = self._title or _SPACE.sub(" ", text).strip()
            return
        self._line.append(text if self._pre else _SPACE.sub(" ", text))
        self._has_link_text = self._has_link_text or not text.isspace()

    def enter(self, name: str, attributes: Mapping[str, str]) -> None:
        self.flush(when=name in _BLOCKS)
        if (part := _part(name, attributes)) is not None:
            self._parts.append(part)
        match name:
            case "title":
                self._in_title = True
            case "br":
                self._line.append("\n")
            case "base" if href := attributes.get("href"):
                self._base = _link(self._base, href) or self._base
            case "pre":
                self._pre += 1
            case "code" if not self._pre:
                self._line.append("`")
            case "blockquote":
                self._quotes += 1
            case "ul" | "menu":
                self._lists.append(0)
            case "ol":
                self._lists.append(1)
            case "li":
                self._begin_item()
            case "table":
                self._tables += 1
                if self._tables == 1:
                    self._rows = 0
                    self._table += 1
            case "td" | "th" if self._tables == 1:
                self._cell = []
            case "a":
                self._link = _link(self._base, attributes.get("href", ""))
                self._has_link_text = False
            case _ if name in _HEADINGS:
                self._heading = _HEADINGS[name]

    def leave(self, name: str, attributes: Mapping[str, str]) -> None:
        self.flush(when=name in _BLOCKS)
        match name:
            case "title":
                self._in_title = False
            case "pre":
                self._pre -= 1
            case "code" if not self._pre:
                self._line.append("`")
            case "blockquote":
                self._quotes -= 1
            case "ul" | "ol" | "menu":
                self._lists.pop()
                self._marker = ""
            case "table":
                self._tables -= 1
            case "td" | "th" if self._tables == 1 and self._cell is not None:
                self._row.append(" ".join(self._cell))
                self._cell = None
            case "tr" if self._tables == 1:
                self._end_row()
            case "a":
                self._end_link()
            case _ if name in _HEADINGS:
                self._heading = 0
        if _part(name, attributes) is not None:
            self._parts.pop()

    def finish(self, *, is_cut: bool) -> Article:
        self.flush()
        blocks = self._blocks
        main = [block for block in blocks if block.part == "main"]
        articles = [block for block in blocks if block.part]
        if _size(main) >= _ENOUGH:
            blocks = main
        elif _size(articles) >= max(_ENOUGH, _size(blocks) // 2):
            blocks = articles
        pieces = []
        before = ""
        for block in blocks:
            pieces.append("\n" if block.kind and block.kind == before else "\n\n")
            pieces.append(block.text)
            before = block.kind
        return Article(self._title, "".join(pieces[1:]), is_cut)

    def flush(self, *, when: bool = True) -> None:
        """End a line: what was collected becomes a block."""
        if not when or not self._line:
            return
        if self._has_link_text:
            self._end_link()
        text = "".join(self._line)
        self._line.clear()
        if self._pre:
            if text.strip():
                self._put_lines(_fenced(text) if self._cell is None else text.split("\n"))
            return
        lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
        self._put_lines([line for line in lines if line.strip("`")])

    def _put_lines(self, lines: list[str]) -> None:
        """Add a block, in the form of where we are."""
        if not lines:
            return
        if self._cell is not None:
            self._cell.extend(lines)
            return
        if self._heading:
            lines = ["#" * self._heading + " " + " ".join(lines)]
        marker, self._marker = self._marker, ""
        if marker or self._lists:
            indent = "  " * (min(len(self._lists), _MAX_INDENT) - 1)
            first, *rest = lines
            lines = [indent + (marker or "  ") + first, *(f"{indent}  {line}" for line in rest)]
        quoted = "> " if self._quotes else ""
        self._put("\n".join(quoted + line for line in lines), "item" if marker else "")

    def _put(self, text: str, kind: str) -> None:
        part = "main" if "main" in self._parts else "".join(self._parts[-1:])
        self._blocks.append(_Block(text, part, kind))

    def _begin_item(self) -> None:
        self._marker = "- "
        if self._lists and self._lists[-1]:
            self._marker = f"{self._lists[-1]}. "
            self._lists[-1] += 1

    def _end_row(self) -> None:
        """Add a row; one of a single cell is a paragraph, as in pages laid out by tables."""
        row, self._row = self._row, []
        if len(row) == 1:
            self._put_lines(row if row[0] else [])
        elif any(row):
            text = "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
            if not self._rows:
                text += "\n|" + " --- |" * len(row)
            self._rows += 1
            self._put(text, f"table {self._table}")

    def _end_link(self) -> None:
        if self._link and self._has_link_text:
            self._line.append(f" ({self._link})")
        self._link = ""


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


def _part(name: str, attributes: Mapping[str, str]) -> str | None:
    if name == "main" or attributes.get("role") == "main":
        return "main"
    return "article" if name == "article" else None


def _fenced(code: str) -> list[str]:
    """Show code as it is; the fence is longer than any inside it."""
    lines = [line.rstrip() for line in code.strip("\n").split("\n")]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return [fence, *lines, fence]


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


def _size(blocks: list[_Block]) -> int:
    return sum(len(block.text) for block in blocks)
