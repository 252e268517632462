"""Tells whether an answer speaks of something done, so that the records can be put beside it.

Nothing is judged.  Where nothing was done, that is a fact, and it is told below an answer that
sounds otherwise (`receipts.activity`); so it is true also where the words were misunderstood.
"""

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.receipts import activity
from elwood.agent.session.turn.completion_words import LANGUAGES, Language
from elwood.agent.session.turn.imitation import fold, neutralise

# Words between who did something and the word for it at most, and words of a clause that may end
# with it: "Mail sent".
NEAR, SHORT = 6, 4
# Code, block quotes and quotations: somebody else's words.  Compiled at the first use.
_QUOTED = r"(?sm)```.*?(?:```|\Z)|^\s*>[^\n]*|`[^`\n]*`|[“„«\"][^“”»\"]*[”“»\"]"
_SENTENCE = r"(?<=[.!?…。！？])\s+|(?<=[。！？])|\n(?=\s*(?:[-*#\n]|\d+[.)]))"  # noqa: RUF001
_CLAUSE = re.compile(r"[,;:()–—]+(?:\s|$)")  # noqa: RUF001
_PLAIN = str.maketrans({"\u2019": "'", "_": " "})
_WORD = re.compile(r"[\w-]*\w(?:'\w+)?")


def with_receipts(text: str, turn: Turn) -> tuple[str, str]:
    """Return what may be delivered of an answer, and what the records say below it."""
    text = neutralise(text)
    looked = any(receipt.outcome == "ok" for receipt in turn.receipts)
    unsupported = not turn.has_acted and speaks_of_deeds(text, looked=looked)
    return text, activity(turn.receipts, unsupported=unsupported)


def speaks_of_deeds(text: str, *, looked: bool = False) -> bool:
    """Tell whether *text* sounds as if something was done; *looked* if something was looked up.

    A question does not, nor a sentence that ends in a colon: what was made follows.

    >>> speaks_of_deeds("I have sent the mail."), speaks_of_deeds("I have not sent it.")
    (True, False)
    >>> speaks_of_deeds("I checked it."), speaks_of_deeds("I checked it.", looked=True)
    (True, False)
    """
    for sentence in re.split(_SENTENCE, re.sub(_QUOTED, " x ", text)):
        if sentence.rstrip(" *_\n").endswith(("?", ":", "？", "か。")):  # noqa: RUF001
            continue
        seen = fold(sentence).translate(_PLAIN)
        words = set(_WORD.findall(seen))
        found = (language for language in _all_words() if language.occurs_in(seen, words))
        if any(_tells(language, _CLAUSE.split(seen), looked) for language in found):
            return True
    return False


class _Words(msgspec.Struct, frozen=True):
    """A `Language`, folded as answers are; *stems* are beginnings of words."""

    own: frozenset[str]
    done: frozenset[str]
    stems: tuple[str, ...]
    looked: frozenset[str]
    phrases: tuple[str, ...]
    unless: frozenset[str]

    def occurs_in(self, sentence: str, words: set[str]) -> bool:
        """Tell quickly whether a closer look is worth while."""
        return (
            not words.isdisjoint(self.done)
            or not words.isdisjoint(self.looked)
            or any(word.startswith(self.stems) for word in words)
            or any(phrase in sentence for phrase in self.phrases)
        )


@cache
def _all_words() -> Sequence[_Words]:
    return tuple(map(_words, LANGUAGES))


def _words(language: Language) -> _Words:
    done = fold(language.done).split()
    return _Words(
        frozenset(fold(language.own).split()),
        frozenset(word for word in done if not word.endswith("-")),
        tuple(word[:-1] for word in done if word.endswith("-")),
        frozenset(fold(language.looked).split()),
        tuple(fold(phrase) for phrase in language.phrases.split("|") if phrase),
        frozenset(fold(language.unless).split()),
    )


def _tells(language: _Words, clauses: Sequence[str], looked: bool) -> bool:
    """Tell whether a sentence of *clauses* says in *language* that something was done."""
    before: list[str] = []
    for clause in clauses:
        words = _WORD.findall(clause)
        for place, word in enumerate(words):
            near = words[max(0, place - NEAR) : place]
            is_last = place == len(words) - 1 and len(words) <= SHORT
            if place and not is_last and language.own.isdisjoint(near):
                continue
            told = word in language.done or word.startswith(language.stems)
            told = told or (word in language.looked and not looked)
            if told and not _is_unreal(language, [*before, *words[:place]]):
                return True
        for phrase in language.phrases:
            head, found, _ = clause.partition(phrase)
            if found and not _is_unreal(language, [*before, *_WORD.findall(head)]):
                return True
        before += words
    return False


def _is_unreal(language: _Words, before: Sequence[str]) -> bool:
    denied = any(word.endswith("n't") for word in before)
    return denied or not language.unless.isdisjoint(before)
