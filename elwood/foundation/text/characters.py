"""Characters as Telegram takes and counts them: what can be sent, and UTF-16 units."""

import re
from collections.abc import Sequence
from itertools import accumulate

# What Telegram replaces or drops by itself (tdlib clean_input_string), C1 and DEL, which steer
# terminals, and halves of surrogate pairs, which cannot be sent at all.
_UNCLEAN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")
_DROPPED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")


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

    >>> well_formed("\\ud83d\\ude00 \\ud83d") == "\\N{GRINNING FACE} \\ufffd"
    True
    """
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str, limit: int) -> str:
    """Cut *text* to one line of at most *limit* characters.

    >>> one_line("a\\nb   c", 4)
    'a b…'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"


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
