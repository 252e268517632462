"""Format values for a line, a cell or quotes: untrusted text, file names, durations."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from elwood.foundation.text.characters import substitute

# Printable for Python, invisible for people: Hangul fillers and the Braille blank.
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
# Direction marks that disguise a name (Trojan Source, CVE-2021-42574).
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSHOWABLE = re.compile(f"([\x00-\x1f\x7f-\x9f{_BIDI}\u2028\u2029\ud800-\udfff])")


def one_line(text: str, limit: int = 64) -> str:
    r"""Make *text* a single line without invisible characters, of at most *limit* characters.

    Control, format (bidirectional, zero-width) and private-use characters and lone surrogates
    become blanks, and runs of blanks become one.

    >>> one_line("Ann\n\u202e  Owner\u200b"), one_line("a\nb   c", 4)
    ('Ann Owner', 'a b…')
    """
    shown = "".join(c if c.isprintable() and c not in _BLANK else " " for c in text)
    flat = " ".join(shown.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"


def escape_name(name: str) -> str:
    r"""Escape a file name so that it can be shown and cannot mislead.

    >>> escape_name("Straße.txt")
    'Straße.txt'
    >>> escape_name("line\nbreak"), escape_name("\udcff.txt"), escape_name("gnp\u202eexe")
    ('line\\nbreak', '\\udcff.txt', 'gnp\\u202eexe')
    """
    return substitute(_UNSHOWABLE, lambda char: char.encode("unicode_escape").decode(), name)


def escape_names(names: Sequence[str], most: int = 10) -> str:
    """Format the first *most* of *names*, and the number of the others.

    >>> escape_names(["a", "b"]), escape_names(["a", "b", "c", "d"], 2)
    ('a, b', 'a, b and 2 more')
    """
    shown = ", ".join(map(escape_name, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def duration(seconds: float) -> str:
    """Format a duration, rounded down, in at most two units.

    >>> [duration(s) for s in (0.4, 119, 120, 7200, 11_520, 200_000)]
    ['0 s', '119 s', '2 min', '2 h', '3 h 12 min', '2 d 7 h']
    """
    minutes, hours, days = int(seconds) // 60, int(seconds) // 3600, int(seconds) // 86400
    if minutes < 2:
        return f"{max(0, int(seconds))} s"
    if hours < 2:
        return f"{minutes} min"
    if days < 2:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def ago(seconds: float) -> str:
    """Format the time since or until an event, in one unit.

    >>> ago(200), ago(200_000), ago(-11_520)
    ('3 min ago', '2 d ago', 'in 3 h')
    """
    text = " ".join(duration(abs(seconds)).split()[:2])
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def size_text(size: int) -> str:
    """Format a number of bytes.

    >>> size_text(999), size_text(1500), size_text(2_340_000), size_text(5 * 10**9)
    ('999 B', '1.5 kB', '2.3 MB', '5.0 GB')
    """
    if size < 1000:
        return f"{size} B"
    for unit in ("kB", "MB"):
        size_, size = size / 1000, size // 1000
        if size_ < 1000:
            return f"{size_:.1f} {unit}"
    return f"{size / 1000:.1f} GB"


def width(text: str) -> int:
    """Return the columns of *text* in a monospaced font.

    >>> width("abc"), width("漢字"), width("e\\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def clip(text: str, limit: int) -> str:
    """Shorten *text* to one line of at most *limit* columns.

    Characters that move the cursor, change the direction of writing or are invisible become a
    question mark, because errors quote untrusted text.

    >>> clip("a\\x1b[2Jb", 10), clip("abcdef", 4), clip("日本語", 4)
    ('a?[2Jb', 'abc…', '日…')
    """
    text = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
    if width(text) <= limit:
        return text
    return f"{text[: _find_fit(text, 0, limit - 1)]}…" if limit > 0 else ""


def wrap(text: str, limit: int) -> list[str]:
    """Break *text* between words, or within a long one, into lines of at most *limit* columns.

    >>> wrap("one two three", 8), wrap("日本語", 4)
    (['one two', 'three'], ['日本', '語'])
    """
    lines, start = [], 0
    while (end := _find_fit(text, start, limit)) < len(text):
        end = max(end, start + 1)
        if (space := text.rfind(" ", start, end + 1)) > start:
            end = space
        lines.append(text[start:end].rstrip(" "))
        start = end
        while text.startswith(" ", start):
            start += 1
    return [*lines, text[start:]]


def _find_fit(text: str, start: int, limit: int) -> int:
    """Return the index up to which *text*, from *start* on, fits into *limit* columns."""
    for end in range(start, len(text)):
        limit -= _columns(text[end])
        if limit < 0:
            return end
    return len(text)


# The letters and symbols of some scripts: most text has a few hundred.
@lru_cache(maxsize=4096)
def _columns(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


# --- quoting text in Markdown ---------------------------------------------------------------------

# Maximum characters of a quotation.
MAX_QUOTED = 500


def shorten(text: str, limit: int) -> str:
    """Shorten *text* to *limit* characters and an ellipsis."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def in_quotes(text: str) -> str:
    """Quote *text* in one short line; it cannot end the quotes."""
    plain = " ".join(text.translate(_IN_QUOTES).split())
    return f"“{literal(shorten(plain, MAX_QUOTED))}”"


_IN_QUOTES = str.maketrans("“”„«»`", '"""""\'')


def fence(text: str) -> str:
    """Put *text* in a fenced code block."""
    fence = fence_of(text)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def close_fence(text: str) -> str:
    r"""Close the fenced code block that *text* leaves open, if there is one.

    >>> close_fence("~~~\n```\n~~~"), close_fence("Run:\n```sh\nls")
    ('~~~\n```\n~~~', 'Run:\n```sh\nls\n```')
    """
    fence = ""
    for line in map(str.strip, text.splitlines()):
        rest = line.lstrip(line[:1])
        mark = line[: len(line) - len(rest)]
        if not fence and mark[:3] in ("```", "~~~"):
            fence = mark
        elif fence and not rest and mark.startswith(fence):
            fence = ""
    return f"{text}\n{fence}" if fence else text


def fence_of(text: str) -> str:
    """Return a fence that is longer than any in *text*."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


def code(path: str) -> str:
    """Format a path as code, or escape it if it contains a backquote."""
    return literal(path) if "`" in path else f"`{path}`"


def literal(text: str) -> str:
    """Escape *text* so that Markdown shows it literally."""
    return text.translate(_LITERAL)


_LITERAL = str.maketrans({char: f"\\{char}" for char in "\\`*_~[]<>|#&"})
