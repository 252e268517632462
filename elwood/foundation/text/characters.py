"""Single characters: clean them, count them as Telegram does, show or escape them."""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

# Invisible characters that reorder text, or can hide words from people: bidirectional controls
# (CVE-2021-42574), zero-width spaces and joiners of words, tags, variation selectors by number.
_HIDING = "\u200b\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ef"
# Their uses in writing: flags of regions, word breaks of Thai, Lao, Burmese and Khmer, and variants
# of Chinese characters.
_WRITING = (
    "\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f"
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]\u200b"
    "|[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff][\U000e0100-\U000e01ef]"
)
_HIDDEN_TEXT = re.compile(f"({_WRITING}|[{_HIDING}])")
# Control characters of terminals and line breaks; a newline and a tab are harmless.  Lone
# surrogates cannot be sent.
_CONTROLS = "\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
_UNCLEAN = re.compile(f"[{_CONTROLS}{_HIDING}]")
_COMMANDS = re.compile(f"({_WRITING}|[{_CONTROLS}{_HIDING}])")
# Escape sequences of terminals, such as colours, and other control characters.
_DROPPED = re.compile("\x1b\\[[0-?]{0,32}[@-~]|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("([\ud800-\udbff][\udc00-\udfff])")
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")


# Characters per call of a regular expression or codec, which blocks all threads, for 5 ms.
SLICE = 1 << 15
_NO_BLANK = re.compile(r"\S")


def slices(text: str, size: int = SLICE) -> Iterator[str]:
    """Split *text* for calls that block all threads; runs of blanks stay whole.

    >>> list(slices("ab  cd", 3))
    ['ab  ', 'cd']
    """
    start = 0
    while start < len(text):
        found = _NO_BLANK.search(text, start + size)
        end = found.start() if found else len(text)
        yield text[start:end]
        start = end


def substitute(pattern: re.Pattern[str], replace: Callable[[str], str], text: str) -> str:
    """Replace the matches of *pattern*, which is one group; equal matches get equal replacements.

    Three times as fast as `re.sub` if almost every character is replaced.

    >>> substitute(re.compile("([ab])"), str.upper, "abcab")
    'ABcAB'
    """
    pieces = pattern.split(text)
    replaced = {found: replace(found) for found in set(pieces[1::2])}
    pieces[1::2] = map(replaced.__getitem__, pieces[1::2])
    return "".join(pieces)


def clean(text: str) -> str:
    """Remove control characters except newline and tab, and lone surrogates; show hidden text.

    >>> clean("a\\x00b\\r\\nc\\x1b[0m\\ud800\\u202e")
    'ab\\nc\ufffd⟨U+202E⟩'
    """
    if _UNCLEAN.search(text) is None:
        return text
    text = well_formed(_DROPPED.sub("", _BREAKS.sub("\n", text)))
    return substitute(_HIDDEN_TEXT, _escape_one, text)


def well_formed(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD; UTF-16 offsets stay the same.

    No provider accepts surrogates, and UTF-8 cannot encode them (LLM-33).

    >>> well_formed("\\ud83d\\ude00 \\ud83d") == "\\N{GRINNING FACE} \\ufffd"
    True
    """
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", substitute(_SURROGATE_PAIR, _join_pair, text))


def _join_pair(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def printable(text: str) -> str:
    """Escape terminal control characters, and hidden text, as their numbers.

    >>> printable("a\\tb\\x1b[2Jc\\x9b1m\\r\\n")
    'a\\tb⟨U+001B⟩[2Jc⟨U+009B⟩1m\\n'
    """
    return substitute(_COMMANDS, _escape_one, text.replace("\r\n", "\n"))


def printable_json(text: str) -> str:
    r"""Escape terminal control characters and hidden text in JSON, without changing its meaning.

    >>> printable_json('{"a": "\x9b1m"}')
    '{"a": "\\u009b1m"}'
    """
    return substitute(_COMMANDS, lambda found: json.dumps(found)[1:-1], text)


def utf16_length(text: str) -> int:
    """Count UTF-16 code units, the unit of Telegram's limits and offsets.

    >>> utf16_length("a"), utf16_length("\\N{GRINNING FACE}")
    (1, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str) -> Sequence[int]:
    """Return the UTF-16 offset of each index of *text*, and of its end.

    >>> list(utf16_offsets("a\\N{GRINNING FACE}b"))
    [0, 1, 3, 4]
    """
    if utf16_length(text) == len(text):
        return range(len(text) + 1)
    return list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


# Longest run of equal blanks or line breaks that is shown unchanged; a longer one could push text
# out of sight.
MAX_RUN = {" ": 20, "\t": 8, "\n": 3}
# Maximum combining marks on a letter; more can cover its neighbours.
MAX_MARKS = 2
# Maximum non-ASCII characters in a remark.
MAX_LISTED = 10

# Visible signs for line breaks and tabs, which keep the layout.
_SIGNS = {"\n": "⏎\n", "\t": "⇥\t"}
_RESERVED = frozenset("⟨⟩⏎⇥")
# Categories that are invisible or undefined: control, format (bidi, zero-width, tags), private use,
# surrogates, unassigned, separators, enclosing marks.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs", "Me"})
# Invisible fillers and joiners of other categories: Default_Ignorable_Code_Point of Unicode, and
# the blank Braille pattern.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_REPEATED = re.compile(r"([^!-~])\1+")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0000, 0xE0FFF))


def escape_invisible(text: str) -> str:
    """Make every character of *text* visible and unambiguous.

    A character that is invisible, or moves its neighbours, becomes ``⟨U+202E⟩``.  The brackets and
    signs used for that are also escaped, so the result is reversible.  Linear in the length of
    *text*.
    """
    if text.isascii() and text.isprintable() and " " * (MAX_RUN[" "] + 1) not in text:
        return text
    used = set(text)
    marks = "".join(char for char in used if _nature(char) == (False, True))
    shown = {char: _show_run(char) for char in used.difference(marks)}
    runs = re.compile(rf"[{marks}]+|([^!-~{marks}])\1+") if marks else _REPEATED
    pieces, done = list[str](), 0
    for found in runs.finditer(text):
        start, end = found.span()
        pieces += map(shown.__getitem__, text[done:start])
        is_marks = found[1] is None
        run = text[max(start - 1, 0) : end] if is_marks else found[0]
        if run not in shown:
            shown[run] = _show_marks(run, marks) if is_marks else _show_run(run)
        pieces.append(shown[run])
        done = end
    return "".join([*pieces, *map(shown.__getitem__, text[done:])])


def describe_unusual(text: str) -> str:
    """List the non-ASCII characters in *text*, which may look like others, or return ""."""
    found = dict.fromkeys(char for char in text if not char.isascii())
    if not found:
        return ""
    names = [
        f"{escape_invisible(char)} {unicodedata.name(char, 'unnamed')} (U+{ord(char):04X})"
        for char in list(found)[:MAX_LISTED]
    ]
    if len(found) > MAX_LISTED:
        names.append(f"and {len(found) - MAX_LISTED} more")
    return f"contains characters beyond ASCII: {', '.join(names)}"


def _show_run(run: str) -> str:
    """Show *run*, one or more of the same character."""
    char, count = run[0], len(run)
    is_hidden, _ = _nature(char)
    if count > MAX_RUN.get(char, 1 if is_hidden else count):
        return _escape(char, count) + ("\n" if char == "\n" else "")
    return (_escape(char, 1) if is_hidden else _SIGNS.get(char, char)) * count


def _show_marks(run: str, marks: str) -> str:
    """Show the *marks* in *run*; a few remain on the character before them, if any."""
    before = run.rstrip(marks)
    carried = MAX_MARKS if before and before not in _SIGNS and not _nature(before)[0] else 0
    run = run[len(before) :]
    return run[:carried] + "".join(_escape(mark, 1) for mark in run[carried:])


# The letters and symbols of some scripts: most text has a few hundred.
@lru_cache(maxsize=4096)
def _nature(char: str) -> tuple[bool, bool]:
    """Return whether *char* is invisible or moves its neighbours, and whether it is a mark."""
    category = unicodedata.category(char)
    hidden = char != " " and char not in _SIGNS
    hidden = hidden and (
        category in _HIDDEN
        or char in _RESERVED
        or char in _BLANK
        or any(first <= ord(char) <= last for first, last in _SELECTORS)
    )
    return hidden, category in ("Mn", "Mc")


def _escape_one(found: str) -> str:
    """Escape a character; *found* with several is a use in writing."""
    return found if len(found) > 1 else _escape(found, 1)


@lru_cache(maxsize=4096)
def _escape(char: str, count: int) -> str:
    return f"⟨U+{ord(char):04X}⟩" if count == 1 else f"⟨U+{ord(char):04X} {count} times⟩"


# The beginning of a possible tag, with blanks that a lenient reader might ignore.
_TAG = re.compile(r"<(?=\s*/?\s*\w)")


def wrap_untrusted(tag: str, text: str, about: str = "") -> str:
    """Wrap *text* in ``<tag about>`` and ``</tag>``, with tags inside escaped as entities.

    >>> print(wrap_untrusted("said", "a <- b </SAID> < c>", 'by="person"'))
    <said by="person">
    a <- b &lt;/SAID> &lt; c>
    </said>
    """
    inner = _TAG.sub("&lt;", clean(text)).strip()
    head = f"{tag} {about}".rstrip()
    return f"<{head}>\n{inner}\n</{tag}>"


# Python refuses numbers of more than 4,300 digits; the largest code point has seven.
_ENDLESS = re.compile(r"&#[0-9]{1000,}+;?")


def unescape_entities(text: str) -> str:
    """Replace HTML entities with their characters; an overlong number becomes U+FFFD.

    >>> unescape_entities("&lt;&#97;"), unescape_entities(f"&#{'1' * 5000};")
    ('<a', '\ufffd')
    """
    return html.unescape(_ENDLESS.sub("\ufffd", text))


# Characters of codes that people type, without similar ones: no 0 O 1 I L, nor U (like V).
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"


def normal_code(code: str) -> str:
    """Normalize a code typed by a person.

    >>> normal_code(" abcd-2345 ")
    'ABCD2345'
    """
    return "".join(c for c in code.upper() if c in CODE_ALPHABET)
