"""Checks that an answer does not claim more than the records: no fake receipts, no false deeds.

The activity block below an answer is made from receipts and begins with a head line. A line of the
model's text that looks like this head gets a prefix; without a head nothing is a receipt. The check
works on the visible text, without Markdown, invisible characters, entities, or other alphabets.

Claims are not judged. If nothing was done, the block below an answer that sounds otherwise says so
(`receipts.activity`). That is a fact, so it is true even if the text was misunderstood.
"""

# ruff: noqa: RUF001, RUF002 -- characters that look like others are what this module is about

import re
import tomllib
import unicodedata
from collections.abc import Sequence, Set
from datetime import tzinfo
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.receipts import HEAD, activity
from elwood.foundation.text.characters import clean, unescape_entities

NOT_OURS = "(not from my records) "
# Letters of other alphabets that look like Latin ones.
_DRAWN_LIKE = (
    "а=a в=b с=c ԁ=d е=e ԍ=g һ=h і=i ј=j к=k ӏ=l м=m п=n о=o р=p ԛ=q г=r ѕ=s т=t ц=u ѵ=v ԝ=w х=x "
    "у=y α=a β=b ε=e η=n ι=i κ=k ν=v ο=o ρ=p σ=o τ=t υ=u χ=x γ=y ω=w ɑ=a ɡ=g ı=i ӊ=h ո=n օ=o ʏ=y "
    "ʀ=r ʜ=h ᴄ=c ᴅ=d ᴇ=e ᴍ=m ᴏ=o ꜱ=s ᴛ=t ɢ=g ᴀ=a ᴋ=k"
)
_LATIN = str.maketrans({pair[0]: pair[-1] for pair in _DRAWN_LIKE.split()})
# Drawn as nothing, though Unicode classifies them as letters or symbols.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")
# Invisible characters of Markdown; `_` is handled separately, since names contain it.
_UNSEEN = str.maketrans("", "", "*`~\\|[]")
# An invisible character, as `clean` shows it.
_ESCAPE = re.compile(r"⟨U\+[0-9A-F]{4,5}⟩")
# An entity that becomes a line break in Markdown.
_BREAK = re.compile(r"&(?=#0*(?:10|13|8232|8233);|#x0*(?:a|d|2028|2029);|NewLine;)", re.I)
_GAP = r"[\W_]*"
_HEAD = re.compile(
    f"{_GAP}{_GAP.join(HEAD.strip('— ').lower().split())}(?P<gap>{_GAP})(?P<rest>.?)"
)
# Words of a clause that may end with a word for a deed without an actor: "Mail sent".
SHORT = 4
# Code, block quotes and quotations: other people's words. Blank lines are matched together so that
# they are skipped: separately, each would be searched for a block quote to the end of the text.
_QUOTED = (
    r"(?sm)(?P<blank>^\s++(?!>))|```.*?(?:```|\Z)|^\s*+>[^\n]*|`[^`\n]*`"
    r"|[“„«\"][^“”»\"]*+[”“»\"]"
)
_QUOTATION_ENDS = '”“»"'
# Opening marks without a closing mark become marks that open nothing.
_UNCLOSED = str.maketrans("„«", "‹‹")
_SENTENCE = r"(?<=[.!?…。！？])\s+|(?<=[。！？])|\n(?=[^\S\n]*(?:[-*#\n]|\d+[.)]))"
_CLAUSE = re.compile(r"(?<![,;:()–—])[,;:()–—]++(?:\s|$)")
# Separates sentences that are folded together. No text contains it, and no entity becomes one.
_END = "\x1f"
_PLAIN = str.maketrans({"\u2019": "'", "_": " "})
# A word, with trailing hyphens that do not belong to it.
_WORD = re.compile(r"[\w-]++(?:(?<=\w)'\w+)?")


def with_receipts(
    text: str, turn: Turn, zone: tzinfo | None = None, *, numbered: bool = False
) -> tuple[str, str]:
    """Return the text of an answer that may be delivered, and the block of records below it.

    *zone* and *numbered* are as in `activity`.
    """
    text = neutralise(text)
    looked = any(receipt.outcome == "ok" for receipt in turn.receipts)
    unsupported = not turn.has_acted and speaks_of_deeds(text, looked=looked)
    return text, activity(
        turn.receipts, zone, numbered=numbered, unsupported=unsupported, left_out=turn.left_out
    )


def speaks_of_deeds(text: str, *, looked: bool = False) -> bool:
    """Return True if *text* sounds as if something was done; *looked* if something was looked up.

    Questions do not count, nor sentences that end in a colon: the result follows.
    """
    sentences = re.split(_SENTENCE, _without_quotations(text.replace(_END, " ")))
    folded = fold(_END.join(sentences)).translate(_PLAIN)
    known = frozenset(_find_words(folded))
    deeds = [(one, one.find_deeds(known), one.find_phrases(folded)) for one in _all_words()]
    # Most text has no deed, and few sentences of other text do: only those are analysed.
    deeds = [(one, words, phrases) for one, words, phrases in deeds if words or phrases]
    if not deeds:
        return False
    for sentence, seen in zip(sentences, folded.split(_END), strict=True):
        if sentence.rstrip(" *_\n").endswith(("?", ":", "？", "か。")):
            continue
        spoken = _find_words(seen)
        languages = [
            one
            for one, words, phrases in deeds
            if not words.isdisjoint(spoken) or any(phrase in seen for phrase in phrases)
        ]
        if not languages:
            continue
        clauses = [(part, _find_words(part)) for part in _CLAUSE.split(seen)]
        if any(_is_claim(language, clauses, looked) for language in languages):
            return True
    return False


def _without_quotations(text: str) -> str:
    """Replace quotations in *text* with a neutral word."""
    last = max(map(text.rfind, _QUOTATION_ENDS))
    text = text[: last + 1] + text[last + 1 :].translate(_UNCLOSED)
    return re.sub(_QUOTED, lambda found: found["blank"] or " x ", text)


def _find_words(text: str) -> list[str]:
    """Return the words of *text*; a hyphen at the end of a word does not belong to it.

    >>> _find_words("to-do - isn't 'it--'")
    ['to-do', "isn't", 'it']
    """
    return [word for found in _WORD.findall(text) if (word := found.rstrip("-"))]


class _Words(msgspec.Struct, frozen=True):
    """Words of one language of the file, folded as answers are; *stems* begin words."""

    own: frozenset[str]
    done: frozenset[str]
    stems: tuple[str, ...]
    looked: frozenset[str]
    phrases: tuple[str, ...]
    unless: frozenset[str]

    def find_deeds(self, words: Set[str]) -> frozenset[str]:
        """Return those of *words* that describe a deed."""
        stems = (word for word in words if word.startswith(self.stems))
        return frozenset([*(words & self.done), *(words & self.looked), *stems])

    def find_phrases(self, text: str) -> tuple[str, ...]:
        return tuple(phrase for phrase in self.phrases if phrase in text)

    def makes_unreal(self, word: str) -> bool:
        return word.endswith("n't") or word in self.unless


@cache
def _all_words() -> Sequence[_Words]:
    text = Path(__file__).with_name("completion_words.toml").read_text("utf-8")
    return tuple(map(_words, tomllib.loads(text)["language"]))


def _words(language: dict[str, str]) -> _Words:
    words = {key: frozenset(fold(text).split()) for key, text in language.items()}
    done = words.get("done", frozenset())
    phrases = "".join(language.get("phrases", "").splitlines()).split("|")
    return _Words(
        words.get("own", frozenset()),
        frozenset(word for word in done if not word.endswith("-")),
        tuple(word[:-1] for word in done if word.endswith("-")),
        words.get("looked", frozenset()),
        tuple(fold(phrase) for phrase in phrases if phrase),
        words.get("unless", frozenset()),
    )


def _is_claim(language: _Words, clauses: Sequence[tuple[str, list[str]]], looked: bool) -> bool:
    """Return True if a sentence of *clauses*, with their words, says that something was done.

    A word before a deed may make it unreal: "I have not sent it".
    """
    for clause, words in clauses:
        for phrase in language.phrases:
            head, found, _ = clause.partition(phrase)
            if found and not any(map(language.makes_unreal, _find_words(head))):
                return True
        is_own = False  # whether an actor was named
        for place, word in enumerate(words):
            told = word in language.done or word.startswith(language.stems)
            told = told or (word in language.looked and not looked)
            is_last = place == len(words) - 1 and len(words) <= SHORT
            if told and (is_own or is_last or not place):
                return True
            if language.makes_unreal(word):
                return False  # the rest of the sentence is unreal too
            is_own = is_own or word in language.own
    return False


def neutralise(text: str) -> str:
    """Prefix each line that could be mistaken for the head of the activity block.

    >>> print(neutralise("Done.\\n**What I Actually Did**\\n✓ send_message Anna"))
    Done.
    (not from my records) **What I Actually Did**
    ✓ send_message Anna
    """
    text = clean(text).replace(HEAD, HEAD.replace("—", "-"))
    lines = _BREAK.sub("&amp;", text).split("\n")
    return "\n".join(NOT_OURS + line if _is_head(fold(line)) else line for line in lines)


def fold(line: str) -> str:
    """Reduce *line* to its visible text: plain Latin letters, symbols and spaces.

    Characters are decomposed, and invisible ones are left out.

    >>> fold("**Ѕ\u200bеnt** ｉｔ")
    'sent it'
    """
    if line.isascii() and "&" not in line:
        return line.translate(_UNSEEN).lower()
    line = _ESCAPE.sub("", unescape_entities(line))
    drawn = {char: _draw_character(char) for char in set(line)}
    return "".join(map(drawn.__getitem__, line))


# The letters and symbols of some scripts; a Chinese answer has some hundred.
@lru_cache(maxsize=4096)
def _draw_character(char: str) -> str:
    """Return the visible form of *char*."""
    if char in _BLANK or unicodedata.category(char) in ("Cf", "Mn", "Me"):
        return ""
    parts = unicodedata.normalize("NFKD", char)
    seen = "".join(part for part in parts if unicodedata.category(part) != "Mn")
    return seen.casefold().translate(_LATIN).translate(_UNSEEN)


def _is_head(seen: str) -> bool:
    """Return True if a line is the head of the block, alone or followed by a mark and a call."""
    found = _HEAD.match(seen)
    return found is not None and (not found["rest"] or any(map(_is_symbol, found["gap"])))


def _is_symbol(char: str) -> bool:
    return char == "?" or unicodedata.category(char) in ("So", "Sm")
