"""How many tokens a text has, roughly: no vendor publishes its tokenizer.

Within about a fifth of the truth for prose, code, logs and JSON; four characters a token would be
short by half for JSON and by two thirds for Chinese.  Keep a tenth of the window free.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from math import ceil

# What each kind of piece costs: tokens for the whole piece, and tokens per character.
_COSTS = {
    "blank": (0.0, 0.0),  # belongs to the word behind it
    "run": (0.0, 0.6),  # keys, hashes, base64: 1.5 to 1.8 characters a token
    "word": (1.0, 0.0),
    "long": (0.0, 1 / 7),
    "digits": (0.0, 1 / 3),
    "space": (0.6, 0.0),
    "wide": (0.0, 0.85),
    "letters": (0.0, 1 / 3.6),
    "mark": (0.0, 0.75),
    "symbol": (0.0, 1.5),
}
# No piece is long, so that `fit` can cut anywhere, near enough.
_PIECE = re.compile(
    r"(?P<blank> (?! ))"
    r"|(?P<run>[A-Za-z0-9]{24,64})"
    r"|(?P<word>[A-Za-z]{1,7}(?![A-Za-z]))"
    r"|(?P<long>[A-Za-z]{1,64})"
    r"|(?P<digits>[0-9]{1,64})"
    r"|(?P<space>\s{1,64})"
    r"|(?P<wide>[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]{1,64})"
    r"|(?P<letters>[^\W\d_]{1,64})"
    r"|(?P<mark>[\x00-\x7f])"
    r"|(?P<symbol>.)",
    re.DOTALL,
)

# A blank between words costs nothing, and no piece goes over it; nor over a single line break.
_BETWEEN = re.compile(r"(?<=\S)[ \n](?=\S)")
_BREAK = re.compile(r"(?<=\S)\n(?=\S)")
# Characters of a word, and words, whose cost is remembered: most words of a text come again, in it
# or in the next, and looking one up takes a fifth of the time.
SHORT, WORDS = 24, 8192
# Characters of a text, and texts, for the same: conversations begin with the same prompt and news.
REPEATED, TEXTS = 16_384, 128


def estimate(text: str) -> int:
    """Estimate the tokens of *text*, rounded up.

    >>> estimate(""), estimate("Hello, world!"), estimate("1234567")
    (0, 4, 3)
    >>> estimate("今天天气很好"), estimate("🎉🎉")
    (6, 3)
    """
    return _estimate_again(text) if len(text) <= REPEATED else _estimate_anew(text)


def _estimate_anew(text: str) -> int:
    breaks = _COSTS["space"][0] * len(_BREAK.findall(text))
    # Sums of thirds: what is whole in arithmetic must not be rounded up for a floating tail.
    return ceil(round(sum(map(_cost, _BETWEEN.split(text))) + breaks, 6))


_estimate_again = lru_cache(maxsize=TEXTS)(_estimate_anew)


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


def _cost(text: str) -> float:
    return _cost_again(text) if len(text) <= SHORT else _cost_anew(text)


def _cost_anew(text: str) -> float:
    return sum(cost for _, cost in _pieces(text))


_cost_again = lru_cache(maxsize=WORDS)(_cost_anew)


def _pieces(text: str) -> Iterator[tuple[int, float]]:
    for found in _PIECE.finditer(text):
        fixed, each = _COSTS[str(found.lastgroup)]
        yield found.start(), fixed + each * (found.end() - found.start()) if each else fixed
