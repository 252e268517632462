"""Checks that an answer does not claim more than the records: no fake receipts, no false deeds.

The activity block below an answer is made from receipts and begins with a head line. A line of the
model's text that looks like this head gets a prefix; without a head nothing is a receipt. The check
works on the visible text, without Markdown, invisible characters, entities, or other alphabets.

A clause that sounds like an action is compared with the receipts: each tool declares what it does.
Without a receipt of that kind the block names the clause as not verified. That is a fact about the
records, so it is true even if the text was misunderstood.
"""

# ruff: noqa: RUF001, RUF002 -- characters that look like others are what this module is about

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import tzinfo
from functools import cache, lru_cache
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path

import msgspec

from elwood.agent.conversation.calls import DEEDS, Deed
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.receipts import HEAD, activity
from elwood.foundation.text.characters import clean, unescape_entities
from elwood.foundation.text.lines import one_line

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
# Words of a clause that may end with a word for a deed without an actor: "The mail is sent". Fewer
# in a part of a clause, and if the clause may report what was read: "Bob has paid".
SHORT, SHORTER = 4, 2
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
# A conjunction between two actions of one sentence, and the end of a clause.
_AND = r"(?:and|und|et|och|og|y|и|&)(?:\s(?:then|also|dann|auch))?(?=\s)"
_CLAUSE = re.compile(rf"(?<![,;:()–—])[,;:()–—]++(?:\s{_AND}|(?=\s|$))|\s({_AND})", re.I)
_NOTHING: Set[str] = frozenset()
# Markup around a clause, and the maximum of its characters in the block.
_AROUND = " \t\n*_#>[].!-✅"
MAX_QUOTED = 60
# Separates sentences that are folded together. No text contains it, and no entity becomes one.
_END = "\x1f"
_PLAIN = str.maketrans({"\u2019": "'", "_": " "})
# A word, with trailing hyphens that do not belong to it.
_WORD = re.compile(r"[\w-]++(?:(?<=\w)'\w+)?")


def with_receipts(
    text: str,
    turn: Turn,
    deeds: Callable[[str], Sequence[Deed]] = lambda tool: DEEDS,
    earlier: Sequence[CallEnded] = (),
    zone: tzinfo | None = None,
    *,
    numbered: bool = False,
) -> tuple[str, str]:
    """Return the text of an answer that may be delivered, and the block of records below it.

    *deeds* returns what a tool does; *earlier* are older receipts of the conversation. *zone* and
    *numbered* are as in `activity`.
    """
    text = neutralise(text)
    now, before = _kinds_of(turn.receipts, deeds), _kinds_of(earlier, deeds)
    has_read = any(receipt.looked for receipt in turn.receipts)
    unsupported = find_unsupported(text, now, before, has_read=has_read)
    if turn.bounds is not None and turn.bounds.tool:
        unsupported = []  # the text is the result of its only call
    return text, activity(
        turn.receipts, zone, numbered=numbered, unsupported=unsupported, left_out=turn.left_out
    )


def _kinds_of(
    receipts: Sequence[CallEnded], deeds: Callable[[str], Sequence[Deed]]
) -> frozenset[str]:
    """Return the keys of the lists of words that *receipts* support."""
    ok = [one for one in receipts if one.outcome == "ok"]
    does = [("read",) if one.looked else ("done", *deeds(one.tool)) for one in ok]
    return frozenset(chain(("looked",) * bool(ok), *does))


def find_unsupported(
    text: str, now: Set[str] = _NOTHING, earlier: Set[str] = _NOTHING, *, has_read: bool = False
) -> list[str]:
    """Return the clauses of *text* that claim an action without a record of its kind.

    *now* and *earlier* are the kinds of the records of the turn and of the conversation. Questions
    do not count, nor sentences that end in a colon: the result follows. If the turn *has_read*
    something, statements without the writer are reports of it.
    """
    sentences = re.split(_SENTENCE, _without_quotations(text.replace(_END, " ")))
    folded = fold(_END.join(sentences)).translate(_PLAIN)
    known = frozenset(_find_words(folded))
    # Most text has no deed, and few sentences of other text do: only those are analysed.
    languages = [one for one in _all_words() if one.has_deeds(known, folded)]
    found = dict[str, None]()
    for sentence, seen in zip(sentences, folded.split(_END) if languages else (), strict=False):
        if sentence.rstrip(" *_\n").endswith(("?", ":", "？", "か。")):
            continue
        spoken = frozenset(_find_words(seen))
        for language in languages:
            if language.has_deeds(spoken, seen):
                records = now | earlier if spoken & language.past else now
                clauses = _split_clauses(sentence)
                found |= dict.fromkeys(_find_claims(language, clauses, records, has_read))
    return list(found)


def _split_clauses(sentence: str) -> list[tuple[str, bool]]:
    """Return the clauses of *sentence*; True for one that a conjunction joins to the previous one.

    >>> _split_clauses("I wrote it, then sent it and left.")
    [('I wrote it', False), (' then sent it', False), (' left.', True)]
    """
    pieces = _CLAUSE.split(sentence)
    return list(zip(pieces[::2], [False, *map(bool, pieces[1::2])], strict=True))


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
    """Words of one language of the file, folded as answers are.

    *deeds*, *stems* (beginnings of words) and *phrases* have the kinds of records that support
    them.
    """

    own: frozenset[str]
    about: frozenset[str]
    past: frozenset[str]
    unless: frozenset[str]
    starts: tuple[str, ...]  # the stems
    deeds: Mapping[str, Set[str]]
    stems: Mapping[str, Set[str]]
    phrases: Mapping[str, Set[str]]

    def kinds_of(self, word: str) -> Set[str]:
        """Return the kinds of records that support *word*; none if it is not a deed."""
        if word in self.deeds or not word.startswith(self.starts):
            return self.deeds.get(word, frozenset())
        return next(kinds for stem, kinds in self.stems.items() if word.startswith(stem))

    def has_deeds(self, words: Set[str], text: str) -> bool:
        return any(map(self.kinds_of, words)) or any(phrase in text for phrase in self.phrases)

    def find_phrase(self, text: str) -> Set[str]:
        """Return the kinds of records that support the first phrase in *text*, if it is real."""
        found = [(text.find(phrase), kinds) for phrase, kinds in self.phrases.items()]
        found = [one for one in found if one[0] >= 0]
        at, kinds = min(found, key=itemgetter(0), default=(0, _NOTHING))
        return _NOTHING if any(map(self.makes_unreal, _find_words(text[:at]))) else kinds

    def makes_unreal(self, word: str) -> bool:
        return word.endswith("n't") or word in self.unless


@cache
def _all_words() -> Sequence[_Words]:
    text = Path(__file__).with_name("completion_words.toml").read_text("utf-8")
    return tuple(map(_words, tomllib.loads(text)["language"]))


def _words(language: dict[str, str]) -> _Words:
    own, about, past, unless = (
        frozenset(fold(language.pop(key, "")).split()) for key in ("own", "about", "past", "unless")
    )
    listed = {kind: text.split() for kind, text in language.items() if kind != "phrases"}
    phrases = "".join(language.get("phrases", "").splitlines()).split("|")
    listed.setdefault("done", []).extend(f"_{phrase}_" for phrase in phrases if phrase)
    words, stems, said = (dict[str, set[str]]() for _ in range(3))
    for kind, given in listed.items():
        for word in map(fold, given):
            place = said if "_" in word else stems if word.endswith("-") else words
            key = word.strip("_").rstrip("-").translate(_PLAIN)
            place.setdefault(key, set()).add(kind)
    return _Words(own, about, past, unless, tuple(stems), words, stems, said)


def _find_claims(
    language: _Words, clauses: Sequence[tuple[str, bool]], records: Set[str], has_read: bool
) -> Iterator[str]:
    """Yield those of the *clauses* of a sentence that claim an action without a record.

    A word before a deed may make it unreal: "I have not sent it".
    """
    names = language.own if has_read else language.own | language.about
    is_own = has_claim = False  # whether an actor was named; whether the sentence had a claim
    for (clause, joins), (_, continues) in pairwise([*clauses, ("", False)]):
        short = SHORTER if has_read or continues else SHORT
        seen = fold(clause).translate(_PLAIN)
        words = _find_words(seen)
        is_own = is_own and joins
        stands_alone = has_claim or is_own or not joins
        is_real = True
        claimed = [kinds] if (kinds := language.find_phrase(seen)) else []
        own = _NOTHING if claimed else names
        for place, word in enumerate(words):
            kinds = language.kinds_of(word)
            is_last = place == len(words) - 1 and len(words) <= short
            if kinds and (is_own or (stands_alone and (is_last or not place))):
                is_own = False
                claimed.append(kinds)
            if language.makes_unreal(word):
                is_real = False
                break
            is_own = is_own or word in own
        has_claim = has_claim or bool(claimed)
        if any(map(records.isdisjoint, claimed)):
            yield one_line(clause.strip(_AROUND), MAX_QUOTED)
        if not is_real:
            return  # the rest of the sentence is unreal too


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
