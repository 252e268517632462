"""Knows what a secret is and how to take secrets out of a text before anybody reads it."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NoReturn
from urllib.parse import quote, quote_plus

import attrs

MASK = "***"
# Known values shorter than this are not looked for: they would take harmless words with them.
SHORTEST = 4
# A base64 spelling shorter than this says too little about the value to be told from a word.
SHORTEST_BASE64 = 8

# Bounded quantifiers and fixed beginnings only: one unbounded `[a-z]*` is a denial of service
# (security.md §4).
_TOKENS = re.compile(
    r"""
    (?<![0-9]) [0-9]{6,12} (?: : | %3[Aa] ) [A-Za-z0-9_-]{34,64}      # Telegram bot token
    | (?<![A-Za-z0-9]) sk-ant- [A-Za-z0-9_-]{12,512}                  # Anthropic
    | (?<![A-Za-z0-9]) sk- (?= [A-Za-z_-]{0,64} [0-9] ) [A-Za-z0-9_-]{16,512}  # OpenAI and kin
    | (?<= [Bb]earer\ ) [A-Za-z0-9._~+/-]{16,4096} ={0,2}             # Authorization header
    """,
    re.VERBOSE,
)


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


def strip(text: str, secrets: Iterable[Secret]) -> str:
    """Return *text* with every one of *secrets*, and whatever looks like a token, made ``***``.

    Known values are found plain, URL-quoted, JSON-escaped and base64-encoded (alone or inside of
    a longer text).  Takes time in proportion to the length of *text*.

    >>> strip("key=hunter2&q=1", [Secret("hunter2")])
    'key=***&q=1'
    >>> strip("Authorization: Bearer abcdefghijklmnop", [])
    'Authorization: Bearer ***'
    """
    spans = [span for secret in secrets for span in _known(text, secret.reveal())]
    if spans:
        text = _mask(text, sorted(spans))
    return _TOKENS.sub(MASK, text)


def _known(text: str, value: str) -> Iterator[tuple[int, int]]:
    for spelling, period in _spellings(value):
        at = text.find(spelling)
        while at >= 0:
            yield at, at + len(spelling)
            # Copies of a text cannot begin closer together than its period, so none is missed
            # and a hostile text of overlapping copies costs no more than another.
            at = text.find(spelling, at + period)


def _mask(text: str, spans: list[tuple[int, int]]) -> str:
    pieces = []
    done = 0
    for start, end in spans:
        if start >= done:
            pieces += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*pieces, text[done:]])


@lru_cache(maxsize=64)  # asked for each line of the log; a house has a dozen secrets
def _spellings(value: str) -> tuple[tuple[str, int], ...]:
    """List the forms in which *value* may stand in a text, each with its period."""
    if len(value) < SHORTEST:
        return ()
    escaped = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    quoted = [quote(value, safe=""), quote(value), quote_plus(value)]
    found = {
        value,
        *escaped,
        *(json.dumps(once)[1:-1] for once in escaped),  # JSON inside of a JSON text
        escaped[0].replace("/", "\\/"),
        *quoted,
        *(re.sub("%..", lambda code: code[0].lower(), once) for once in quoted),
        *_base64_spellings(value.encode("utf-8", "surrogatepass")),
    }
    return tuple((spelling, _period(spelling)) for spelling in sorted(found))


def _period(text: str) -> int:
    return next(p for p in range(1, len(text) + 1) if text.startswith(text[p:]))


def _base64_spellings(value: bytes) -> Iterator[str]:
    for before in range(3):  # how many bytes of the last group stand before the value
        padded = bytes(before) + value
        first, last = -(-before * 8 // 6), len(padded) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            core = encode(padded).decode("ascii")[first:last]
            if len(core) >= SHORTEST_BASE64:
                yield core
