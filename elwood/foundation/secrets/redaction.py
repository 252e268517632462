"""Knows what a secret is and how to take secrets out of a text before anybody reads it.

Known values are found in every spelling in which they may stand in a text.
"""

import html
import json
import re
from base64 import b32encode, b64encode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NoReturn
from urllib.parse import quote, quote_plus

import attrs
import msgspec

from elwood.foundation.secrets.patterns import (
    FoundSecret,
    encoded_cores,
    in_context,
    private_keys,
    tokens,
)
from elwood.foundation.text.characters import substitute

MASK = "***"


@attrs.frozen(repr=False, str=False)
class Secret:
    """A text that must not be shown: prints as ``***`` however it is printed.

    Equal and hashed by value.  It cannot be pickled, so that it does not end up in a file or in
    another process by accident.

    >>> key = Secret("hunter2")
    >>> f"{key!r} {key} {key:>5}"
    '*** ***   ***'
    >>> key.reveal()
    'hunter2'
    """

    _value: str

    def reveal(self) -> str:
        """Return the text itself; only for handing it to the one it is meant for."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied; hand the object itself on")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return *text* with every one of *secrets*, and whatever looks like one, made ``***``.

    Known values are found in every usual spelling, also spread over lines or in colours; tokens
    and private keys by their form; passwords by what stands in front of them.  Takes time in
    proportion to the length of *text*.

    >>> redact("key=hunter2&q=1", [Secret("hunter2")])
    'key=***&q=1'
    """
    return Redactor(secrets)(text)


class Redactor:
    """Takes the secrets of one configuration out of texts; calling it is `redact`."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._known = known(tuple(secret.reveal() for secret in secrets))

    def __call__(self, text: str) -> str:
        return _masked(text, _find(text, self._known), len(text))

    def partial(self, text: str) -> str:
        """Return what may be shown now of *text*, which is still growing; what is shown only grows.

        Held back are the last word, as it may become a token (one in other letters than ours
        cannot); a secret at the end, as it may go on in the next line; and what may be the
        beginning of a known one.

        >>> Redactor().partial("The key is sk-an"), Redactor().partial("The key is a secret. ")
        ('The key is ', 'The key is a secret. ')
        """
        word = len(text)
        while word and "!" <= text[word - 1] <= "~":
            word -= 1
        cut = min(word, self._known.unfinished(text))
        settled = len(text[:cut].rstrip())
        found = _find(text, self._known)
        return _masked(text, found, min([cut, *(f.start for f in found if f.end >= settled)]))

    def reveals(self, text: str) -> bool:
        """Tell whether *text*, which is about to leave, holds a known secret in any spelling.

        A yes is a refusal: what asks for it to be sent is not to be trusted with the rest either.
        """
        return next(self._known.spans(text), None) is not None


def _find(text: str, values: "KnownSecrets") -> list[FoundSecret]:
    """Find all that there is in *text*, in order."""
    found = [FoundSecret(start, end, "secret") for start, end in values.spans(text)]
    found += [*tokens(text), *private_keys(text), *in_context(text)]
    return sorted(found, key=lambda one: (one.start, one.end))


def _masked(text: str, found: Iterable[FoundSecret], end: int) -> str:
    """Return *text[:end]* with what was *found* in it, in order, made ``***``."""
    pieces, done = [], 0
    for one in found:
        if not one.kind or one.end > end:
            continue
        if one.start >= done:
            pieces += [text[done : one.start], MASK]
        done = max(done, one.end)
    return "".join([*pieces, text[done:end]])


class Masked(msgspec.Struct, frozen=True):
    """The message holds a credential; *text* is the message without it."""

    text: str


class Credential(msgspec.Struct, frozen=True):
    """The message is a credential, of this *kind*, and nothing else."""

    kind: str


# Words that may stand on the same line as a credential, its name above all, before the line says
# something of its own: `export TOKEN=…`, `my key: …`.
_LABEL = 3
_LETTERS = re.compile(r"[^\W_]+")


def screen(text: str) -> Masked | Credential | None:
    """Tell whether somebody typed a credential, which belongs into a file and not into a chat.

    None if not.  Goes by form and surroundings only; known values are for `redact`.

    >>> screen("use the password=hunter2 there, please, and tell me")
    Masked(text='use the password=*** there, please, and tell me')
    >>> screen("DB_PASSWORD=hunter2")
    Credential(kind='password')
    """
    found = [one for one in _find(text, known(())) if one.kind]
    if not found:
        return None
    masked = _masked(text, found, len(text))
    lines = [line for line in masked.splitlines() if line.strip()]
    if all(MASK in line and len(_LETTERS.findall(line)) <= _LABEL for line in lines):
        return Credential(found[0].kind)
    return Masked(masked)


# --- known values ---------------------------------------------------------------------------------

# Known values shorter than this are not looked for: they would take harmless words with them.
SHORTEST = 4
# A spelling shorter than this is looked for as it stands only, not across blanks, and not at all
# in base64, base32 or backwards: it says too little to be told from a word.
SHORTEST_SPREAD = 8
# How many characters of a text may stand for one of a spelling: `%2525`, an escape for a colour,
# a line break with an indent now and then.  More is letters with gaps between them.
_SPREAD = 16
# Levels of escapes that are undone, one in the other.
_LEVELS = 3
# Characters of a spelling that are looked for first.
_HEAD = 8

# What may stand between the characters of a value without changing it for a reader: blanks,
# characters of no width, quotes, backslashes.
_NOISE = re.compile(r"""[\s"'`\\\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+""")
_COLOURS = re.compile(rf"\x1b(?:\[[0-9;?]{{0,32}}(?:[@-~]|\Z)|\Z)|{_NOISE.pattern}")
_NOISE_OF_ASCII = {number: None for number in range(128) if _NOISE.fullmatch(chr(number))}
_BACKSLASHED = re.compile(r"(\\{1,8}+(?:[nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}))")
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]{2}|&#?[A-Za-z0-9]{2,8};)")


class _View:
    """A text made from *source*, itself a view or the original, and where its pieces were.

    What *pattern* matches is replaced by what *replace* says, or dropped.
    """

    def __init__(
        self,
        source: "_View | str",
        pattern: re.Pattern[str],
        replace: Callable[[str], str] | None = None,
    ) -> None:
        self._source = source
        self._pattern = pattern
        self._replace = replace
        whole = self._under
        if replace is None and pattern is _NOISE and whole.isascii():
            self.text = whole.translate(_NOISE_OF_ASCII)  # the same, five times as fast
        elif replace is None:
            self.text = pattern.sub("", whole)
        else:
            self.text = substitute(pattern, replace, whole)

    @property
    def _under(self) -> str:
        return self._source if isinstance(self._source, str) else self._source.text

    @cached_property
    def _index(self) -> tuple[list[int], list[int]]:
        """For each character, where what it was made from begins and ends; made for a hit only."""
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for match in self._pattern.finditer(self._under):
            starts += range(done, match.start())
            ends += range(done + 1, match.start() + 1)
            done = match.end()
            made = len(self._replace(match[0])) if self._replace else 0
            starts += [match.start()] * made
            ends += [match.end()] * made
        starts += range(done, len(self._under))
        ends += range(done + 1, len(self._under) + 1)
        return starts, ends

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Say where in the original ``text[start:end]`` stands."""
        starts, ends = self._index
        span = starts[start], ends[end - 1]
        return span if isinstance(self._source, str) else self._source.origin(*span)


def _views(text: str) -> Iterator[_View]:
    """Show *text* as it reads, then with its escapes undone, a level at a time."""
    firsts = [_View(text, _NOISE)]
    if "\x1b" in text or "\\" in text:
        # As well, for in front of a value half a colour, or a backslash, would take its first
        # characters along.
        read = _View(text, _BACKSLASHED, _meant)
        firsts.append(_View(read, _COLOURS))
    for view in firsts:
        yield view
        for _ in range(_LEVELS):
            if not _ESCAPE.search(view.text):
                break
            view = _View(view, _ESCAPE, _unescaped)
            yield view


def _meant(escape: str) -> str:
    code = escape.lstrip("\\")
    return "\n" if len(code) == 1 else chr(int(code[1:], 16))


@lru_cache(maxsize=1024)  # a text of nothing else would take seconds
def _unescaped(escape: str) -> str:
    char = chr(int(escape[1:], 16)) if escape[0] == "%" else html.unescape(escape)
    return "" if _NOISE.fullmatch(char) else char


class KnownSecrets:
    """Finds *values* in texts.  Takes time in proportion to the length of a text."""

    def __init__(self, values: Iterable[str]) -> None:
        exact: set[str] = set()
        spread: set[str] = set()
        for value in values:
            for spelling in _spellings(value):
                shown = _NOISE.sub("", spelling)
                if len(shown) >= SHORTEST_SPREAD:
                    spread.add(shown)
                else:
                    exact.add(spelling)
        self._exact = _Words(exact)
        self._spread = _Words(spread)
        # Characters of a text in which a value may be spread out.
        self.reach = _SPREAD * max(map(len, exact | spread), default=0)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Give where values stand in *text*; the spans may overlap, and are in no order."""
        yield from self._exact.spans(text)
        if not self._spread:
            return
        for view in _views(text):
            for start, end in self._spread.spans(view.text):
                first, last = view.origin(start, end)
                if last - first <= _SPREAD * (end - start):
                    yield _with_backslashes(text, first), last

    def unfinished(self, text: str) -> int:
        """Say from where on *text* may be the beginning of a value; its length if it is none."""
        at = len(text)
        for view in _views(text[-self.reach :]) if self.reach else ():
            start = self._spread.unfinished(view.text)
            if start < len(view.text):
                first = view.origin(start, len(view.text))[0]
                at = min(at, _with_backslashes(text, max(0, len(text) - self.reach) + first))
        return at


def _with_backslashes(text: str, start: int) -> int:
    """Take the backslashes in front along, or an escape would be left in halves."""
    first = max(0, start - _SPREAD)
    while start > first and text[start - 1] == "\\":
        start -= 1
    return start


class _Words:
    """Finds any of many words, wherever they begin."""

    def __init__(self, words: Collection[str]) -> None:
        self._sorted = sorted(words)
        self._longest = max(map(len, self._sorted), default=0)
        self._heads: dict[str, list[str]] = {}
        head = ""
        for word in self._sorted:
            if not head or not word.startswith(head):
                head = word[:_HEAD]
            self._heads.setdefault(head, []).append(word)
        self._pattern = re.compile(_tree(list(self._heads))) if self._heads else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        at = 0
        while self._pattern and (match := self._pattern.search(text, at)):
            at = match.start() + 1
            for word in self._heads[match[0]]:
                if text.startswith(word, match.start()):
                    yield match.start(), match.start() + len(word)

    def unfinished(self, text: str) -> int:
        """Say where the first of the words begins that *text* ends within."""
        for start in range(max(0, len(text) - self._longest), len(text)):
            rest = text[start:]
            at = bisect_left(self._sorted, rest)
            if at < len(self._sorted) and self._sorted[at].startswith(rest):
                return start
        return len(text)


def _tree(words: Sequence[str]) -> str:
    """Write a pattern for sorted *words*, none the beginning of another, as a tree of letters."""
    if len(words) == 1:
        return re.escape(words[0])
    branches = (
        re.escape(first) + _tree([word[1:] for word in group])
        for first, group in groupby(words, key=lambda word: word[0])
    )
    return f"(?:{'|'.join(branches)})"


@lru_cache(maxsize=8)  # asked for each line of the log, about the same dozen of secrets
def known(values: tuple[str, ...]) -> KnownSecrets:
    return KnownSecrets(values)


def _spellings(value: str) -> Iterator[str]:
    """List the forms in which *value* may stand in a text."""
    if len(value) < SHORTEST:
        return
    encoded = value.encode("utf-8", "surrogatepass")
    yield value
    yield value.replace(" ", "+")
    yield encoded.decode("latin-1")  # what the bytes of escapes amount to
    for once in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        yield once[1:-1]
        yield json.dumps(once[1:-1])[1:-1]  # JSON inside of a JSON text
        yield once[1:-1].replace("/", "\\/")
    for quoted in (quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")):
        yield quoted
        yield re.sub("%..", lambda code: code[0].lower(), quoted)
    for case in "xX":
        digits = f"02{case}"
        yield "".join(format(byte, digits) for byte in encoded)
        yield "".join("x" + format(byte, digits) for byte in encoded)
        yield "".join("u" + format(ord(char), f"04{case}") for char in value)
    if len(value) >= SHORTEST_SPREAD:
        yield value[::-1]
    for encode, *sizes in ((b64encode, 3, 6), (urlsafe_b64encode, 3, 6), (b32encode, 5, 5)):
        cores = encoded_cores(encoded, encode, *sizes)
        yield from (core for core in cores if len(core) >= SHORTEST_SPREAD)
