"""The words that phrases are made of: politeness around them, paths, addresses, quotes."""

import re

_POLITE_START = re.compile(
    r"^(?:hey|hi|hello|ok|okay|so|now|and|then|elwood|please|"
    r"(?:can|could|would|will) you|i (?:want|would like|need) (?:you )?to|let me|let us|let's)"
    r"[ ,:;]+(?=\S)",
    re.I,
)
_POLITE_END = re.compile(r"[ ,]+(?:please|for me|thanks|thank you|now|elwood)$", re.I)
# Closing marks, but not the dots of a path that stands alone: "list the files in .".
_CLOSING = re.compile(r"(?<=[^\s./])(?! \.+$)[\s.,;:?!]+$")
_SHORT_IS = re.compile(r"^(what|who|where)(?:'s|s) ", re.I)
# A full stop behind a path closes the sentence.
_STOP = re.compile(r"(?<=[^./])\.+$")
_QUOTED = re.compile(
    r"(?:`(?P<q1>[^`]+)`|\"(?P<q2>[^\"]+)\"|'(?P<q3>[^']+)'|“(?P<q4>[^”]+)”)"
    r"(?:,? (?:please|for me|now))?[.!?]*",
    re.I,
)

# Something quoted, as a part of a longer pattern.
IN_QUOTES = r"(?:`[^`]+`|\"[^\"]+\"|'[^']+'|“[^”]+”)"
URL = r"<?(?P<url>https?://[^\s<>\"'`]+)>?"


def bare(line: str) -> str:
    """Take off white space, politeness and closing marks, which carry no meaning here.

    >>> bare("Could you  list the files, please?")
    'list the files'
    """
    words = re.sub(r"\s+", " ", line.replace("\u2019", "'")).strip()
    before = None
    while words != before and len(words) > 1:
        before = words
        words = _POLITE_START.sub("", _POLITE_END.sub("", _CLOSING.sub("", words)))
    return _SHORT_IS.sub(r"\1 is ", words)


def kept(line: str) -> str:
    """Take off politeness at the start only: of what follows every character may matter.

    >>> kept("please run  echo 'hi!'  ")
    "run  echo 'hi!'"
    """
    words, before = line.strip(), None
    while words != before:
        before, words = words, _POLITE_START.sub("", words)
    return words


def unquoted(text: str) -> str:
    """Take the quotes off, if all of *text* stands in them.

    >>> unquoted('`make test`, please.'), unquoted("'a' or 'b'")
    ('make test', "'a' or 'b'")
    """
    found = _QUOTED.fullmatch(text.strip())
    if found is None:
        return text.strip()
    return next(group for group in found.groups() if group)


def path(name: str = "p", *, is_file: bool = False) -> str:
    """Make the pattern of a path: quoted it may hold blanks, bare it may not.

    *name* begins the names of its groups.  With *is_file* a bare one has a dot or a slash in it,
    so that an ordinary word is none.
    """
    looks = r"(?=[^\s`\"',;:?!]*[./])" if is_file else ""
    return (
        rf"(?:`(?P<{name}1>[^`]+)`|\"(?P<{name}2>[^\"]+)\"|'(?P<{name}3>[^']+)'"
        rf"|(?P<{name}4>(?!(?:me|it|that|this|us)(?: |$)){looks}[^\s`\"',;:?!]+))"
    )


def path_in(found: re.Match[str], name: str = "p") -> str:
    """Return the path that *found* holds under *name*; empty if there is none."""
    groups = found.groupdict()
    quoted = next((groups[f"{name}{n}"] for n in (1, 2, 3) if groups.get(f"{name}{n}")), None)
    return quoted or _STOP.sub("", groups.get(f"{name}4") or "")


def url_in(found: re.Match[str]) -> str:
    """Return the address that *found* holds, without marks that close the sentence."""
    return found["url"].rstrip(".,;:!?")


def compiled(*rules: str) -> tuple[re.Pattern[str], ...]:
    """Compile rules, of which the first that fits wins."""
    return tuple(re.compile(rule, re.I | re.S) for rule in rules)


def first(rules: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    """Find the first rule that fits all of *text*."""
    return next((found for rule in rules if (found := rule.fullmatch(text))), None)
