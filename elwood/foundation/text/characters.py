"""Single characters: which can be sent, how Telegram counts them, which are shown or escaped."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

# What Telegram replaces or drops by itself (tdlib clean_input_string), C1 and DEL, which steer
# terminals, and halves of surrogate pairs, which cannot be sent at all.
_UNCLEAN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")
_DROPPED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("([\ud800-\udbff][\udc00-\udfff])")
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")
# What a terminal acts on, and what turns the direction of writing or breaks lines unseen
# (CVE-2021-42574); a line break and a tab are harmless.
_COMMANDS = re.compile("([\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff])")


# Characters for one call into a regular expression or codec: no other thread runs meanwhile, 5 ms.
SLICE = 1 << 15
_NO_BLANK = re.compile(r"\S")


def slices(text: str, size: int = SLICE) -> Iterator[str]:
    """Part *text*, for calls that would hold up all threads; no run of blanks is cut.

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
    """Replace the matches of *pattern*, which is one group; equal matches are replaced alike.

    Three times as fast as `re.sub` where almost every character is to be replaced.

    >>> substitute(re.compile("([ab])"), str.upper, "abcab")
    'ABcAB'
    """
    pieces = pattern.split(text)
    replaced = {found: replace(found) for found in set(pieces[1::2])}
    pieces[1::2] = map(replaced.__getitem__, pieces[1::2])
    return "".join(pieces)


def clean(text: str) -> str:
    """Make *text* sendable: no control characters but newline and tab, no half characters.

    Direction overrides go too: Telegram drops them, and they disguise file names.

    >>> clean("a\\x00b\\r\\nc\\x1b[0m\\ud800")
    'ab\\nc[0m\ufffd'
    """
    if _UNCLEAN.search(text) is None:
        return text
    text = _DROPPED.sub("", _BREAKS.sub("\n", text))
    return well_formed(text)


def well_formed(text: str) -> str:
    """Join pairs of surrogates and replace lone ones by U+FFFD; UTF-16 offsets stay the same.

    No provider accepts them, and UTF-8 cannot carry them (LLM-33).

    >>> well_formed("\\ud83d\\ude00 \\ud83d") == "\\N{GRINNING FACE} \\ufffd"
    True
    """
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", substitute(_SURROGATE_PAIR, _joined, text))


def _joined(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def printable(text: str) -> str:
    """Write *text* so that it cannot command a terminal: what would is shown by its number.

    >>> printable("a\\tb\\x1b[2Jc\\x9b1m\\r\\n")
    'a\\tb⟨U+001B⟩[2Jc⟨U+009B⟩1m\\n'
    """
    return substitute(_COMMANDS, lambda char: _escape(char, 1), text.replace("\r\n", "\n"))


def printable_json(text: str) -> str:
    r"""Write *text*, which is JSON, so that it cannot command a terminal, and means the same.

    >>> printable_json('{"a": "\x9b1m"}')
    '{"a": "\\u009b1m"}'
    """
    return substitute(_COMMANDS, lambda char: f"\\u{ord(char):04x}", text)


def utf16_length(text: str) -> int:
    """Count UTF-16 code units, the unit of Telegram's limits and offsets.

    >>> utf16_length("a"), utf16_length("\\N{GRINNING FACE}")
    (1, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str) -> Sequence[int]:
    """Give for each index of *text*, and for its end, the offset in UTF-16 units.

    >>> list(utf16_offsets("a\\N{GRINNING FACE}b"))
    [0, 1, 3, 4]
    """
    if utf16_length(text) == len(text):
        return range(len(text) + 1)
    return list(accumulate((1 + (char > "\uffff") for char in text), initial=0))


# Equal blanks or line breaks in a row that are shown one by one; more could push what follows
# out of sight.
MAX_RUN = {" ": 20, "\t": 8, "\n": 3}
# Marks that one letter may carry; more can paint over their neighbours.
MAX_MARKS = 2
# Characters beyond ASCII that a remark lists.
MAX_LISTED = 10

# Line breaks and tabs keep the form of the text and are seen nevertheless.
_SIGNS = {"\n": "⏎\n", "\t": "⇥\t"}
_RESERVED = frozenset("⟨⟩⏎⇥")
# Categories that show nothing, or what nobody can know: control, format (bidi, zero-width, tags),
# private use, surrogates, unassigned, separators, marks around their letter.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs", "Me"})
# Fillers and joiners of other categories that show nothing: Default_Ignorable_Code_Point of
# Unicode, and the blank Braille pattern.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_REPEATED = re.compile(r"([^!-~])\1+")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0000, 0xE0FFF))


def escape_invisible(text: str) -> str:
    """Write *text* so that every character of it is seen, and nothing looks like something else.

    A character that shows nothing, or moves what stands around it, is written as ``⟨U+202E⟩``; the
    marks used for that are written so themselves when the text has them, so what is shown can be
    read back in one way only.  Takes time in proportion to the length of *text*.
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


def remark(text: str) -> str:
    """Name the characters beyond ASCII in *text*, which may look like others; "" if it has none."""
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
    """Show *run*, which is one character or more of them."""
    char, count = run[0], len(run)
    is_hidden, _ = _nature(char)
    if count > MAX_RUN.get(char, 1 if is_hidden else count):
        return _escape(char, count) + ("\n" if char == "\n" else "")
    return (_escape(char, 1) if is_hidden else _SIGNS.get(char, char)) * count


def _show_marks(run: str, marks: str) -> str:
    """Show the *marks* in *run*; the character in front of them, if any, carries a few."""
    before = run.rstrip(marks)
    carried = MAX_MARKS if before and before not in _SIGNS and not _nature(before)[0] else 0
    run = run[len(before) :]
    return run[:carried] + "".join(_escape(mark, 1) for mark in run[carried:])


# The letters and symbols of some scripts: most text has a few hundred.
@lru_cache(maxsize=4096)
def _nature(char: str) -> tuple[bool, bool]:
    """Return whether *char* shows nothing, or moves its neighbours; and whether it is a mark."""
    category = unicodedata.category(char)
    hidden = char != " " and char not in _SIGNS
    hidden = hidden and (
        category in _HIDDEN
        or char in _RESERVED
        or char in _BLANK
        or any(first <= ord(char) <= last for first, last in _SELECTORS)
    )
    return hidden, category in ("Mn", "Mc")


@lru_cache(maxsize=4096)
def _escape(char: str, count: int) -> str:
    return f"⟨U+{ord(char):04X}⟩" if count == 1 else f"⟨U+{ord(char):04X} {count} times⟩"


# What could begin a tag, with blanks wherever a lenient reader might pass over them.
_TAG = re.compile(r"<(?=\s*/?\s*\w)")


def wrap_untrusted(tag: str, text: str, about: str = "") -> str:
    """Write *text* between ``<tag about>`` and ``</tag>``; tags in it are written as entities.

    >>> print(wrap_untrusted("said", "a <- b </SAID> < c>", 'by="person"'))
    <said by="person">
    a <- b &lt;/SAID> &lt; c>
    </said>
    """
    inner = _TAG.sub("&lt;", clean(text)).strip()
    head = f"{tag} {about}".rstrip()
    return f"<{head}>\n{inner}\n</{tag}>"


# Python refuses a number of more than 4,300 digits; the greatest character has seven.
_ENDLESS = re.compile(r"&#[0-9]{1000,}+;?")


def unescape_entities(text: str) -> str:
    """Replace HTML entities with their characters; a number without end becomes U+FFFD.

    >>> unescape_entities("&lt;&#97;"), unescape_entities(f"&#{'1' * 5000};")
    ('<a', '\ufffd')
    """
    return html.unescape(_ENDLESS.sub("\ufffd", text))


# Of codes that people type, none taken for another: without 0 O 1 I L, and U for V.
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"


def normal_code(code: str) -> str:
    """Undo what people do to a code when they type it.

    >>> normal_code(" abcd-2345 ")
    'ABCD2345'
    """
    return "".join(c for c in code.upper() if c in CODE_ALPHABET)
