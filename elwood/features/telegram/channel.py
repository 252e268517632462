"""Telegram as a channel: principals, routes and sessions for its numeric ids."""

import re
from collections.abc import Mapping

from elwood.agent.channels.channel import Channel
from elwood.agent.conversation.message import FetchedFile, PendingFile
from elwood.agent.conversation.route import Route
from elwood.agent.media.client import FileFetcher
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.text.characters import clean

NAME = "telegram"
# Prefixes of principals and of sessions.
PEOPLE, SESSIONS = "tg:", "tg-"


def principal_id(number: int) -> str:
    """Return the principal of the user or group *number*."""
    return f"{PEOPLE}{number}"


def number_of(principal: str) -> int:
    """Return the number of a user or group; old journals have groups without the prefix."""
    return int(principal.removeprefix(PEOPLE))


def list_allowed(settings: TelegramSettings) -> dict[str, str]:
    """Return the setting that lets a person or group in, by principal."""
    listed = {"telegram.groups": settings.groups, "telegram.allowed_chats": settings.allowed_chats}
    return {principal_id(one): why for why, ids in listed.items() for one in ids}


def is_chat(chat: str, thread: str) -> bool:
    """Return True if *chat* and *thread* can be ids of Telegram.

    >>> is_chat("-5", "3"), is_chat("7", ""), is_chat("@me", ""), is_chat("7", "-1")
    (True, True, False, False)
    """
    return re.fullmatch(r"-?[0-9]{1,18}:[0-9]{0,18}", f"{chat}:{thread}") is not None


def route_to(
    chat: int, topic: int | None = None, private: bool = True, reply_to: int | None = None
) -> Route:
    """Return the route to a *chat* and a *topic* in it."""
    thread = "" if topic is None else str(topic)
    return Route(NAME, str(chat), thread, private, None if reply_to is None else str(reply_to))


def session_of(chat: int, topic: int | None, moved: Mapping[int, int]) -> str:
    """Return the session of a chat and topic: a safe file name, unchanged by a group upgrade.

    >>> session_of(-100, 4, {-100: -5}), session_of(7, None, {})
    ('tg--5-4', 'tg-7')
    """
    first = moved.get(chat, chat)
    return f"{SESSIONS}{first}" if topic is None else f"{SESSIONS}{first}-{topic}"


def is_group(principal: str) -> bool:
    """Return True if *principal* is a group: groups have negative numbers."""
    return principal.startswith(f"{PEOPLE}-")


class TelegramChannel(Channel, frozen=True, kw_only=True):
    """Telegram.  Users and their private chats have positive numbers, groups negative ones.

    >>> from elwood.foundation.runtime import Mailbox
    >>> telegram = TelegramChannel(outbox=Mailbox("outbox", 1).address, owners=frozenset({"tg:7"}))
    >>> telegram.recipient("tg:7") == Route("telegram", "7"), telegram.recipient("tg:-5")
    (True, None)
    >>> telegram.group("tg--5-4"), telegram.group("tg-7-4")
    ('-5', None)
    >>> telegram.is_owners("tg-7-4"), telegram.is_owners("tg-70"), telegram.is_owners("tg--7")
    (True, False, False)
    """

    name: str = NAME
    people: str = PEOPLE
    sessions: str = SESSIONS
    files: bool = True
    buttons: bool = True
    # Whether Telegram renders answers itself.
    rich_messages: bool = False
    fetcher: FileFetcher | None = None

    def session(self, route: Route) -> str | None:
        topic = int(route.thread) if route.thread else None
        return session_of(int(route.chat), topic, {}) if route.private else None

    def recipient(self, principal: str) -> Route | None:
        number = principal.removeprefix(PEOPLE)
        return Route(NAME, number) if number.isascii() and number.isdigit() else None

    def is_group(self, principal: str) -> bool:
        return is_group(principal)

    def is_private(self, chat: str) -> bool:
        return not chat.startswith("-")

    def group(self, session: str) -> str | None:
        match = re.fullmatch(rf"{SESSIONS}(-\d+)(?:-\d+)?", session)
        return match[1] if match else None

    def is_owners(self, session: str) -> bool:
        return PEOPLE + session.removeprefix(SESSIONS).partition("-")[0] in self.owners

    async def fetch(self, session: str, file: PendingFile) -> FetchedFile:
        assert self.fetcher is not None
        return await self.fetcher.fetch(session, file)

    def to_markdown(self, text: str, footer: str, *, hide_targets: bool) -> str | None:
        return native(text, footer, hide_targets=hide_targets) if self.rich_messages else None


# Characters of Markdown that Telegram renders itself; its limit is 32,768.
MAX_NATIVE = 30_000
# Images, which it would load, and HTML; formulas, spoilers and marks, which are never intended.
_NOT_NATIVE = re.compile(r"!\[|<[A-Za-z/!?]|\$[^$]*\$|\|\|[^|]*\|\||==\S[^=]*==")
# Links, also by reference; Telegram hides their address.
_LINK = re.compile(r"\][(\[:]")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def native(markdown: str, footer: str, *, hide_targets: bool = True) -> str | None:
    r"""Return a reply as Markdown that Telegram renders itself, or None if that is unsafe.

    It is unsafe if it contains an image or HTML anywhere: code for our parser may not be code for
    theirs, and loading an image can exfiltrate text.  Without *hide_targets* a link is also unsafe.
    The footer becomes a quote.

    >>> native("# A\n\nb", "read *x*"), native("`![](https://evil.example/?words)`", "")
    ('# A\n\nb\n\n> read \\*x\\*', None)
    """
    text, footer = clean(markdown).strip(), clean(footer)
    if len(text) + len(footer) > MAX_NATIVE or _NOT_NATIVE.search(f"{text}\n{footer}"):
        return None
    if not hide_targets and _LINK.search(text):
        return None
    lines = [_PUNCTUATION.sub(r"\\\1", line) for line in footer.splitlines()]
    quote = "  \n> ".join(lines)
    return f"{text}\n\n> {quote}" if footer else text or None
