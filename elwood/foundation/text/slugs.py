"""How notes are named; light, for the command line knows it too."""

import re

from elwood.foundation.text.words import words

# Safe as a file name anywhere.
KEY = r"^[a-z0-9][a-z0-9-]{0,63}$"


def slug(text: str) -> str:
    """Make a key of the first words of *text*; empty if it has none that a key can hold.

    >>> slug("My sister's birthday, in Köln"), slug("今天")
    ('my-sister-s-birthday-in-koln', '')
    """
    plain = (re.sub(r"[^a-z0-9]", "", word) for word in words(text[:1000]))
    return "-".join(word for word in plain if word)[:64].strip("-")
