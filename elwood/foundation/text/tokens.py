"""How many tokens a text has, roughly: no vendor publishes its tokenizer (libraries.md §2.21).

Within about a fifth of the truth for prose, code, logs and JSON; four characters a token would be
short by half for JSON and by two thirds for Chinese.  Keep a tenth of the window free.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import ceil

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Message,
    Notice,
    Prompt,
    Results,
    Usage,
)

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
_BETWEEN = re.compile(r"(?<=\S) (?=\S)")
_BREAK = re.compile(r"(?<=\S)\n(?=\S)")
# Characters of a word, and words, whose cost is remembered: most words of a text come again, in it
# or in the next, and looking one up takes a fifth of the time.
SHORT, WORDS = 24, 4096
# The same of lines: what comes back of the days before is said in each conversation.
SHORT_LINE, LINES = 160, 1024


def estimate(text: str) -> int:
    """Estimate the tokens of *text*, rounded up.

    >>> estimate(""), estimate("Hello, world!"), estimate("1234567")
    (0, 4, 3)
    >>> estimate("今天天气很好"), estimate("🎉🎉")
    (6, 3)
    """
    lines = _BREAK.split(text)
    breaks = _COSTS["space"][0] * (len(lines) - 1)
    # Sums of thirds: what is whole in arithmetic must not be rounded up for a floating tail.
    return ceil(round(sum(map(_cost_of_line, lines)) + breaks, 6))


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


def _cost_of_line(text: str) -> float:
    return _cost_of_words(text) if len(text) > SHORT_LINE else _cost_of_line_again(text)


def _cost_of_words(text: str) -> float:
    return sum(map(_cost, _BETWEEN.split(text)))


_cost_of_line_again = lru_cache(maxsize=LINES)(_cost_of_words)


def _cost(text: str) -> float:
    return _cost_again(text) if len(text) <= SHORT else _cost_anew(text)


def _cost_anew(text: str) -> float:
    return sum(cost for _, cost in _pieces(text))


_cost_again = lru_cache(maxsize=WORDS)(_cost_anew)


def _pieces(text: str) -> Iterator[tuple[int, float]]:
    for found in _PIECE.finditer(text):
        fixed, each = _COSTS[str(found.lastgroup)]
        yield found.start(), fixed + each * (found.end() - found.start()) if each else fixed


def rough(prompt: Prompt, messages: Iterable[Message], said: str) -> Usage:
    """Guess the usage of a call that broke off, by characters only: cheap for any history.

    >>> rough(Prompt("x" * 30), (), "six chars")
    Usage(input=10, output=3, cache_read=0, cache_write=0, cache_write_1h=0, estimated=True)
    """
    size = len(prompt.system) + sum(len(bytes(t.schema)) + len(t.description) for t in prompt.tools)
    for message in messages:
        match message:
            case Human(text) | Notice(text):
                size += len(text)
            case Results(results):
                size += sum(len(result.text) for result in results)
            case Assistant():
                size += len(bytes(message.native))
    return Usage(size // 3, len(said) // 3, estimated=True)


def estimate_prompt(prompt: Prompt) -> int:
    """Estimate what stands before every message.

    >>> estimate_prompt(Prompt("Be good."))
    3
    """
    texts = [prompt.system]
    for tool in prompt.tools:
        texts += [tool.name, tool.description, bytes(tool.schema).decode()]
    return sum(map(_estimate_again, texts))


@lru_cache(maxsize=256)  # every conversation begins with the same prompt
def _estimate_again(text: str) -> int:
    return estimate(text)


# Estimated tokens from which a request says something about the ratio: what a service puts around
# each request is little then.
ENOUGH = 500
# The weight of the newest request: about the last ten count.
WEIGHT = 0.2
# What a tokenizer can be: beyond it, the service counts something else.
LEAST, MOST = 0.5, 3.0
# Models of one conversation that are remembered.
MAX_MODELS = 20


class Calibration(msgspec.Struct):
    """How many tokens each model counts for an estimated one; *model* answered last."""

    ratios: dict[str, float] = {}
    model: str = ""

    @property
    def ratio(self) -> float:
        """The ratio of the model that answered last: it is likely to be asked next."""
        return self.ratios.get(self.model, 1.0)

    def learn(self, model: str, estimated: int, usage: Usage) -> None:
        """Take into account what *model* counted for a request of *estimated* tokens.

        >>> calibration = Calibration()
        >>> calibration.learn("m", 1000, Usage(input=200, cache_read=1000))
        >>> calibration.learn("m", 1000, Usage(input=1400))
        >>> round(calibration.ratio, 2)
        1.24
        """
        self.model = model
        counted = usage.input + usage.cache_read + usage.cache_write
        if usage.estimated or not counted or estimated < ENOUGH:
            return
        seen = min(MOST, max(LEAST, counted / estimated))
        before = self.ratios.pop(model, seen)
        self.ratios[model] = before + WEIGHT * (seen - before)
        while len(self.ratios) > MAX_MODELS:
            del self.ratios[next(iter(self.ratios))]
