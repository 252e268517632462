"""Labels of a conversation: content of strangers, and private data.

Labels are only added.  `/new` removes them, and the owner's endorsement of one named source.
"""

import re
from collections.abc import Iterable

import msgspec

from elwood.foundation.net.urls import Url, parse

# Maximum of sources kept by name; all others share one name.
MAX_SOURCES = 50
MANY = "many sources"
# Content without an origin.
UNKNOWN = "an unknown source"
# Names for more than one source, which cannot be endorsed.
NAMELESS = frozenset({MANY, UNKNOWN})


class Label(msgspec.Struct, frozen=True):
    """*untrusted*: strangers' words may steer the model; *private*: it knows the owner's data.

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
    """The labels of a conversation, by source.  Changed in place by the session's fold."""

    sources: dict[str, None] = {}
    private: bool = False

    @property
    def label(self) -> Label:
        return Label(bool(self.sources), self.private)

    def add(self, label: Label, origin: str) -> None:
        self.private = self.private or label.private
        if label.untrusted:
            room = origin in self.sources or len(self.sources) < MAX_SOURCES
            self.sources[(origin or UNKNOWN) if room else MANY] = None

    def endorse(self, origins: Iterable[str]) -> None:
        for origin in origins:
            if origin not in NAMELESS:
                self.sources.pop(origin, None)


# Maximum of addresses from one text: in a longer list the author does not name a page.
MAX_ADDRESSES = 50
# Maximum of addresses that are kept of one conversation.
MAX_NAMED = 200
# Compiled at the first use.
_URL = r"(?i)(?<![A-Za-z0-9])https?://[^\s<>\"'`()\[\]{}|\\^]{1,2000}"
_HOST = (
    r"(?i)(?<![A-Za-z0-9@./_-])"
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}(?![\w@-])"
)


def addresses(text: str) -> list[str]:
    """Return the URLs in *text*, in the form in which they are fetched, and the hosts in it.

    >>> addresses("see HTTPS://Example.org:443/a?B=1#top, and news.example.com.")
    ['https://example.org/a?B=1', 'example.org', 'news.example.com']
    >>> addresses("https://bücher.example/ä")
    ['https://xn--bcher-kva.example/%C3%A4', 'xn--bcher-kva.example']
    """
    found: dict[str, None] = {}
    for link in dict.fromkeys(re.findall(_URL, text)):
        url = parse(link.rstrip(".,;:!?"), ports=range(1, 65_536))
        if isinstance(url, Url):
            found |= {url.text: None, url.host: None}
    for match in re.finditer(_HOST, re.sub(_URL, " ", text)):
        found[match[0].lower()] = None
    return list(found)[:MAX_ADDRESSES]


def remember(named: dict[str, None], text: str) -> None:
    """Add the addresses in *text* to *named* in place; the oldest are removed first."""
    named.update(dict.fromkeys(addresses(text)))
    while len(named) > MAX_NAMED:
        del named[next(iter(named))]
