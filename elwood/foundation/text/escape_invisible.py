"""How the owner is shown what will run: all of it, and nothing that looks like something else.

What you see is what runs (AP-16).  A character that shows nothing, or moves what stands around
it, is written as ``⟨U+202E⟩``; the marks used for that are written so themselves when the text
has them, so what is shown can be read back in one way only.
"""

import unicodedata
from collections.abc import Iterator
from itertools import groupby

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
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0000, 0xE0FFF))


def escape_invisible(text: str) -> str:
    """Write *text* so that every character of it is seen; takes time in proportion to its length.

    >>> print(escape_invisible("ls\\u202e\\x1b[2K -l\\u200b\\nrm x"))
    ls⟨U+202E⟩⟨U+001B⟩[2K -l⟨U+200B⟩⏎
    rm x
    >>> escape_invisible("a" + " " * 300 + "; b"), escape_invisible("⏎")
    ('a⟨U+0020 300 times⟩; b', '⟨U+23CE⟩')
    """
    if text.isascii() and text.isprintable() and " " * (MAX_RUN[" "] + 1) not in text:
        return text
    return "".join(_pieces(text))


def remark(text: str) -> str:
    """Name the characters beyond ASCII in *text*, which may look like others; "" if it has none.

    >>> remark("ls -l")
    ''
    >>> remark("c\\u0430t")
    'contains characters beyond ASCII: \u0430 CYRILLIC SMALL LETTER A (U+0430)'
    """
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


def _pieces(text: str) -> Iterator[str]:
    marks = MAX_MARKS  # at the beginning there is no letter to carry one
    for char, run in groupby(text):
        count = sum(1 for _ in run)
        category = unicodedata.category(char)
        if category in ("Mn", "Mc") and not _is_hidden(char, category):
            for _ in range(count):
                marks += 1
                yield char if marks <= MAX_MARKS else _escape(char, 1)
            continue
        hidden = _is_hidden(char, category)
        marks = MAX_MARKS if hidden or char in _SIGNS else 0
        if count > MAX_RUN.get(char, 1 if hidden else count):
            yield _escape(char, count) + ("\n" if char == "\n" else "")
            continue
        shown = _escape(char, 1) if hidden else _SIGNS.get(char, char)
        for _ in range(count):
            yield shown


def _is_hidden(char: str, category: str) -> bool:
    if char == " " or char in _SIGNS:
        return False
    return (
        category in _HIDDEN
        or char in _RESERVED
        or char in _BLANK
        or any(first <= ord(char) <= last for first, last in _SELECTORS)
    )


def _escape(char: str, count: int) -> str:
    return f"⟨U+{ord(char):04X}⟩" if count == 1 else f"⟨U+{ord(char):04X} {count} times⟩"


def flatten(name: str, limit: int = 64) -> str:
    r"""Make a hostile name harmless to read: one line, nothing invisible, at most *limit* long.

    Control, format (bidirectional, zero-width) and private-use characters and lone surrogates
    become blanks, and the blanks are joined.

    >>> flatten("Ann\n\u202e  Owner\u200b")
    'Ann Owner'
    """
    shown = "".join(c if c.isprintable() and not _is_blank(c) else " " for c in name)
    return " ".join(shown.split())[:limit].strip()


def _is_blank(character: str) -> bool:
    # Printable for Python, invisible for people: Hangul fillers and the Braille blank.
    return character in "\u115f\u1160\u3164\uffa0\u2800"
