"""What a conversation has taken in: content of strangers, and private data.

Labels only rise by themselves.  They fall by `/new`, and by the owner's endorsement of one named
source.
"""

import re
from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

# Sources kept by name; what comes beyond shares one name.
MAX_SOURCES = 50
MANY = "many sources"
# What came without saying from where.
UNKNOWN = "an unknown source"
# Names that stand for more than one source: an endorsement is of a single one.
NAMELESS = frozenset({MANY, UNKNOWN})
# Digits on each side of the point: more is no count, price or measure but a message.
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


class Label(msgspec.Struct, frozen=True):
    """*untrusted*: words of strangers may steer the model; *private*: it knows the owner's data.

    >>> Label(untrusted=True) | Label(private=True)
    Label(untrusted=True, private=True)
    >>> Label() <= Label(private=True), Label(private=True) <= Label(untrusted=True)
    (True, False)
    """

    untrusted: bool = False
    private: bool = False

    def __or__(self, other: "Label") -> "Label":
        return Label(self.untrusted or other.untrusted, self.private or other.private)

    def __le__(self, other: "Label") -> bool:
        return self | other == other


CLEAN = Label()
PRIVATE = Label(private=True)


class Taint(msgspec.Struct):
    """What a conversation was told so far, by source.  Changed in place by the session's fold."""

    sources: dict[str, None] = {}
    private: bool = False

    @property
    def label(self) -> Label:
        """The join of everything in the conversation."""
        return Label(bool(self.sources), self.private)

    def add(self, label: Label, origin: str) -> None:
        """Take content of *origin* in."""
        self.private = self.private or label.private
        if label.untrusted:
            room = origin in self.sources or len(self.sources) < MAX_SOURCES
            self.sources[(origin or UNKNOWN) if room else MANY] = None

    def endorse(self, origins: Iterable[str]) -> None:
        """The owner trusts what was read from *origins*."""
        for origin in origins:
            if origin not in NAMELESS:
                self.sources.pop(origin, None)


def typed_value(text: str, read: Label, allowed: Collection[str] = ()) -> Label:
    """Label what a reader without tools made of content that is labelled *read*.

    A number, a date, true, false or one of *allowed*, a list made before reading, is too narrow
    to steer anybody: it is not untrusted any more (TA-46).  Free text keeps the label (TA-47).
    What was private stays private either way.

    >>> strange = Label(untrusted=True)
    >>> typed_value("2026-11-22", strange), typed_value("spam", strange, ["spam", "work"])
    (Label(untrusted=False, private=False), Label(untrusted=False, private=False))
    >>> typed_value("12 apples", strange)
    Label(untrusted=True, private=False)
    """
    typed = text in ("true", "false") or text in allowed
    if typed or _NUMBER.fullmatch(text) or _is_date(text):
        return Label(private=read.private)
    return read


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
