"""What a conversation has taken in: content of strangers, and private data (security.md §5).

Labels only rise by themselves.  They fall by `/new`, and by the owner's endorsement of one named
source.
"""

from collections.abc import Iterable

import msgspec

# Sources kept by name; what comes beyond shares one name that cannot be endorsed.
MAX_SOURCES = 50
MANY = "many sources"


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
            self.sources[(origin or "unknown") if room else MANY] = None

    def endorse(self, origins: Iterable[str]) -> None:
        """The owner trusts what was read from *origins*."""
        for origin in origins:
            if origin != MANY:
                self.sources.pop(origin, None)
