"""Bytes of a web page → text, by what it says of itself and what it is."""

import re

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
