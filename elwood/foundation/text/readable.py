"""What a server sent → text for the model, or the reason why it is none."""

import re

import msgspec

from elwood.foundation.text.characters import clean
from elwood.foundation.text.html_to_markdown import TooManyAttributes, article

# Characters that show nothing and can carry words past the reader: soft hyphen, marks of width,
# direction and variation, tags.  Joiners stay: some scripts and emoji need them.
_INVISIBLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2060-\u206f"
    "\ufe00-\ufe0e\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = re.compile(
    r"text/[\w.+-]+|application/(?:json|xml|javascript|x-ndjson|yaml|x-yaml|[\w.-]+\+(?:json|xml))"
)
# What a body starts with tells what it is.
_KINDS = (
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
)
# Bytes that are looked at to tell data from text.
_START = 1024


class Readable(msgspec.Struct, frozen=True):
    """Text of a page, its *title* if it has one; *is_cut* says that there was more of it."""

    title: str
    text: str
    is_cut: bool = False


class UnreadablePage(msgspec.Struct, frozen=True):
    """No text can be made of it; *why* says what it is, in our words."""

    why: str


def readable(body: bytes, content_type: str, url: str) -> Readable | UnreadablePage:
    """Make text of *body*, had from *url*; other text than HTML stays as it is.

    >>> readable(b"<p>a", "text/html", "http://x.example/")
    Readable(title='', text='a', is_cut=False)
    >>> readable(b'{"a": 1}', "application/json", "http://x.example/").text
    '{"a": 1}'
    >>> readable(b"%PDF-1.7", "application/pdf", "http://x.example/")
    UnreadablePage(why='a PDF document')
    """
    kind = next((kind for magic, kind in _KINDS if body.startswith(magic)), None)
    if kind is not None:
        return UnreadablePage(kind)
    media = content_type.partition(";")[0].strip().lower()
    text = decode(body, content_type)
    if "\0" in text[:_START]:
        return UnreadablePage("binary data")
    if media in _HTML or (not media and text.lstrip()[:1] == "<"):
        try:
            found = article(text, url)
        except TooManyAttributes:
            return UnreadablePage("a page with tags that nobody writes")
        return Readable(_visible(found.title), _visible(found.text), found.is_cut)
    if media and _TEXT.fullmatch(media) is None:
        return UnreadablePage("neither a page nor text")
    return Readable("", _visible(text))


def _visible(text: str) -> str:
    return clean(_INVISIBLE.sub("", text))


# What web pages mean by the names of encodings (WHATWG Encoding), as Python calls it.  Others are
# not tried: some of Python's codecs are no encodings of text, or take quadratic time.
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
# Bytes in which a page must name its encoding (WHATWG HTML).
_HEAD = 1024
_IN_HEADER = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_IN_META = re.compile(rb"<meta\b[^>]{0,200}\bcharset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.I)
# Bytes at the end that may be the beginning of a character that was cut.
_TAIL = 3


def decode(body: bytes, content_type: str) -> str:
    """Decode *body*; what cannot be decoded becomes U+FFFD.

    A byte-order mark decides, then that the bytes are good UTF-8, which other text is not by
    chance; then the header, then the page itself, and at last the encoding of the old web.

    >>> decode("ä".encode(), "text/html; charset=iso-8859-1"), decode(b"\\xe4", "text/html")
    ('ä', 'ä')
    >>> decode(b"<meta charset=koi8-r>\\xd1", "")[-1], decode(b"\\x80", "text/x; charset=utf-8")
    ('я', '\ufffd')
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    declared = _codec(_IN_HEADER.search(content_type))
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


def _codec(match: re.Match[str] | None) -> str | None:
    return None if match is None else _CODECS.get(match[1].lower())
