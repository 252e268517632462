"""Estimate the tokens of a text, because no vendor publishes its tokenizer.

The error is about a fifth for prose, code, logs and JSON; four characters per token would be too
low by half for JSON and by two thirds for Chinese.  Keep a tenth of the window free.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

# Cost of each kind of piece: tokens for the whole piece, and tokens per character.
_COSTS = {
    "blank": (0.0, 0.0),  # part of the next word
    "run": (0.0, 0.6),  # keys, hashes, base64: 1.5 to 1.8 characters per token
    "word": (1.0, 0.0),
    "long": (0.0, 1 / 7),
    "digits": (0.0, 1 / 3),
    "space": (0.6, 0.0),
    "wide": (0.0, 0.85),
    "letters": (0.0, 1 / 3.6),
    "mark": (0.0, 0.75),
    "symbol": (0.0, 1.5),
}
_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
# Pieces are short, so that `fit` can cut almost anywhere.
_PIECE = (
    r"(?s)(?P<blank> (?! ))"
    r"|(?P<run>[A-Za-z0-9]{24,64})"
    r"|(?P<word>[A-Za-z]{1,7}(?![A-Za-z]))"
    r"|(?P<long>[A-Za-z]{1,64})"
    r"|(?P<digits>[0-9]{1,64})"
    r"|(?P<space>\s{1,64})"
    rf"|(?P<wide>[{_WIDE}]{{1,64}})"
    r"|(?P<letters>[^\W\d_]{1,64})"
    r"|(?P<mark>[\x00-\x7f])"
    r"|(?P<symbol>.)"
)

# The same kinds for `estimate`, which counts each with a few calls: a match for each piece takes
# ten times as long.
_LETTERS = rf"[^\W\d_\x00-\x7f{_WIDE}][^\W\d_]{{0,63}}"
_WIDES = f"[{_WIDE}]+"
_SPACES = re.compile(r"[^\S ]\s{0,63}|  \s{0,62}")
_FOREIGN_SPACES = re.compile(r"[^\S\x00-\x7f]+")
_RUNS = re.compile(r"[A-Za-z0-9]{24,64}")
_LONGS = re.compile(r"[A-Za-z]{8,}")
_ASCII = bytes(range(128)).decode()
_DIGITS = b"0123456789"
_NO_MARKS = "".join(re.findall(r"[A-Za-z0-9\s]", _ASCII)).encode()
_AS_WORDS = bytes.maketrans(
    _ASCII.encode(), "".join("a" if char.isalpha() else " " for char in _ASCII).encode()
)
# Costs are integers in units of 1/1260 token, so sums are exact.
_PARTS = 1260
# Number of cached estimates, and maximum characters of such a text: conversations begin with the
# same prompt and news.
TEXTS, REPEATED = 128, 16_384
# A set with wide characters takes 1 to 2 ms, so the first text that needs a pattern compiles it.
_compile = cache(re.compile)


def estimate(text: str) -> int:
    """Estimate the tokens of *text*, rounded up.

    >>> estimate(""), estimate("Hello, world!"), estimate("1234567")
    (0, 4, 3)
    >>> estimate("今天天气很好"), estimate("🎉🎉")
    (6, 3)
    """
    return _estimate_cached(text) if len(text) <= REPEATED else _estimate_uncached(text)


def _estimate_uncached(text: str) -> int:
    counts = _count_kinds(text)
    return -(-sum(round(sum(_COSTS[kind]) * _PARTS) * n for kind, n in counts.items()) // _PARTS)


_estimate_cached = lru_cache(maxsize=TEXTS)(_estimate_uncached)


def _count_kinds(text: str) -> dict[str, int]:
    """Return the number of words and spaces in *text*, and of characters of the other kinds."""
    foreign = separators = 0
    counts = {}
    if not text.isascii():
        text, counts["letters"], separators = _without(_compile(_LETTERS), text)
        foreign = len(text) - len(text.encode("ascii", "ignore"))
        counts["wide"] = len("".join(_compile(_WIDES).findall(text)))
        spaces = len("".join(_FOREIGN_SPACES.findall(text)))
        counts["symbol"] = foreign - counts["wide"] - spaces
    counts["space"] = len(_SPACES.findall(text))
    text, counts["run"], more = _without(_RUNS, text)
    data = text.encode("ascii", "replace")
    counts["digits"] = len(data) - len(data.translate(None, _DIGITS))
    # Separators and non-ASCII characters are marks now.
    counts["mark"] = len(data.translate(None, _NO_MARKS)) - foreign - separators - more
    longs = _LONGS.findall(text)
    counts["long"] = len("".join(longs))
    counts["word"] = (b" " + data.translate(_AS_WORDS)).count(b" a") - len(longs)
    return counts


def _without(pattern: re.Pattern[str], text: str) -> tuple[str, int, int]:
    """Replace the matches of *pattern* by marks; return their characters and number too."""
    others = pattern.split(text)
    return "_".join(others), len(text) - sum(map(len, others)), len(others) - 1


def fit(text: str, limit: float) -> str:
    """Cut *text* to its longest start of at most *limit* tokens, at a line break if there is one.

    >>> fit("one two\\nthree four", 10)
    'one two\\nthree four'
    >>> fit("one two\\nthree four", 4)
    'one two\\n'
    >>> fit("one two three", 2)
    'one two '
    """
    # No token is shorter than a byte, so most texts need no counting.
    if len(text.encode("utf-8", "surrogatepass")) <= limit:
        return text
    spent = 0.0
    for start, cost in _pieces(text):
        spent += cost
        if spent > limit:
            line = text.rfind("\n", 0, start) + 1
            return text[: line or start]
    return text


def _pieces(text: str) -> Iterator[tuple[int, float]]:
    for found in _compile(_PIECE).finditer(text):
        fixed, each = _COSTS[str(found.lastgroup)]
        yield found.start(), fixed + each * (found.end() - found.start()) if each else fixed
