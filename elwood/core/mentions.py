"""Which web addresses a person names in a text."""

import re

# Addresses taken from one text; a longer list is not somebody naming a page.
MAX_ADDRESSES = 50
_URL = re.compile(r"(?<![A-Za-z0-9])https?://[^\s<>\"'`()\[\]{}|\\^]{1,2000}", re.IGNORECASE)
_HOST = re.compile(
    r"(?<![A-Za-z0-9@./_-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}(?![\w@-])",
    re.IGNORECASE,
)


def addresses(text: str) -> list[str]:
    """List the URLs in *text*, and the hosts that stand alone or in them, in lower case.

    >>> addresses("see https://Example.org/a?b=1, and news.example.com.")
    ['https://Example.org/a?b=1', 'example.org', 'news.example.com']
    """
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:!?")
        found[url] = None
        found[host_of(url)] = None
    for match in _HOST.finditer(_URL.sub(" ", text)):
        found[match[0].lower()] = None
    return list(found)[:MAX_ADDRESSES]


def host_of(url: str) -> str:
    """Return what stands for the host in *url*, in lower case.

    >>> host_of("https://Example.org:8080/a"), host_of("http://u@h.example?x")
    ('example.org', 'h.example')
    """
    rest = url.split("://", 1)[-1]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return authority.rsplit("@", 1)[-1].split(":")[0].lower()
