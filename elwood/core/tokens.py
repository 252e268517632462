"""How many tokens a text has, roughly: for when nobody counted."""

import re

# A word of up to seven letters is one token, longer ones more; a long unbroken run (base64) is
# half a token per character.  Measured against o200k: 0.9 to 1.2 of the truth (libraries §2.21).
_PIECES = re.compile(
    r"(?P<run>[A-Za-z0-9+/=_-]{40,})"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<wide>[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff])"
    r"|(?P<space>\s+)"
    r"|(?P<letters>[^\W\d_a-zA-Z]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)


def estimate(text: str) -> int:
    """Estimate the tokens of *text*; linear, about 0.3 µs per character.

    >>> estimate("The quick brown fox."), estimate("")
    (5, 0)
    """
    total = 0.0
    for match in _PIECES.finditer(text):
        length = match.end() - match.start()
        match match.lastgroup:
            case "word":
                total += max(1.0, length / 7)
            case "space":
                total += 0.0 if length == 1 else 0.6
            case "digits":
                total += max(1.0, length / 3)
            case "run":
                total += length / 2
            case "wide":
                total += 0.85
            case "letters":
                total += max(1.0, length / 3.6)
            case _:
                total += 0.75 if text[match.start()] < "\u2000" else 1.5
    return round(total)
