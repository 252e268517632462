"""Words as the memory compares them: without case, accents, punctuation, and what says nothing."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import filterfalse

from elwood.foundation.text.characters import slices

# Words of one search; more would only cost time.
MAX_WORDS = 20
# Letters from which on a word also finds those that begin with it: "cat" finds "cats", but "a"
# must not find half of everything.
PREFIX = 3
# Letters of a part of a compound, at least, and of a word that may be one, at most: more is none.
PART, LONGEST = 4, 40
# What words are declined by, in English, German and their like; four letters stay.
_ENDING = re.compile(r"(?<=.{4})(?:ings?|ies|es|ed|en|er|em|e|s|n)$")
# Joins the parts of a German compound.
_LINK = re.compile(r"(?<=.{4})s$")

# Scripts without blanks between words: each character counts as a word.
_WIDE = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = rf"[{_WIDE}]|[^\W_{_WIDE}]+"
# What divides sentences, quotes and lays out, and what nobody sees: it says nothing by itself.
_POINTS = (
    r".,;:!?'\"`()\[\]{}*~|\\^\-"
    "\u00a1\u00ab\u00b4\u00b7\u00bb\u00bf\u2010-\u2027\u2039\u203a\u3001\u3002\u3008-\u3011"
    "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f"
)
# A word with what joins its parts, and with a sign or a point before it: -5, .env, ann.lee, 1:30.
_PIECE = (
    rf"[{_WIDE}]"
    rf"|(?:(?<![^\W_])[.\-\u2013])?[^\W_{_WIDE}]+(?:[.,:;'_\-\u2010-\u2015]+[^\W_{_WIDE}]+)*"
    rf"|[^\w\s{_POINTS}]"
)
# Characters that are taken apart in one call.
_NORMALIZED = 512
# What begins a line of a list, a heading, or a quotation.
_LAYOUT = re.compile(r"^[ \t]*(?:[-+*>]|#{1,6})[ \t]+", re.MULTILINE)
# Say nothing by themselves, or belong to a question and not to what is asked about.
_FILLERS = frozenset((
    "a", "an", "the", "my", "is", "are", "that", "der", "die", "das", "den", "dem", "ein", "eine",
    "einen", "mein", "meine", "ist", "sind", "dass",
    "what", "when", "where", "which", "who", "whose", "whom", "how", "why", "do", "does", "did",
    "can", "could", "tell", "please", "about", "of", "on", "in", "at", "for", "to", "me", "i",
    "we", "us", "you", "know", "remember", "and", "or", "was", "were", "with", "wann", "wer", "wo",
    "welche", "welcher", "welches", "wie", "warum", "wieso", "kannst", "sag", "bitte", "von",
    "vom", "im", "am", "an", "auf", "zu", "mir", "ich", "wir", "du", "und", "oder", "hat", "habe",
))  # fmt: skip
# A set with wide characters takes 1 to 2 ms, so the first text that needs a pattern compiles it.
_compile = cache(re.compile)


def fold(text: str) -> str:
    """Take case, accents and other marks off *text*.

    >>> fold("Küche, GROẞ, café")
    'kuche, gross, cafe'
    """
    if text.isascii():
        return text.lower()
    # In short pieces: of many marks in a row it takes quadratic time, and they fall away.
    parts = slices(text.casefold(), _NORMALIZED)
    apart = "".join(unicodedata.normalize("NFKD", part) for part in parts)
    marks = {char for char in set(apart) if unicodedata.combining(char)}
    return "".join(filterfalse(marks.__contains__, apart)) if marks else apart


def words(text: str) -> list[str]:
    """List the words of *text*, folded, in order.

    >>> words("My sister's birthday: 4 May")
    ['my', 'sister', 's', 'birthday', '4', 'may']
    >>> words("snake_case 今天")
    ['snake', 'case', '今', '天']
    """
    return _compile(_WORD).findall(fold(text))


def pieces(text: str) -> list[str]:
    """List the words and symbols of *text*, in order: whatever tells one fact from another.

    >>> pieces("**mail** ann_lee@x.org, -5 €"), pieces("- c++ (or c)")
    (['mail', 'ann_lee', '@', 'x.org', '-5', '€'], ['c', '+', '+', 'or', 'c'])
    """
    return _compile(_PIECE).findall(_LAYOUT.sub("", text.replace("\u2019", "'")))


def asked(query: str) -> tuple[str, ...]:
    """Choose the words of *query* to search for, each once.

    >>> asked("When is my sister's birthday?")
    ('sister', 'birthday')
    >>> asked("who?")
    ('who',)
    """
    found = words(query)
    chosen = [word for word in found if not _says_nothing(word)] or found
    return tuple(dict.fromkeys(chosen))[:MAX_WORDS]


def expression(chosen: Sequence[str], least: int) -> str:
    """Write *chosen* as a query of SQLite's FTS5 for texts that have at least so many of them.

    *least* is all, all but one, or one.  Each word stands in quotes, so none of it is syntax.

    >>> expression(["sister", "4"], 2), expression(["near", 'a"b'], 1)
    ('"sister"* AND "4"', '"near"* OR "a""b"*')
    >>> expression(["a", "b", "c"], 2)
    '("b" AND "c") OR ("a" AND "c") OR ("a" AND "b")'
    """
    return _combined([_term(word) for word in chosen], least)


def widened(chosen: Sequence[str], least: int) -> str:
    """Write *chosen* as `expression` does, for texts that say them in other forms, too.

    A word is also found by its stem, inside of compounds (`parts`), and by both of its own parts.

    >>> widened(["books", "rad"], 2)
    '"book"* AND {key tags text} : "rad"*'
    >>> widened(["zahnarzt"], 1)
    '("zahnarzt"* OR ("zahn" AND ("arzt")))'
    """
    return _combined([_forms(word) for word in chosen], least)


def parts(found: Iterable[str]) -> list[str]:
    """List the ends of words that may be compounds, each once: "Zahnarzttermin" is one on "termin".

    >>> parts(["zahnarzt", "tea"])
    ['narzt', 'arzt']
    """
    long = dict.fromkeys(word for word in found if _may_be_compound(word))
    ends = (word[at:] for word in long for at in range(PREFIX, len(word) - PART + 1))
    return list(dict.fromkeys(ends))


def _may_be_compound(word: str) -> bool:
    return 2 * PART <= len(word) <= LONGEST and word.isalpha()


def _forms(word: str) -> str:
    stem = word if len(word) <= PART else _ENDING.sub("", word)
    # What is short is in every long word.
    term = _term(stem) if len(stem) >= PART else f"{{key tags text}} : {_term(stem)}"
    if not _may_be_compound(stem):
        return term
    # As whole words: what begins with either half is much, and takes long to put together.
    both = []
    for at in range(PART, len(stem) - PART + 1):
        # Each only once: of whatever stands here SQLite counts the texts that have it.
        ends = " OR ".join(dict.fromkeys([f'"{stem[at:]}"', f'"{word[at:]}"']))
        both.append(f'("{_LINK.sub("", stem[:at])}" AND ({ends}))')
    return f"({' OR '.join([term, *both])})"


def _term(word: str) -> str:
    return f'"{word.replace(chr(34), chr(34) * 2)}"{"*" if len(word) >= PREFIX else ""}'


def _combined(terms: list[str], least: int) -> str:
    if least == 1:
        return " OR ".join(terms)
    if least == len(terms):
        return " AND ".join(terms)
    without = ([*terms[:place], *terms[place + 1 :]] for place in range(len(terms)))
    return " OR ".join(f"({' AND '.join(rest)})" for rest in without)


def matches(word: str, other: str) -> bool:
    """Tell whether *word*, as searched for, finds *other*.

    >>> matches("sister", "sisters"), matches("a", "an"), matches("4", "4")
    (True, False, True)
    """
    return other.startswith(word) if len(word) >= PREFIX else other == word


def having(text: str, chosen: Sequence[str]) -> int:
    """Count the words of *chosen* that are in *text*.

    >>> having("My sisters like tea.", ["sister", "coffee"])
    1
    """
    there = set(words(text))
    return sum(word in there or any(matches(word, other) for other in there) for word in chosen)


def _says_nothing(word: str) -> bool:
    return word in _FILLERS or (len(word) == 1 and word.isascii() and word.isalpha())


# Safe as a file name anywhere.
KEY = r"^[a-z0-9][a-z0-9-]{0,63}$"


def slug(text: str) -> str:
    """Make a key of the first words of *text*; empty if it has none that a key can hold.

    >>> slug("My sister's birthday, in Köln"), slug("今天")
    ('my-sister-s-birthday-in-koln', '')
    """
    plain = (re.sub(r"[^a-z0-9]", "", word) for word in words(text[:1000]))
    return "-".join(word for word in plain if word)[:64].strip("-")
