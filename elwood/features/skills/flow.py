"""What YAML writes on one line: texts in quotes, lists in brackets, maps in braces; JSON too."""

import json
import re
from collections.abc import Mapping

# Maps and lists within one another.
MAX_DEPTH = 8

Value = str | tuple["Value", ...] | Mapping[str, "Value"]

COMMENT = re.compile(r"(?:^|[ \t])#.*")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"')


class Bad(Exception):
    """What is read cannot go on; `front_matter.read` makes a sentence of it."""


def quoted(text: str, at: int) -> tuple[str, int]:
    """Read the text in quotes at *at*; return it, and where it ends.  Raises Bad."""
    if text[at] == "'":
        found = _SINGLE.match(text, at)
        if found is None:
            raise Bad("has no closing quote")
        return found[1].replace("''", "'"), found.end()
    found = _DOUBLE.match(text, at)
    if found is None:
        raise Bad("has no closing quote")
    try:
        return str(json.loads(found[0], strict=False)), found.end()
    except ValueError as error:
        raise Bad("has an unknown escape with a back-slash") from error


class Flow:
    """Reads lists and maps in brackets and braces, JSON among them."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0

    def whole(self) -> Value:
        """Read the value, which nothing but a comment may follow.  Raises Bad."""
        value = self._value(self._depth)
        if COMMENT.sub("", self._text[self._at :]).strip():
            raise Bad("goes on behind the closing bracket")
        return value

    def _peek(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise Bad(f"is nested more than {MAX_DEPTH} deep")
        match self._peek():
            case "[":
                return tuple(self._items(depth))
            case "{":
                return self._pairs(depth)
            case _:
                return self._text_until(",]}[{")

    def _items(self, depth: int) -> list[Value]:
        found: list[Value] = []
        self._at += 1
        while self._peek() != "]":
            found.append(self._value(depth + 1))
            self._part("]")
        self._at += 1
        return found

    def _pairs(self, depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        self._at += 1
        while self._peek() != "}":
            key = self._text_until(":,]}[{")
            if self._peek() != ":" or key in found:
                raise Bad("has a key twice, or without a colon behind it")
            self._at += 1
            found[key] = self._value(depth + 1)
            self._part("}")
        self._at += 1
        return found

    def _part(self, close: str) -> None:
        """Pass the comma over; the last one may be missing."""
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != close:
            raise Bad("has brackets or commas that do not fit")

    def _text_until(self, stop: str) -> str:
        if self._peek() and self._peek() in "\"'":
            text, self._at = quoted(self._text, self._at)
            return text
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in stop:
            self._at += 1
        text = self._text[start : self._at].strip()
        if not text:
            raise Bad("has nothing where a value should be")
        return "" if text in ("~", "null") else text
