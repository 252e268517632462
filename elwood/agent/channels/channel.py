"""The ways to talk with people, and where among them the owner is."""

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

    A channel is a subclass that answers what only it can know: how its ids are written, and which
    conversation belongs to which place.
    """

    name: str
    outbox: Address[OutboxMail]
    people: str = ""
    """Prefix of the ids of its principals; no other channel may have it."""
    presence: str = ""
    """Where its people act, as in "at the console"; empty: messages name each by the id."""
    sessions: str = ""
    """Prefix of the names of its sessions; empty: it has the names that no other one reserves."""
    only: str = ""
    """The one session whose answers are delivered here; empty: all of this channel."""
    owner: tuple[Route, ...] = ()
    """Where the owner is told what goes wrong."""
    owners: frozenset[str] = frozenset()
    """Principals who may decide."""
    size: MessageSize = STANDARD
    """How much fits into one message."""
    caption: int = 1024
    """How much text fits below a file, in the units of *size*."""
    files: bool = False
    """Whether the files of a message arrive with it."""
    markdown: bool = False
    """Whether the channel draws Markdown itself."""
    buttons: bool = False
    """Whether people can press what is below a message."""
    fleeting: bool = False
    """Whether people are here only for moments.  Notices go to another channel if there is one."""

    def session(self, route: Route) -> str | None:
        """Return the name of the conversation at *route*, if it belongs to one person."""
        return None

    def recipient(self, principal: str) -> Route | None:
        """Return the private chat with a person of this channel; None if that is not a person."""
        return None

    def is_group(self, principal: str) -> bool:
        """Return True if *principal*, an id of this channel, is a group and not a person."""
        return False

    def is_private(self, chat: str) -> bool:
        """Return True if only one person reads in *chat*."""
        return any(one.chat == chat for one in self.owner)

    def group(self, session: str) -> str | None:
        """Return the name of the group that *session* is in, None if it is in none.

        The file with the rules of the group has this name, so it is unique among all channels.
        """
        return None

    def is_owners(self, session: str) -> bool:
        """Return True if *session* is a private conversation of an owner."""
        return False

    async def fetch(self, session: str, file: PendingFile) -> FetchedFile:
        """Fetch a pending file of a message in *session*; a failure is a part of the result."""
        # The configuration has changed since the message came.
        return FetchedFile(trouble=f"I could not get the {file.kind}: the channel is off.")

    def render(self, text: str, footer: str = "", *, hide_targets: bool = True) -> tuple[Rich, ...]:
        """Return *text*, which is Markdown, as messages; the same text, the same messages."""
        return parts(text, footer, self.size, hide_targets=hide_targets)

    def fits_below_file(self, text: str) -> bool:
        """Return True if *text* can be sent below a file."""
        return self.size.measure(text) <= self.caption

    def completed(self, route: Route) -> Route:
        """Return *route*, which was written into a setting, with `Route.private` set."""
        private = self.is_private(route.chat) if route.chat else True
        return msgspec.structs.replace(route, private=private)


# Takes the place of a channel that is off: nothing is known of its ids, and nothing is sent.
OFF = Channel(name="", outbox=Mailbox[OutboxMail]("off", 1).address)


class Channels:
    """All channels of the app, and where the owner wrote last since the start.

    *reserved* are the names of channels by the prefix of their sessions, also of channels that
    are not configured.
    """

    def __init__(self, reserved: Mapping[str, str] = MappingProxyType({})) -> None:
        self._heard: Route | None = None
        self._channels: dict[str, Channel] = {}
        self._outboxes: dict[str, Address[OutboxMail]] = {}
        self._reserved = {**reserved, TASK: ""}

    def add(self, channel: Channel) -> None:
        """Take one more; only while the app is built."""
        self._channels[channel.name] = channel
        self._outboxes[channel.name] = channel.outbox
        if channel.sessions:
            self._reserved[channel.sessions] = channel.name

    @property
    def outboxes(self) -> Mapping[str, Address[OutboxMail]]:
        """Who sends, by the name of the channel."""
        return self._outboxes

    @property
    def owners(self) -> frozenset[str]:
        """The principals whose words are the owner's."""
        return frozenset[str]().union(*(one.owners for one in self._channels.values()))

    @property
    def places(self) -> tuple[Route, ...]:
        """Where the owner can be told something, in the order of the channels."""
        return tuple(route for one in self._channels.values() for route in one.owner)

    @property
    def has_lasting(self) -> bool:
        """Return True if a channel is set up that is more than a terminal for moments."""
        return any(not one.fleeting for one in self._channels.values())

    def owner_routes(self) -> tuple[Route, ...]:
        """Where the owner reads now, the best first."""
        return owner_routes(self.places, self._heard)

    def hear(self, route: Route) -> None:
        """The owner wrote at *route*, in private; where they are told nothing it counts not."""
        channel = self._channels.get(route.channel)
        told = channel.owner if channel and not channel.fleeting else ()
        if any(one.chat == route.chat for one in told):
            self._heard = msgspec.structs.replace(route, reply_to=None)

    def named(self, name: str) -> Channel:
        """Return the channel *name*, or `OFF`."""
        return self._channels.get(name, OFF)

    def at(self, route: Route) -> Channel:
        """Return the channel of *route*, or `OFF`."""
        return self._channels.get(route.channel, OFF)

    def of(self, principal: str) -> Channel:
        """Return the channel that *principal* is an id of, or `OFF`."""
        ones = self._channels.values()
        return next((one for one in ones if one.people and principal.startswith(one.people)), OFF)

    # --- sessions ---------------------------------------------------------------------------------

    def reserving(self, session: str) -> str | None:
        """Return the name of the channel that reserves the name *session*.

        It may be off.  Return "" for the runs of tasks, None if the name is not reserved.
        """
        return next((to for at, to in self._reserved.items() if session.startswith(at)), None)

    def is_reserving(self, name: str) -> bool:
        """Return True if *name* is a channel with names for sessions; it may be off."""
        return bool(name) and name in self._reserved.values()

    def is_off(self, name: str) -> bool:
        """Return True if *name* is a channel that is off, or a session of one."""
        channel = name if self.is_reserving(name) else self.reserving(name)
        return bool(channel) and channel not in self._channels

    def serves(self, session: str) -> bool:
        """Return True if the answers of *session* can be delivered here: if not, it sleeps on."""
        name = self.reserving(session)
        ones = (one for one in self._channels.values() if one.only in ("", session))
        if name is None:
            return any(not one.sessions for one in ones)
        if name == "":  # the owner is told
            return any(one.owner for one in ones)
        return any(one.name == name for one in ones)

    def is_owners(self, session: str) -> bool:
        """Return True if *session* is a conversation that only an owner has."""
        name = self.reserving(session)
        if is_unattended(session):
            return False
        return name is None or self.named(name).is_owners(session)

    def group(self, session: str) -> str | None:
        """Return the name of the group that *session* is in, None if it is in none."""
        return self.named(self.reserving(session) or "").group(session)

    def session_at(self, route: Route) -> str | None:
        """Return the name of the conversation at *route*, if it belongs to one person."""
        return self.at(route).session(route)

    def is_group(self, principal: str) -> bool:
        """Return True if *principal* is a group."""
        return self.of(principal).is_group(principal)

    def recipient(self, principal: str) -> Route | None:
        """Return the private chat with *principal*; None if it is not a person of a channel."""
        return self.of(principal).recipient(principal)


def owner_routes(owner: Sequence[Route], heard: Route | None) -> tuple[Route, ...]:
    """List the places *owner*, the best first: the chat, and thread, where they were *heard* last.

    What was heard elsewhere counts for nothing: there others may read, too, or nobody does.

    >>> desk, phone = Route("console"), Route("telegram", "7")
    >>> owner_routes((desk, phone), Route("telegram", "7", "3")) == (
    ...     Route("telegram", "7", "3"), desk)
    True
    >>> owner_routes((desk, phone), Route("telegram", "-5", private=False)) == (desk, phone)
    True
    """
    if heard is None or not heard.private:
        return tuple(owner)
    others = tuple(one for one in owner if not one.is_same_chat(heard))
    return (heard, *others) if len(others) < len(owner) else tuple(owner)
