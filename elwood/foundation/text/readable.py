"""Convert a response body to text for the model, or report why that is impossible.

HTML becomes the visible text, as Markdown, without menus, pictures and hidden parts.  lxml builds
the tree; it is imported with the first page.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urljoin

import msgspec

from elwood.foundation.text.characters import clean, slices
from elwood.foundation.text.lines import fence_of

# Invisible characters that can hide text from a reader: soft hyphen, marks of width, direction and
# variation, tags.  Joiners stay: some scripts and emoji need them.
_INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0e\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/[\w.+-]+|application/(?:json|xml|javascript|x-ndjson|yaml|x-yaml|[\w.-]+\+(?:json|xml))"
)
# Signatures at the start of a body.
_KINDS = (
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"\x89PNG"), "a PNG picture"),
    (re.compile(rb"\xff\xd8\xff"), "a JPEG picture"),
    (re.compile(rb"GIF8"), "a GIF picture"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "a WebP picture"),
    (re.compile(rb"....ftyp(?:hei[cxms]|mif1|msf1)", re.DOTALL), "a HEIC picture"),
    (re.compile(rb"PK\x03\x04"), "a ZIP archive or an office document"),
    (re.compile(rb"\x1f\x8b"), "a gzip archive"),
    (re.compile(rb"\x7fELF"), "a program"),
    (re.compile(rb"SQLite format 3"), "an SQLite database"),
)
# Characters searched for a zero byte, which means binary data.
_START = 1024


class Readable(msgspec.Struct, frozen=True):
    """The text of a page."""

    # "" if it has none.
    title: str
    text: str
    # Whether the page is longer, or nested more deeply, than the parser reads.
    is_cut: bool = False


class UnreadablePage(msgspec.Struct, frozen=True):
    """The body is not text; *why* describes it in our words."""

    why: str


def kind_of(body: bytes) -> str:
    """Return the kind of a binary *body* by its signature, or "" if it may be text."""
    return next((kind for magic, kind in _KINDS if magic.match(body)), "")


def decode_file(body: bytes) -> str | None:
    """Decode a file; return None for binary data, which has zero characters."""
    if b"\0" in body and not body.startswith(_WIDE):
        return None
    text = decode(body, "")
    return None if "\0" in text else text


def readable(body: bytes, content_type: str, url: str) -> Readable | UnreadablePage:
    """Convert *body*, fetched from *url*, to text; text other than HTML is unchanged."""
    if kind := kind_of(body):
        return UnreadablePage(kind)
    media = content_type.partition(";")[0].strip().lower()
    text = decode(body, content_type)
    if "\0" in text[:_START]:
        return UnreadablePage("binary data")
    if media in _HTML or (not media and text.lstrip()[:1] == "<"):
        found = article(text, url)
        if found is None:
            return UnreadablePage("a page with implausible tags")
        return Readable(_remove_invisible(found.title), _remove_invisible(found.text), found.is_cut)
    if media and _TEXT.fullmatch(media) is None:
        return UnreadablePage("neither a page nor text")
    return Readable("", _remove_invisible(text))


def _remove_invisible(text: str) -> str:
    return "".join(clean(_INVISIBLE.sub("", part)) for part in slices(text))


# Encoding names of web pages (WHATWG Encoding) and Python's codecs.  Other codecs are not tried:
# some of Python's are not text encodings, or take quadratic time.
_CODECS = {
    **{name: "utf-8" for name in ("utf-8", "utf8")},
    **{name: "cp1252" for name in ("iso-8859-1", "latin1", "us-ascii", "ascii", "windows-1252")},
    **{name: "cp932" for name in ("shift-jis", "shift_jis", "sjis", "x-sjis", "windows-31j")},
    **{name: "gb18030" for name in ("gb2312", "gbk", "x-gbk", "gb18030")},
    **{name: "cp949" for name in ("euc-kr", "ks_c_5601-1987", "windows-949")},
    **{f"windows-125{n}": f"cp125{n}" for n in (0, 1, 3, 4, 5, 6, 7, 8)},
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{"iso-8859-9": "cp1254", "iso-8859-11": "cp874", "windows-874": "cp874"},
    **{"utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"},
    **{"koi8-r": "koi8-r", "koi8-u": "koi8-u", "ibm866": "cp866", "macintosh": "mac-roman"},
    **{"big5": "big5hkscs", "euc-jp": "euc-jp", "iso-2022-jp": "iso2022-jp"},
}
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # those of UTF-16
# Bytes in which a page must name its encoding (WHATWG HTML).
_HEAD = 1024
_IN_HEADER = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_IN_META = re.compile(rb"<meta\b[^>]{0,200}\bcharset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.I)
# Maximum bytes of an incomplete character at the end.
_TAIL = 3


def decode(body: bytes, content_type: str) -> str:
    """Decode *body*; undecodable bytes become U+FFFD.

    In order of precedence: a byte-order mark; valid UTF-8, which other encodings do not produce by
    chance; the header; the page itself; windows-1252.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    header = _IN_HEADER.search(content_type)
    declared = None if header is None else _CODECS.get(header[1].lower())
    meta = _IN_META.search(body[:_HEAD])
    if declared is None and meta is not None:
        named = meta[1].decode("ascii", "replace").lower()
        # A page whose tags can be read as ASCII is not UTF-16, whatever it says.
        declared = _CODECS.get("utf-8" if named.startswith("utf-16") else named)
    if not body.isascii() or declared is None:
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError as error:
            if declared is None and error.start >= len(body) - _TAIL and error.start > 0:
                return body.decode("utf-8", "replace")
    return body.decode(declared or "cp1252", "replace")


# --- HTML -----------------------------------------------------------------------------------------


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Elements without readable text.
_DROPPED = _tags(
    "applet aside audio button canvas datalist embed footer frameset iframe map math nav noembed "
    "noframes noscript object script select style svg template textarea video"
)
_DROPPED_ROLES = frozenset(("navigation", "complementary", "contentinfo", "search", "menu"))
# Elements that start a new line.
_BLOCKS = _tags(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main "
    "menu nav ol optgroup option p pre search section summary table tbody td tfoot th thead tr ul "
    "xmp"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Maximum characters of a style attribute that are searched; longer ones are generated.
_MAX_STYLE = 2000
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|content-visibility:hidden"
    r"|(?:font-size|opacity):0?\.?0+(?:px|pt|em|rem|%)?(?:;|!|$)"
    r"|(?:left|top|text-indent):-\d{4,}|(?<![-\w])color:transparent"
)
_BLANKS = re.compile(r"[ \t\r\f\xa0]+")
_SPACE = re.compile(r"\s+")
# Maximum characters of a link; longer ones carry data.
_MAX_LINK = 500
# Characters of a title that are read.
_MAX_TITLE = 2000
# Maximum elements of a page, several times a long article; each takes 10 µs.
MAX_ELEMENTS = 50_000
# Minimum characters of the main part of a page to be used instead of the whole.
_ENOUGH = 200
# Maximum indented levels of lists; each adds characters to every line.
_MAX_INDENT = 6

# A comment, an element without markup in it, or a tag, each with its attributes; without
# backtracking.
_ATTRIBUTES = r"""(?: [^>=]++ | =\s*+ (?: "[^"]*+" | '[^']*+' )? )*+"""
_TAG = re.compile(
    rf"""<!--.*?(?:--!?>|\Z)
    | <(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>]) ({_ATTRIBUTES})
      (?: >.*?(?: </\1(?=[\s/>]) | \Z ) | \Z )
    | </?[a-z][^\s/>]*+ ({_ATTRIBUTES}) (?: > | \Z )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r""""[^"]*+"|'[^']*+'""")
# Characters of a tag outside quotes; the parser takes quadratic time for many attributes, 50 ms at
# this limit.
MAX_TAG = 16_384


def article(html: str, url: str) -> "Readable | None":
    """Convert *html* to Markdown, with links relative to *url*.

    If the page marks its main part, and that is not nearly empty, use only that.  Linear in the
    length of *html*.  Return None for a page with an excessive number of attributes.
    """
    from lxml import etree

    for tag in _TAG.finditer(html):
        written = tag[2] or tag[3] or ""
        if len(written) > MAX_TAG and len(_QUOTED.sub("", written)) > MAX_TAG:
            return None
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(html.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:  # it has no element
        return Readable("", "")
    if root is None:
        return Readable("", "")
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


class _Block(msgspec.Struct, frozen=True):
    """Some lines of a page."""

    text: str
    # "main", "article" or "".
    part: str
    # No blank line separates neighbours of the same kind, unless it is "".
    kind: str


class _Writer:
    """Collect blocks of Markdown from the start and end of each element, in page order."""

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
        # Number of the next item of each open list; 0 for bullets.
        self._lists: list[int] = []
        self._marker = ""
        self._tables = 0  # depth; only the outermost is drawn as a table
        self._rows = 0  # of the outermost
        self._table = 0  # number of the outermost
        self._row: list[str] = []
        self._cell: list[str] | None = None
        self._link = ""
        self._has_link_text = False

    def write(self, text: str | None) -> None:
        if not text:
            return
        if self._in_title:
            self._title = self._title or _SPACE.sub(" ", text[:_MAX_TITLE]).strip()
            return
        self._line.append(text if self._pre else _collapse(_SPACE, text))
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

    def finish(self, *, is_cut: bool) -> "Readable":
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
        return Readable(self._title, "".join(pieces[1:]), is_cut)

    def flush(self, *, when: bool = True) -> None:
        """End a line and add it as a block."""
        if not when or not self._line:
            return
        if self._has_link_text:
            self._end_link()
        text = "".join(self._line)
        self._line.clear()
        if self._pre:
            if text.strip():
                self._put_lines(_fence_lines(text) if self._cell is None else text.split("\n"))
            return
        lines = [_collapse(_BLANKS, line).strip() for line in text.split("\n")]
        self._put_lines([line for line in lines if line.strip("`")])

    def _put_lines(self, lines: list[str]) -> None:
        """Add a block with the heading, list and quote marks of its position."""
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
        """Add a row; a single cell is a paragraph, because tables are also used for layout."""
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


def _collapse(blanks: re.Pattern[str], text: str) -> str:
    return "".join(blanks.sub(" ", part) for part in slices(text))


def _is_dropped(name: str, attributes: Mapping[str, str]) -> bool:
    """Return True if the element's own tag hides it, or it is not text of the page."""
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


def _fence_lines(code: str) -> list[str]:
    lines = [line.rstrip() for line in code.strip("\n").split("\n")]
    fence = fence_of(code)
    return [fence, *lines, fence]


def _link(base: str, href: str) -> str:
    """Return the target of a link, or "" if it cannot be fetched."""
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
