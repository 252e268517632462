"""Which link targets Telegram takes as the hidden address of a text, and how others are shown."""

import re
from urllib.parse import quote

# Longest address that is hidden behind text, and the most that is shown of any other target, in
# characters: reference links repeat their target, so an unbounded one would multiply the text.
MAX_TARGET = 2048

# What tdlib's LinkManager::check_link accepts, less what we do not want hidden: it answers
# 400 for a host without a dot (localhost) or with odd characters, so those are never entities;
# user:password@ disguises the host.
_WEB = re.compile(
    r"https?://[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\.?(?::(?P<port>[0-9]{1,5}))?(?:[/?#]\S*)?",
    re.IGNORECASE,
)
# tg://user names an account the bot may not know: "User not found" would cost the whole message.
_TELEGRAM = re.compile(r"tg://(?!user\b)[a-z0-9_-]+(?:[/?]\S*)?", re.IGNORECASE)
# What RFC 3986 reserves, and what is quoted already.
_NOT_QUOTED = ":/?#[]@!$&'()*+,;=%"
_LOOKS_LIKE_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//|www\.", re.IGNORECASE)
_HAS_ADDRESS_SIGNS = re.compile(r"[:/#?@.]")


def address(target: str) -> str | None:
    """Return *target* as the address that may stand hidden behind text, or None (telegram.md §3).

    None for a ``mailto:``: the Bot API turns it into ``http://mailto:…``.  Shown as text, it is
    made clickable by the reader's own client.

    >>> address("https://example.org/ä b"), address("tg://resolve?domain=x")
    ('https://example.org/%C3%A4%20b', 'tg://resolve?domain=x')
    >>> address("javascript:alert(1)"), address("http://localhost:8080"), address("docs/a.md")
    (None, None, None)
    """
    if len(target) > MAX_TARGET:
        return None
    url = quote(target, safe=_NOT_QUOTED)
    if match := _WEB.fullmatch(url):
        port = match["port"]
        return url if port is None or 0 < int(port) < 65536 else None
    return url if _TELEGRAM.fullmatch(url) else None


def visible(target: str) -> str:
    """Return *target* as a reader should see it: a mail address without its scheme, cut if endless.

    >>> visible("mailto:ann@example.org"), visible("#setup")
    ('ann@example.org', '#setup')
    """
    shown = target[7:] if target[:7].lower() == "mailto:" else target
    return shown if len(shown) <= MAX_TARGET else shown[:MAX_TARGET] + "…"


def is_target(text: str) -> bool:
    """Tell whether *text* in the place of a link's target can be one: ``f[i](x)`` is no link.

    >>> is_target("docs/setup.md"), is_target("x"), is_target("")
    (True, False, False)
    """
    return _HAS_ADDRESS_SIGNS.search(text) is not None


def claims_another(label: str, target: str) -> bool:
    """Tell whether *label* reads like an address other than *target*: a disguise.

    >>> claims_another("https://bank.example", "https://thief.example/x")
    True
    >>> claims_another("the bank", "https://bank.example")
    False
    """
    if _LOOKS_LIKE_ADDRESS.match(label) is None:
        return False
    bare, other = (re.sub(r"^(?:https?:)?//|/$", "", s.lower()) for s in (label, target))
    return bare != other
