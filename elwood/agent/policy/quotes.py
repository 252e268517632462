"""Whether a text carries private data out, word for word."""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# Characters in a row that two texts do not share by chance (TA-33).
LEAST = 12
# A longer text counts as a quotation unread: it has room for anything, and what is compared is
# held in memory (about 100 bytes a character).
MAX_TEXT = 100_000
# Categories of characters that are not compared: marks on letters, control, format, blanks.
_SILENT = frozenset({"Mn", "Me", "Cc", "Cf", "Zs", "Zl", "Zp"})


def quotes(text: str, private: Iterable[str], least: int = LEAST) -> bool:
    """Tell whether *text* has *least* characters in a row that one of *private* has too.

    Case, accents and blanks do not count, nor characters that show nothing, nor the width of
    letters.  Takes time in proportion to the length of all texts together.  What is spelled
    otherwise (in base64, with a dash between the letters) is not found.

    >>> quotes("price of  PARTNUMBER-77", ["the partnumber-77x is ours"])
    True
    >>> quotes("weather in Berlin", ["I live in Berlin"])
    False
    """
    if len(text) > MAX_TEXT:
        return True
    plain = _plain(text)
    if len(plain) > MAX_TEXT:
        return True
    grams = {plain[at : at + least] for at in range(len(plain) - least + 1)}
    if not grams:
        return False
    return any(_shares(_plain(known), grams, least) for known in private)


def _shares(known: str, grams: set[str], least: int) -> bool:
    return any(known[at : at + least] in grams for at in range(len(known) - least + 1))


def _plain(text: str) -> str:
    joined = "".join(text.split())
    if joined.isascii() and joined.isprintable():
        return joined.lower()
    return "".join(map(_letters, joined))


@lru_cache(maxsize=4096)  # characters that are in use at a time
def _letters(char: str) -> str:
    # One by one: normalizing a long text takes quadratic time if it is made of marks.
    parts = unicodedata.normalize("NFKD", char.casefold())
    plain = "".join(part for part in parts if unicodedata.category(part) not in _SILENT)
    return unicodedata.normalize("NFKC", plain).casefold()
