r"""Regular expressions whose search takes time linear in the text, whatever the expression is.

Python's `re` takes exponential time for some, holds all threads meanwhile, and cannot be stopped.
Here an expression is a part of its syntax: characters, ``.``, classes, ``\d \w \s \b`` and their
opposites, ``^ $``, groups, ``|``, ``* + ? {m,n}``.  Look-around and back-references, which need
another way of searching, are refused.  `core.automaton` searches.
"""

import re

import attrs

# Groups in groups: more is no expression that somebody wrote.
MAX_NESTING = 50
# Of {m,n}.
MAX_TIMES = 1000

_TIMES = re.compile(r"\{(\d{1,9})\}|\{(\d{0,9}),(\d{0,9})\}")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_HEX = {"x": 2, "u": 4}


class BadExpression(ValueError):
    """This is no expression that can be searched for; the text says why, to who wrote it."""


@attrs.frozen
class Characters:
    r"""One character out of *ranges* or *kinds* (letters of ``\d`` and the like), or none of them.

    >>> Characters((("a", "f"),), "d").has("e"), Characters((("a", "f"),), "d").has("E")
    (True, False)
    >>> Characters((("a", "a"),), negated=True).has("A", "a")
    False
    """

    ranges: tuple[tuple[str, str], ...] = ()
    kinds: str = ""
    negated: bool = False

    def has(self, *forms: str) -> bool:
        """Tell whether a character is one of them; *forms* are its spellings in either case."""
        found = any(
            any(low <= form <= high for low, high in self.ranges)
            or any(is_kind(kind, form) for kind in self.kinds)
            for form in forms
        )
        return found is not self.negated


@attrs.frozen
class Assertion:
    r"""A place between characters: ``^``, ``$``, ``b`` or ``B``."""

    kind: str


@attrs.frozen
class Sequence:
    """All of *parts*, one after the other."""

    parts: "tuple[Node, ...]"


@attrs.frozen
class Choice:
    """One of *parts*."""

    parts: "tuple[Node, ...]"


@attrs.frozen
class Repeat:
    """*part*, from *low* to *high* times; None is for ever."""

    part: "Node"
    low: int
    high: int | None


Node = Characters | Assertion | Sequence | Choice | Repeat


@attrs.frozen
class Expression:
    """What was read: *node*, and whether it began with ``(?i)``."""

    node: Node
    ignore_case: bool


def is_kind(kind: str, character: str) -> bool:
    r"""Tell whether the class ``\kind`` has *character*.

    >>> is_kind("w", "_"), is_kind("d", "x"), is_kind("S", "x")
    (True, False, True)
    """
    match kind.lower():
        case "d":
            found = character.isdecimal()
        case "w":
            found = character.isalnum() or character == "_"
        case _:
            found = character.isspace()
    return found is kind.islower()


def read(text: str) -> Expression:
    r"""Read the expression *text*.  Raises BadExpression.

    >>> read(r"(?i)\d").node
    Sequence(parts=(Characters(ranges=(), kinds='d', negated=False),))
    >>> read(r"(a)\1")
    Traceback (most recent call last):
    elwood.features.files.regex.BadExpression: at 5: back-references are not supported
    """
    ignore_case = text.startswith("(?i)")
    reader = _Reader(text, 4 if ignore_case else 0)
    node = reader.choice(0)
    if reader.at < len(text):
        raise reader.bad("there is a ) too many; write \\) for the character")
    return Expression(node, ignore_case)


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def bad(self, why: str) -> BadExpression:
        return BadExpression(f"at {self.at}: {why}")

    def choice(self, nesting: int) -> Node:
        if nesting > MAX_NESTING:
            raise self.bad(f"groups are nested more than {MAX_NESTING} deep")
        parts = [self._sequence(nesting)]
        while self._took("|"):
            parts.append(self._sequence(nesting))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _took(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def _next(self) -> str:
        if self.at == len(self.text):
            raise self.bad("the expression ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _sequence(self, nesting: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated(self._one(nesting)))
        return Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        times = self._times()
        if times is None:
            return part
        low, high = times
        if isinstance(part, Assertion):
            raise self.bad("a place like ^ or \\b cannot be repeated")
        if low > MAX_TIMES or (high or 0) > MAX_TIMES:
            raise self.bad(f"nothing is repeated more than {MAX_TIMES} times")
        if high is not None and high < low:
            raise self.bad("the first number of {m,n} is the smaller one")
        if self._took("+"):
            raise self.bad("a + after a repetition is not supported")
        self._took("?")  # how much it takes changes nothing about where it is found
        if self._times() is not None:
            raise self.bad(
                "a repetition is repeated; put it in a group, or write a \\ before the sign"
            )
        return Repeat(part, low, high)

    def _times(self) -> tuple[int, int | None] | None:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._took(sign):
                return times
        found = _TIMES.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        if found[1] is not None:
            return int(found[1]), int(found[1])
        return int(found[2] or 0), int(found[3]) if found[3] else None

    def _one(self, nesting: int) -> Node:
        sign = self._next()
        match sign:
            case "(":
                return self._group(nesting)
            case "[":
                return self._class()
            case ".":
                return Characters((("\n", "\n"),), negated=True)
            case "^" | "$":
                return Assertion(sign)
            case "*" | "+" | "?":
                raise self.bad(f"there is nothing to repeat; write \\{sign} for the character")
            case "\\":
                return self._escaped()
            case _:
                return Characters(((sign, sign),))

    def _group(self, nesting: int) -> Node:
        if self._took("?") and not self._took(":"):
            named = re.compile(r"P<\w+>").match(self.text, self.at)
            if named is None:
                raise self.bad(
                    "look-around, and flags elsewhere than (?i) at the start, are refused"
                )
            self.at = named.end()
        node = self.choice(nesting + 1)
        if not self._took(")"):
            raise self.bad("a ) is missing; write \\( for the character")
        return node

    def _escaped(self) -> Node:
        sign = self.text[self.at : self.at + 1]
        if sign in ("b", "B", "A", "Z"):
            self.at += 1
            return Assertion({"A": "^", "Z": "$"}.get(sign, sign))
        if sign and sign in "dDwWsS":
            self.at += 1
            return Characters(kinds=sign)
        character = self._escaped_character()
        return Characters(((character, character),))

    def _escaped_character(self) -> str:
        sign = self._next()
        if sign in _CONTROL:
            return _CONTROL[sign]
        if sign in _HEX:
            digits = self.text[self.at : self.at + _HEX[sign]]
            if re.fullmatch(f"[0-9a-fA-F]{{{_HEX[sign]}}}", digits) is None:
                raise self.bad(f"\\{sign} needs {_HEX[sign]} hexadecimal digits")
            self.at += _HEX[sign]
            return chr(int(digits, 16))
        if sign.isdecimal():
            raise self.bad("back-references are not supported")
        if sign.isalpha():
            raise self.bad(f"\\{sign} is not known here")
        return sign

    def _class(self) -> Node:
        negated = self._took("^")
        ranges: list[tuple[str, str]] = []
        kinds = ""
        first = True
        while first or not self._took("]"):
            first = False
            if self.text.startswith("[:", self.at):
                raise self.bad("classes like [:space:] are not supported; write \\s, \\d or \\w")
            low = self._in_class()
            if len(low) == 2:
                kinds += low[1]
            elif self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                high = self._in_class()
                if len(high) == 2 or high < low:
                    raise self.bad("this is no range of characters")
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        return Characters(tuple(ranges), kinds, negated)

    def _in_class(self) -> str:
        r"""Read one character; a class like ``\d`` is returned with its back-slash."""
        sign = self._next()
        if sign != "\\":
            return sign
        if self.text[self.at : self.at + 1] in tuple("dDwWsS"):
            return f"\\{self._next()}"
        if self._took("b"):
            return "\b"
        return self._escaped_character()
