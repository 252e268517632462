"""The channels for talking with people, and the routes to the owner."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.message import FetchedFile, PendingFile
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import SESSION as TASK
from elwood.agent.conversation.run import is_unattended
from elwood.foundation.runtime import Address, Mailbox
from elwood.foundation.text.markdown import Rich
from elwood.foundation.text.splitting import STANDARD, MessageSize, parts


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A way to talk with people.

    Subclasses define the ids of a channel, and which conversation belongs to which chat.
    """

    name: str
    outbox: Address[OutboxMail]
    people: str = ""
    """Prefix of the ids of its principals; no other channel may have it."""
    presence: str = ""
    """Text for the place of its people, as in "at the console"; empty: messages show each id."""
    sessions: str = ""
    """Prefix of its session names; empty: it has all names that are not reserved."""
    only: str = ""
    """The only session whose answers are delivered here; empty: all of this channel."""
    owner: tuple[Route, ...] = ()
    """Routes for notices to the owner."""
    owners: frozenset[str] = frozenset()
    """Principals that may decide."""
    allowed: Mapping[str, str] = MappingProxyType({})
    """The setting that lets a person or group in, by principal."""
    size: MessageSize = STANDARD
    """Maximum size of one message."""
    caption: int = 1024
    """Maximum text below a file, in the units of *size*."""
    files: bool = False
    """Whether the files of a message arrive with it."""
    buttons: bool = False
    """Whether people can press buttons below a message."""
    fleeting: bool = False
    """Whether people are here only briefly.  Notices go to another channel if there is one."""

    def session(self, route: Route) -> str | None:
        """Return the name of the conversation at *route*, if it belongs to one person."""
        return None

    def recipient(self, principal: str) -> Route | None:
        """Return the private chat with a person of this channel, or None if it is not a person."""
        return None

    def is_group(self, principal: str) -> bool:
        """Return True if *principal*, an id of this channel, is a group and not a person."""
        return False

    def is_private(self, chat: str) -> bool:
        """Return True if *chat* has only one reader."""
        return any(one.chat == chat for one in self.owner)

    def group(self, session: str) -> str | None:
        """Return the name of the group that *session* is in, or None.

        The file with the rules of the group has this name, so it is unique among all channels.
        """
        return None

    def is_owners(self, session: str) -> bool:
        """Return True if *session* is a private conversation of an owner."""
        return False

    async def fetch(self, session: str, file: PendingFile) -> FetchedFile:
        """Fetch a pending file of a message in *session*; a failure is part of the result."""
        # The configuration has changed since the message was received.
        return FetchedFile(trouble=f"I could not download the {file.kind}: the channel is off.")

    def render(self, text: str, footer: str = "", *, hide_targets: bool = True) -> tuple[Rich, ...]:
        """Format *text*, which is Markdown, as messages; deterministic."""
        return parts(text, footer, self.size, hide_targets=hide_targets)

    def to_markdown(self, text: str, footer: str, *, hide_targets: bool) -> str | None:
        """Return a reply as Markdown for a channel that draws it, as one message; else None.

        It need not have *footer*, which a post also has as `Post.records`.
        """
        return None

    def fits_below_file(self, text: str) -> bool:
        """Return True if *text* can be sent below a file."""
        return self.size.measure(text) <= self.caption

    def set_privacy(self, route: Route) -> Route:
        """Return *route*, as written in a setting, with `Route.private` set."""
        private = self.is_private(route.chat) if route.chat else True
        return msgspec.structs.replace(route, private=private)


# Represents a channel that is off: its ids are unknown, and nothing can be sent.
OFF = Channel(name="", outbox=Mailbox[OutboxMail]("off", 1).address)


class Channels:
    """All channels of the app, and the owner's last route since the start.

    *reserved* maps the prefixes of sessions to channel names, also of unconfigured channels.
    """

    def __init__(self, reserved: Mapping[str, str] = MappingProxyType({})) -> None:
        self._last_route: Route | None = None
        self._channels: dict[str, Channel] = {}
        self._outboxes: dict[str, Address[OutboxMail]] = {}
        self._reserved = {**reserved, TASK: ""}

    def add(self, channel: Channel) -> None:
        """Add a channel; only while the app is built."""
        self._channels[channel.name] = channel
        self._outboxes[channel.name] = channel.outbox
        if channel.sessions:
            self._reserved[channel.sessions] = channel.name

    @property
    def outboxes(self) -> Mapping[str, Address[OutboxMail]]:
        """The outboxes by channel name."""
        return self._outboxes

    @property
    def owners(self) -> frozenset[str]:
        """The principals of the owner."""
        return frozenset[str]().union(*(one.owners for one in self._channels.values()))

    @property
    def allowed(self) -> Mapping[str, str]:
        """The setting that lets a person or group in, by principal."""
        return {id: why for one in self._channels.values() for id, why in one.allowed.items()}

    @property
    def rank_owner_routes(self) -> tuple[Route, ...]:
        """Routes for notices to the owner, in the order of the channels."""
        return tuple(route for one in self._channels.values() for route in one.owner)

    @property
    def has_lasting(self) -> bool:
        """Return True if a channel is configured that is not fleeting."""
        return any(not one.fleeting for one in self._channels.values())

    def owner_routes(self) -> tuple[Route, ...]:
        """Return the routes to the owner, the best first."""
        return owner_routes(self.rank_owner_routes, self._last_route)

    def note_owner_route(self, route: Route) -> None:
        """Note that the owner wrote at *route*, if notices can go to that chat."""
        channel = self._channels.get(route.channel)
        routes = channel.owner if channel and not channel.fleeting else ()
        if any(one.chat == route.chat for one in routes):
            self._last_route = msgspec.structs.replace(route, reply_to=None)

    def get(self, name: str) -> Channel:
        """Return the channel *name*, or `OFF`."""
        return self._channels.get(name, OFF)

    def get_by_route(self, route: Route) -> Channel:
        """Return the channel of *route*, or `OFF`."""
        return self._channels.get(route.channel, OFF)

    def get_by_principal(self, principal: str) -> Channel:
        """Return the channel that *principal* is an id of, or `OFF`."""
        ones = self._channels.values()
        return next((one for one in ones if one.people and principal.startswith(one.people)), OFF)

    # --- sessions ---------------------------------------------------------------------------------

    def find_reserving(self, session: str) -> str | None:
        """Return the name of the channel that reserves the name *session*.

        It may be off.  Return "" for the runs of tasks, None if the name is not reserved.
        """
        return next((to for at, to in self._reserved.items() if session.startswith(at)), None)

    def is_reserving(self, name: str) -> bool:
        """Return True if *name* is a channel that reserves session names; it may be off."""
        return bool(name) and name in self._reserved.values()

    def is_off(self, name: str) -> bool:
        """Return True if *name* is a channel that is off, or a session of one."""
        channel = name if self.is_reserving(name) else self.find_reserving(name)
        return bool(channel) and channel not in self._channels

    def serves(self, session: str) -> bool:
        """Return True if the answers of *session* can be delivered here; else it stays asleep."""
        name = self.find_reserving(session)
        ones = (one for one in self._channels.values() if one.only in ("", session))
        if name is None:
            return any(not one.sessions for one in ones)
        if name == "":  # runs of tasks answer to the owner
            return any(one.owner for one in ones)
        return any(one.name == name for one in ones)

    def is_owners(self, session: str) -> bool:
        """Return True if only an owner takes part in *session*."""
        name = self.find_reserving(session)
        if is_unattended(session):
            return False
        return name is None or self.get(name).is_owners(session)

    def group(self, session: str) -> str | None:
        """Return the name of the group that *session* is in, or None."""
        return self.get(self.find_reserving(session) or "").group(session)

    def session_at(self, route: Route) -> str | None:
        """Return the name of the conversation at *route*, if it belongs to one person."""
        return self.get_by_route(route).session(route)

    def is_group(self, principal: str) -> bool:
        """Return True if *principal* is a group."""
        return self.get_by_principal(principal).is_group(principal)

    def recipient(self, principal: str) -> Route | None:
        """Return the private chat with *principal*, or None if it is not a person of a channel."""
        return self.get_by_principal(principal).recipient(principal)


def owner_routes(owner: Sequence[Route], last: Route | None) -> tuple[Route, ...]:
    """Return the routes *owner*, the best first: the chat and thread where they wrote *last*.

    A *last* route outside of *owner* is ignored: others may read there, or no one.

    >>> desk, phone = Route("console"), Route("telegram", "7")
    >>> owner_routes((desk, phone), Route("telegram", "7", "3")) == (
    ...     Route("telegram", "7", "3"), desk)
    True
    >>> owner_routes((desk, phone), Route("telegram", "-5", private=False)) == (desk, phone)
    True
    """
    if last is None or not last.private:
        return tuple(owner)
    others = tuple(one for one in owner if not one.is_same_chat(last))
    return (last, *others) if len(others) < len(owner) else tuple(owner)
