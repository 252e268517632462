"""The front matter of a Markdown file: a small, bounded subset of YAML.

Strings, lists and maps, in blocks or in braces; no anchors, tags or types: every value is text.
Whatever else YAML knows is refused, and nothing here raises.
"""

import re
from collections.abc import Mapping

import attrs

from elwood.features.skills.flow import (
    COMMENT,
    MAX_DEPTH,
    Bad,
    Flow,
    Value,
    quoted,
)

# Characters and lines of a front matter: the longest known ones have a hundredth of it.
MAX_LENGTH, MAX_LINES = 32_000, 500

_FENCE = re.compile(r"-{3}[ \t]*")
_KEY = re.compile(r"(?P<key>[\w.$-][\w.$ /-]{0,99}|\"[^\"]{1,100}\"|'[^']{1,100}')[ \t]*:(?=\s|$)")
_BLOCK = re.compile(r"(?P<kind>[|>])(?P<end>[+-]?)\d?(?P<rest>[+-]?)[ \t]*(#.*)?")
# What a plain text cannot begin with: YAML gives it a meaning.
_INDICATORS = "&*!%@`|>[]{},?#"


@attrs.frozen
class Malformed:
    """This is no front matter that can be read; *why* is for who wrote it."""

    why: str


@attrs.frozen
class Matter:
    """What stands in the *fields* above a *body*; *mended* says that colons had to be quoted."""

    fields: Mapping[str, Value]
    body: str
    mended: bool = False


def read(text: str) -> Matter | Malformed:
    r"""Take *text* apart.  A value with a colon that should have been quoted is read as quoted.

    >>> read("---\nname: a\ntags: [x, 'y z']\n---\nBody\n")
    Matter(fields={'name': 'a', 'tags': ('x', 'y z')}, body='Body\n', mended=False)
    >>> read("---\nabout: Use when: always\n---\n")
    Matter(fields={'about': 'Use when: always'}, body='', mended=True)
    >>> read("Body")
    Malformed(why='it does not begin with a line ---')
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return Malformed("it does not begin with a line ---")
    end = next((n for n, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        return Malformed("the front matter has no end, a line ---")
    body = "\n".join(lines[end + 1 :])
    if end > MAX_LINES or sum(map(len, lines[1:end])) > MAX_LENGTH:
        return Malformed(f"the front matter has more than {MAX_LINES} lines or {MAX_LENGTH} chars")
    try:
        return Matter(_Reader(lines[1:end], mending=False).fields(), body)
    except Bad:
        pass
    try:
        return Matter(_Reader(lines[1:end], mending=True).fields(), body, mended=True)
    except Bad as error:
        return Malformed(f"the front matter cannot be read: {error}")


class _Reader:
    """Reads blocks, line by line; *mending* takes a colon within a plain text as part of it."""

    def __init__(self, lines: list[str], *, mending: bool) -> None:
        self._lines = lines
        self._mending = mending
        self._at = 0

    def fields(self) -> dict[str, Value]:
        first = self._next()
        if first is None:
            return {}
        found = self._map(first, 0)
        if self._next() is not None:
            raise self._bad("is indented less than what stands above it")
        return found

    def _next(self) -> int | None:
        """Pass blank lines and comments over; return the indent of the next line."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            inner = line.lstrip(" ")
            if inner.strip() and not inner.startswith("#"):
                if inner.startswith("\t"):
                    raise self._bad("is indented by a tab; use blanks")
                return len(line) - len(inner)
            self._at += 1
        return None

    def _bad(self, why: str) -> Bad:
        return Bad(f"line {self._at + 2} {why}")

    def _map(self, indent: int, depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while self._next() == indent:
            line = self._lines[self._at][indent:]
            key = _KEY.match(line)
            if key is None:
                raise self._bad("has no key with a colon behind it")
            name = key["key"].strip().strip("\"'")
            if name in found:
                raise self._bad(f"has the key {name} a second time")
            found[name] = self._value(line[key.end() :], indent, depth)
        return found

    def _list(self, indent: int, depth: int) -> tuple[Value, ...]:
        found: list[Value] = []
        while self._next() == indent and _is_item(self._lines[self._at][indent:]):
            line = self._lines[self._at]
            inner = line[indent + 1 :]
            start = indent + 1 + len(inner) - len(inner.lstrip(" "))
            if _KEY.match(line[start:]):
                self._deeper(depth)
                self._lines[self._at] = " " * start + line[start:]
                found.append(self._map(start, depth + 1))
            else:
                found.append(self._value(inner, indent, depth))
        return tuple(found)

    def _value(self, rest: str, indent: int, depth: int) -> Value:
        """Read what stands behind a colon or a dash, of a line with *indent*."""
        rest = rest.strip()
        block = _BLOCK.fullmatch(rest)
        if block is not None:
            return self._block(indent, folded=block["kind"] == ">")
        line, self._at = self._at, self._at + 1
        if rest and not rest.startswith("#"):
            parts = [rest, *self._continued(indent)]
            return self._inline(parts, line, depth)
        below = self._next()
        if below is None or below < indent:
            return ""
        self._deeper(depth)
        text = self._lines[self._at][below:]
        if _is_item(text):
            return self._list(below, depth + 1)
        if below == indent:
            return ""
        if _KEY.match(text):
            return self._map(below, depth + 1)
        return self._inline(self._continued(indent), line + 1, depth)

    def _deeper(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise self._bad(f"is nested more than {MAX_DEPTH} deep")

    def _continued(self, indent: int) -> list[str]:
        """Take the lines that are indented by more than *indent*."""
        parts: list[str] = []
        while (below := self._next()) is not None and below > indent:
            parts.append(self._lines[self._at].strip())
            self._at += 1
        return parts

    def _block(self, indent: int, *, folded: bool) -> str:
        """Take the indented lines as they are; *folded* joins those of a paragraph."""
        self._at += 1
        parts: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            parts.append(line)
            self._at += 1
        margin = min((len(p) - len(p.lstrip(" ")) for p in parts if p.strip()), default=0)
        text = "\n".join(part[margin:].rstrip() for part in parts).strip("\n")
        return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text

    def _inline(self, parts: list[str], line: int, depth: int) -> Value:
        text = " ".join(parts)
        try:
            if text[0] in "[{":
                return Flow(text, depth).whole()
            if text[0] in "\"'":
                return _unquoted(text)
            return _plain(" ".join(COMMENT.sub("", part) for part in parts), self._mending)
        except Bad as error:
            if self._mending and len(parts) == 1:
                return text
            raise Bad(f"line {line + 2} {error}") from error


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _plain(text: str, mending: bool) -> str:
    text = text.strip()
    if mending:
        return text
    if text[:1] in _INDICATORS and text:
        raise Bad(f"has a text that begins with {text[0]}; put it into quotes")
    if ": " in text or text.endswith(":"):
        raise Bad("has a colon in a text; put the text into quotes")
    return "" if text in ("~", "null") else text


def _unquoted(text: str) -> str:
    """Read a text in quotes, which may be followed by a comment only."""
    value, end = quoted(text, 0)
    if COMMENT.sub("", text[end:]).strip():
        raise Bad("goes on behind the closing quote")
    return value
