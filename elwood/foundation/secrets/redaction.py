"""Redact secrets in texts.

Known values are found in every common encoding.
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
    encode_cores,
    find_in_context,
    find_private_keys,
    find_tokens,
)
from elwood.foundation.text.characters import substitute

MASK = "***"


@attrs.frozen(repr=False, str=False)
class Secret:
    """A text that must not be shown; it always prints as ``***``.

    Equal and hashed by value.  It cannot be pickled, so that it does not reach a file or another
    process by accident.

    >>> key = Secret("hunter2")
    >>> f"{key!r} {key} {key:>5}"
    '*** ***   ***'
    >>> key.reveal()
    'hunter2'
    """

    _value: str

    def reveal(self) -> str:
        """Return the text; only to pass it to its intended recipient."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied; hand the object itself on")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Replace *secrets*, and everything that looks like a secret, with ``***``.

    Known values are found in every usual encoding, also across lines or colour codes; tokens and
    private keys by their format; passwords by their context.  Linear in the length of *text*.

    >>> redact("key=hunter2&q=1", [Secret("hunter2")])
    'key=***&q=1'
    """
    return Redactor(secrets)(text)


class Redactor:
    """Redact texts with the secrets of one configuration, as `redact` does."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self.add(secrets)

    def add(self, secrets: Iterable[Secret]) -> None:
        """Redact *secrets* too, from now on."""
        self._values += tuple(secret.reveal() for secret in secrets)
        self._known = collect_secrets(self._values)

    def __call__(self, text: str) -> str:
        return _mask(text, _find(text, self._known), len(text))

    def partial(self, text: str) -> str:
        """Redact a partial text.  Each result is a prefix of the next one.

        Held back are the last word if it is ASCII, because it may become a token; a secret at the
        end, because it may continue on the next line; and a possible beginning of a known secret.

        >>> Redactor().partial("The key is sk-an"), Redactor().partial("The key is a secret. ")
        ('The key is ', 'The key is a secret. ')
        """
        word = len(text)
        while word and "!" <= text[word - 1] <= "~":
            word -= 1
        cut = min(word, self._known.find_unfinished(text))
        settled = len(text[:cut].rstrip())
        found = _find(text, self._known)
        return _mask(text, found, min([cut, *(f.start for f in found if f.end >= settled)]))

    def reveals(self, text: str) -> bool:
        """Return True if the outgoing *text* contains a known secret in any encoding.

        The caller must then refuse the request: its author cannot be trusted with the rest either.
        """
        return next(self._known.spans(text), None) is not None


def _find(text: str, values: "KnownSecrets") -> list[FoundSecret]:
    """Find all secrets in *text*, in order."""
    found = [FoundSecret(start, end, "secret") for start, end in values.spans(text)]
    found += [*find_tokens(text), *find_private_keys(text), *find_in_context(text)]
    return sorted(found, key=lambda one: (one.start, one.end))


def _mask(text: str, found: Iterable[FoundSecret], end: int) -> str:
    """Return *text[:end]* with the sorted *found* secrets replaced by ``***``."""
    pieces, done = [], 0
    for one in found:
        if not one.kind or one.end > end:
            continue
        if one.start >= done:
            pieces += [text[done : one.start], MASK]
        done = max(done, one.end)
    return "".join([*pieces, text[done:end]])


class Masked(msgspec.Struct, frozen=True):
    """The message contains a credential; *text* is the message without it."""

    text: str


class Credential(msgspec.Struct, frozen=True):
    """The message is nothing but a credential of this *kind*."""

    kind: str


# Words on the line of a credential, mostly its name, that do not make it a message of its own:
# `export TOKEN=…`, `my key: …`.
_LABEL = 3
_LETTERS = re.compile(r"[^\W_]+")


def screen(text: str) -> Masked | Credential | None:
    """Detect a credential typed into a chat; return None if there is no credential.

    Only format and context count; `redact` handles known values.

    >>> screen("use the password=hunter2 there, please, and tell me")
    Masked(text='use the password=*** there, please, and tell me')
    >>> screen("DB_PASSWORD=hunter2")
    Credential(kind='password')
    """
    found = [one for one in _find(text, collect_secrets(())) if one.kind]
    if not found:
        return None
    masked = _mask(text, found, len(text))
    lines = [line for line in masked.splitlines() if line.strip()]
    if all(MASK in line and len(_LETTERS.findall(line)) <= _LABEL for line in lines):
        return Credential(found[0].kind)
    return Masked(masked)


# --- known values ---------------------------------------------------------------------------------

# Shorter known values are ignored: masking them would also hide harmless words.
SHORTEST = 4
# Shorter spellings match only literally, not across blanks, and not in base64, base32 or
# reversed: they would match ordinary words.
SHORTEST_SPREAD = 8
# Characters of a text per character of a spelling: `%2525`, a colour code, an occasional line
# break with indentation.  More means letters with gaps between them.
_SPREAD = 16
# Levels of nested escapes that are decoded.
_LEVELS = 3
# Characters of a spelling that are matched first.
_HEAD = 8

# Characters inside a value that do not change it for a reader: blanks, zero-width characters,
# quotes, backslashes.
_NOISE = re.compile(r"""[\s"'`\\\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+""")
_COLOURS = re.compile(rf"\x1b(?:\[[0-9;?]{{0,32}}(?:[@-~]|\Z)|\Z)|{_NOISE.pattern}")
_NOISE_OF_ASCII = {number: None for number in range(128) if _NOISE.fullmatch(chr(number))}
_BACKSLASHED = re.compile(r"(\\{1,8}+(?:[nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}))")
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]{2}|&#?[A-Za-z0-9]{2,8};)")


class _View:
    """A text derived from *source* (a view or the original) that knows the original positions.

    Matches of *pattern* are replaced by *replace*, or removed.
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
        whole = self._source_text
        if replace is None and pattern is _NOISE and whole.isascii():
            self.text = whole.translate(_NOISE_OF_ASCII)  # same result, five times as fast
        elif replace is None:
            self.text = pattern.sub("", whole)
        else:
            self.text = substitute(pattern, replace, whole)

    @property
    def _source_text(self) -> str:
        return self._source if isinstance(self._source, str) else self._source.text

    @cached_property
    def _index(self) -> tuple[list[int], list[int]]:
        """Start and end in the source of each character; computed for a hit only."""
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for match in self._pattern.finditer(self._source_text):
            starts += range(done, match.start())
            ends += range(done + 1, match.start() + 1)
            done = match.end()
            made = len(self._replace(match[0])) if self._replace else 0
            starts += [match.start()] * made
            ends += [match.end()] * made
        starts += range(done, len(self._source_text))
        ends += range(done + 1, len(self._source_text) + 1)
        return starts, ends

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of ``text[start:end]`` in the original."""
        starts, ends = self._index
        span = starts[start], ends[end - 1]
        return span if isinstance(self._source, str) else self._source.origin(*span)


def _views(text: str) -> Iterator[_View]:
    """Yield *text* without noise, then with escapes decoded, one more level at a time."""
    firsts = [_View(text, _NOISE)]
    if "\x1b" in text or "\\" in text:
        # An additional view, because half a colour code, or a backslash, in front of a value would
        # remove its first characters.
        decoded = _View(text, _BACKSLASHED, _decode_backslash)
        firsts.append(_View(decoded, _COLOURS))
    for view in firsts:
        yield view
        for _ in range(_LEVELS):
            if not _ESCAPE.search(view.text):
                break
            view = _View(view, _ESCAPE, _decode_escape)
            yield view


def _decode_backslash(escape: str) -> str:
    code = escape.lstrip("\\")
    return "\n" if len(code) == 1 else chr(int(code[1:], 16))


@lru_cache(maxsize=1024)  # without it a text made of escapes takes seconds
def _decode_escape(escape: str) -> str:
    char = chr(int(escape[1:], 16)) if escape[0] == "%" else html.unescape(escape)
    return "" if _NOISE.fullmatch(char) else char


class KnownSecrets:
    """Find *values* in texts, in time linear in the length of a text."""

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
        # Maximum characters of a text over which a value may be spread.
        self.reach = _SPREAD * max(map(len, exact | spread), default=0)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of values in *text*; they may overlap and are not sorted."""
        yield from self._exact.spans(text)
        if not self._spread:
            return
        for view in _views(text):
            for start, end in self._spread.spans(view.text):
                first, last = view.origin(start, end)
                if last - first <= _SPREAD * (end - start):
                    yield _include_backslashes(text, first), last

    def find_unfinished(self, text: str) -> int:
        """Return the index from which *text* may be the beginning of a value, or its length."""
        at = len(text)
        for view in _views(text[-self.reach :]) if self.reach else ():
            start = self._spread.find_unfinished(view.text)
            if start < len(view.text):
                first = view.origin(start, len(view.text))[0]
                at = min(at, _include_backslashes(text, max(0, len(text) - self.reach) + first))
        return at


def _include_backslashes(text: str, start: int) -> int:
    """Return the index of the backslashes before *start*; half an escape must not remain."""
    first = max(0, start - _SPREAD)
    while start > first and text[start - 1] == "\\":
        start -= 1
    return start


class _Words:
    """Find any of many words at any position."""

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

    def find_unfinished(self, text: str) -> int:
        """Return the start of an incomplete word at the end of *text*, or its length."""
        for start in range(max(0, len(text) - self._longest), len(text)):
            rest = text[start:]
            at = bisect_left(self._sorted, rest)
            if at < len(self._sorted) and self._sorted[at].startswith(rest):
                return start
        return len(text)


def _tree(words: Sequence[str]) -> str:
    """Build a trie pattern of sorted *words*; no word may be a prefix of another."""
    if len(words) == 1:
        return re.escape(words[0])
    branches = (
        re.escape(first) + _tree([word[1:] for word in group])
        for first, group in groupby(words, key=lambda word: word[0])
    )
    return f"(?:{'|'.join(branches)})"


@lru_cache(maxsize=8)  # each log line uses the same dozen secrets
def collect_secrets(values: tuple[str, ...]) -> KnownSecrets:
    return KnownSecrets(values)


def _spellings(value: str) -> Iterator[str]:
    """Yield the encodings in which *value* may appear in a text."""
    if len(value) < SHORTEST:
        return
    encoded = value.encode("utf-8", "surrogatepass")
    yield value
    yield value.replace(" ", "+")
    yield encoded.decode("latin-1")  # the result of decoding byte escapes
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
        cores = encode_cores(encoded, encode, *sizes)
        yield from (core for core in cores if len(core) >= SHORTEST_SPREAD)
