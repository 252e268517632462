"""Who is speaking, and in which session."""

from collections.abc import Mapping

import msgspec

# With what the names of Telegram's sessions begin.
PREFIX = "tg-"


class Principal(msgspec.Struct, frozen=True):
    """A person: *id* as the channel proves it (``tg:<user id>``), never a name they chose."""

    id: str
    name: str
    owner: bool


def person(user: int) -> str:
    """Name the Telegram user *user* as principals are named.

    >>> person(12)
    'tg:12'
    """
    return f"tg:{user}"


def user_of(principal: str) -> int | None:
    """Return the Telegram user that *principal* names, whose private chat has the same id.

    >>> user_of("tg:12"), user_of("console"), user_of("tg:-5")
    (12, None, None)
    """
    head, _, number = principal.partition(":")
    return int(number) if head == "tg" and number.isascii() and number.isdigit() else None


def session_of(chat: int, topic: int | None, moved: Mapping[int, int]) -> str:
    """Name the session of a chat and topic: safe as a file name, the same after an upgrade.

    >>> session_of(-100, 4, {-100: -5}), session_of(7, None, {})
    ('tg--5-4', 'tg-7')
    """
    first = moved.get(chat, chat)
    return f"{PREFIX}{first}" if topic is None else f"{PREFIX}{first}-{topic}"
