"""Normalize words for memory search: without case, accents, punctuation and filler words."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import filterfalse

from elwood.foundation.text.characters import slices

# Maximum words of a search; more would only cost time.
MAX_WORDS = 20
# Minimum letters of a word that also matches as a prefix: "cat" finds "cats", but "a" must not
# match most words.
PREFIX = 3
# Minimum letters of a part of a compound; maximum letters of a compound.
PART, LONGEST = 4, 40
# Inflection endings of English, German and similar languages; four letters stay.
_ENDING = re.compile(r"(?<=.{4})(?:ings?|ies|es|ed|en|er|em|e|s|n)$")
# Joins the parts of a German compound.
_LINK = re.compile(r"(?<=.{4})s$")

# Scripts without blanks between words: each character counts as a word.
_WIDE = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = rf"[{_WIDE}]|[^\W_{_WIDE}]+"
# Punctuation, quotes, layout and invisible characters, which have no meaning alone.
_POINTS = (
    r".,;:!?'\"`()\[\]{}*~|\\^\-"
    "\u00a1\u00ab\u00b4\u00b7\u00bb\u00bf\u2010-\u2027\u2039\u203a\u3001\u3002\u3008-\u3011"
    "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f"
)
# A word with inner separators, and with a sign or point before it: -5, .env, ann.lee, 1:30.
_PIECE = (
    rf"[{_WIDE}]"
    rf"|(?:(?<![^\W_])[.\-\u2013])?[^\W_{_WIDE}]+(?:[.,:;'_\-\u2010-\u2015]+[^\W_{_WIDE}]+)*"
    rf"|[^\w\s{_POINTS}]"
)
# Characters normalized per call.
_NORMALIZED = 512
# Marks of a list item, a heading, or a quotation.
_LAYOUT = re.compile(r"^[ \t]*(?:[-+*>]|#{1,6})[ \t]+", re.MULTILINE)
# Filler words without meaning, and words that form a question.
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
    """Remove case, accents and other marks from *text*.

    >>> fold("Küche, GROẞ, café")
    'kuche, gross, cafe'
    """
    if text.isascii():
        return text.lower()
    # In short pieces, because many marks in a row take quadratic time.
    parts = slices(text.casefold(), _NORMALIZED)
    apart = "".join(unicodedata.normalize("NFKD", part) for part in parts)
    marks = {char for char in set(apart) if unicodedata.combining(char)}
    return "".join(filterfalse(marks.__contains__, apart)) if marks else apart


def words(text: str) -> list[str]:
    """Return the words of *text*, folded, in order.

    >>> words("My sister's birthday: 4 May")
    ['my', 'sister', 's', 'birthday', '4', 'may']
    >>> words("snake_case 今天")
    ['snake', 'case', '今', '天']
    """
    return _compile(_WORD).findall(fold(text))


def pieces(text: str) -> list[str]:
    """Return the words and symbols of *text* that distinguish facts, in order.

    >>> pieces("**mail** ann_lee@x.org, -5 €"), pieces("- c++ (or c)")
    (['mail', 'ann_lee', '@', 'x.org', '-5', '€'], ['c', '+', '+', 'or', 'c'])
    """
    return _compile(_PIECE).findall(_LAYOUT.sub("", text.replace("\u2019", "'")))


def parse_query(query: str) -> tuple[str, ...]:
    """Return the search words of *query*, without duplicates.

    >>> parse_query("When is my sister's birthday?")
    ('sister', 'birthday')
    >>> parse_query("who?")
    ('who',)
    """
    found = words(query)
    chosen = [word for word in found if not _is_filler(word)] or found
    return tuple(dict.fromkeys(chosen))[:MAX_WORDS]


def expression(chosen: Sequence[str], least: int) -> str:
    """Build an FTS5 query of SQLite for texts with at least *least* of the words *chosen*.

    *least* is all, all but one, or one.  Words are quoted, so they cannot contain syntax.

    >>> expression(["sister", "4"], 2), expression(["near", 'a"b'], 1)
    ('"sister"* AND "4"', '"near"* OR "a""b"*')
    >>> expression(["a", "b", "c"], 2)
    '("b" AND "c") OR ("a" AND "c") OR ("a" AND "b")'
    """
    return _combine([_term(word) for word in chosen], least)


def widen_query(chosen: Sequence[str], least: int) -> str:
    """Build a query as `expression` does that also matches other forms of the words.

    A word also matches by its stem, inside compounds (`parts`), and by both of its own parts.

    >>> widen_query(["books", "rad"], 2)
    '"book"* AND {key tags text} : "rad"*'
    >>> widen_query(["zahnarzt"], 1)
    '("zahnarzt"* OR ("zahn" AND ("arzt")))'
    """
    return _combine([_forms(word) for word in chosen], least)


def parts(found: Iterable[str]) -> list[str]:
    """Return the ends of words that may be compounds: "Zahnarzttermin" ends with "termin".

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
    # A short stem is part of many words.
    term = _term(stem) if len(stem) >= PART else f"{{key tags text}} : {_term(stem)}"
    if not _may_be_compound(stem):
        return term
    # As whole words: prefix queries for both halves have many results, and are slow to combine.
    both = []
    for at in range(PART, len(stem) - PART + 1):
        # Each only once, because SQLite counts the texts for every term here.
        ends = " OR ".join(dict.fromkeys([f'"{stem[at:]}"', f'"{word[at:]}"']))
        both.append(f'("{_LINK.sub("", stem[:at])}" AND ({ends}))')
    return f"({' OR '.join([term, *both])})"


def _term(word: str) -> str:
    return f'"{word.replace(chr(34), chr(34) * 2)}"{"*" if len(word) >= PREFIX else ""}'


def _combine(terms: list[str], least: int) -> str:
    if least == 1:
        return " OR ".join(terms)
    if least == len(terms):
        return " AND ".join(terms)
    without = ([*terms[:place], *terms[place + 1 :]] for place in range(len(terms)))
    return " OR ".join(f"({' AND '.join(rest)})" for rest in without)


def matches(word: str, other: str) -> bool:
    """Return True if the search word *word* matches *other*.

    >>> matches("sister", "sisters"), matches("a", "an"), matches("4", "4")
    (True, False, True)
    """
    return other.startswith(word) if len(word) >= PREFIX else other == word


def count_words(text: str, chosen: Sequence[str]) -> int:
    """Count the words of *chosen* that are in *text*.

    >>> count_words("My sisters like tea.", ["sister", "coffee"])
    1
    """
    there = set(words(text))
    return sum(word in there or any(matches(word, other) for other in there) for word in chosen)


def _is_filler(word: str) -> bool:
    return word in _FILLERS or (len(word) == 1 and word.isascii() and word.isalpha())


# Safe as a file name anywhere.
KEY = r"^[a-z0-9][a-z0-9-]{0,63}$"


def slug(text: str) -> str:
    """Build a key from the first words of *text*; return "" if none of them fits into a key.

    >>> slug("My sister's birthday, in Köln"), slug("今天")
    ('my-sister-s-birthday-in-koln', '')
    """
    plain = (re.sub(r"[^a-z0-9]", "", word) for word in words(text[:1000]))
    return "-".join(word for word in plain if word)[:64].strip("-")
