"""Find text that an outgoing search or address shares with known text, and so would leak.

All functions take time proportional to the length of their texts.
"""

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterator
from itertools import filterfalse
from urllib.parse import unquote

from elwood.foundation.text.words import fold

# Number of consecutive characters that two texts do not share by chance (TA-33).
LEAST = 12
# Maximum characters of an outgoing text, and of its readings: each takes about 250 bytes of memory
# during the comparison.  A longer text can contain anything.
MAX_TEXT = 10_000
MAX_READINGS = 8 * MAX_TEXT
# Each run of LEAST characters has one part of KEY characters that begins at a multiple of STEP.
KEY = 7
STEP = LEAST - KEY + 1
# Letters of the longest usual words.  A single word reveals little: "documentation" in an address.
LONGEST_WORD = 20
# Categories of characters that are not compared: marks on letters, control, format, blanks.
_SILENT = frozenset({"Mn", "Me", "Cc", "Cf", "Zs", "Zl", "Zp"})
_LONG_WORD = re.compile(rf"(?<![^\W_])[^\W\d_]{{{LEAST},{LONGEST_WORD}}}(?![^\W_])")
_ORIGIN = re.compile(r"(?i)https?://([^\s/?#]*)")
# Characters used as blanks in addresses.
_BETWEEN = re.compile(r"[-_+./&=?,:;~|]+")
# Encodings of at least LEAST characters.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_HEX = re.compile(rf"[0-9A-Fa-f]{{{2 * LEAST},}}")


class OutgoingText:
    """The runs of `LEAST` characters in the readings of *text*, which would be sent."""

    def __init__(self, text: str) -> None:
        found, size = list[str](), 0
        for reading in _readings(text) if len(text) <= MAX_TEXT else ():
            found.append(plain := _plain(reading))
            size += len(plain)
            if size > MAX_READINGS:
                break
        self.is_too_long = len(text) > MAX_TEXT or size > MAX_READINGS
        if self.is_too_long:
            found.clear()
        self.runs = frozenset(run for text in found for run in _runs(text))
        self._keys = {run[at : at + KEY] for run in self.runs for at in range(STEP)}

    def find_shared_runs(self, known: str) -> set[str]:
        """Return the runs that are also in *known*.

        Case, accents, blanks, the width of letters and invisible characters are ignored.

        >>> sorted(OutgoingText("price of  PARTNUMBER-77").find_shared_runs("the partnumber-77x"))
        ['artnumber-77', 'partnumber-7']
        >>> OutgoingText("weather in Berlin").find_shared_runs("I live in Berlin")
        set()
        """
        text, keys, runs = _plain(known), self._keys, self.runs
        return {
            run
            for at in range(0, len(text) - KEY + 1, STEP)
            if text[at : at + KEY] in keys
            for start in range(max(0, at - STEP + 1), at + 1)
            if (run := text[start : start + LEAST]) in runs
        }


def runs_of_words(text: str) -> set[str]:
    """Return the runs of `LEAST` characters inside one usual word of *text*.

    >>> sorted(runs_of_words("the documentation of x"))
    ['documentatio', 'ocumentation']
    """
    return {run for word in _LONG_WORD.findall(text) for run in _runs(_plain(word))}


def without_origins(text: str) -> str:
    """Return *text* with only those parts of its addresses that their sender can choose.

    The last two labels of a host belong to the owner of the name.

    >>> without_origins("see https://a.b.example.org/c?d and http://example.org:81/e")
    'see a.b /c?d and  /e'
    """
    return _ORIGIN.sub(lambda found: ".".join(found[1].split(".")[:-2]) + " ", text)


def _readings(text: str) -> Iterator[str]:
    """Yield the possible readings of *text*: raw, and with escapes, base64 and hex decoded."""
    yield text
    plain = unquote(unquote(text))
    yield plain
    yield _BETWEEN.sub(" ", plain)
    for run in _BASE64.findall(plain):
        run = run.replace("-", "+").replace("_", "/")
        for at in range(4):  # letters of the same alphabet may precede it
            whole = run[at : len(run) - (len(run) - at) % 4]
            yield b64decode(whole).decode(errors="ignore")
    for run in _HEX.findall(plain):
        for at in range(2):
            whole = run[at : len(run) - (len(run) - at) % 2]
            yield bytes.fromhex(whole).decode(errors="ignore")


def _runs(text: str) -> Iterator[str]:
    return (text[at : at + LEAST] for at in range(len(text) - LEAST + 1))


def _plain(text: str) -> str:
    joined = "".join(text.split())
    if joined.isascii() and joined.isprintable():
        return joined.lower()
    folded = fold(joined)
    silent = {char for char in set(folded) if unicodedata.category(char) in _SILENT}
    plain = "".join(filterfalse(silent.__contains__, folded)) if silent else folded
    return unicodedata.normalize("NFC", plain).casefold()
