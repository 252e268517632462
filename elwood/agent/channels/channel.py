"""The ways to talk with people, and where among them the owner is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.message import FetchedFile, PendingFile
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Address

Fetch = Callable[[str, PendingFile], Awaitable[FetchedFile]]
"""Fetches a file for a session; what goes wrong is a part of the result."""


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A way to talk with people.

    *owner* are the places where the owner is told what goes wrong, *owners* who may decide.
    *serves* says which sessions can be answered here: the others sleep on, whatever they owe.
    *files* says that the files of a message arrive with it.  *session* names the conversation that
    lives at a route, if it is one person's.  *markdown* says that it draws Markdown itself,
    *buttons* that people press what stands below a message.  Where people are only for moments, it
    is *fleeting*: what nobody asked for is told there only if it can be told nowhere else.
    *fetch* is there if its messages may have pending files.
    """

    name: str
    outbox: Address[OutboxMail]
    owner: tuple[Route, ...] = ()
    owners: frozenset[str] = frozenset()
    serves: Callable[[str], bool]
    session: Callable[[Route], str | None] = lambda route: None
    files: bool = False
    markdown: bool = False
    buttons: bool = False
    fleeting: bool = False
    fetch: Fetch | None = None


class Channels:
    """All channels of the app, and where the owner wrote last since the start."""

    def __init__(self) -> None:
        self._heard: Route | None = None
        self._channels: dict[str, Channel] = {}
        self._outboxes: dict[str, Address[OutboxMail]] = {}

    def add(self, channel: Channel) -> None:
        """Take one more; only while the app is built."""
        self._channels[channel.name] = channel
        self._outboxes[channel.name] = channel.outbox

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

    def takes_files(self, route: Route) -> bool:
        """Tell whether files can be sent to *route*."""
        channel = self._channels.get(route.channel)
        return channel is not None and channel.files

    def draws_markdown(self, route: Route) -> bool:
        """Tell whether *route* may be sent Markdown as it is."""
        channel = self._channels.get(route.channel)
        return channel is not None and channel.markdown

    def has_buttons(self, route: Route) -> bool:
        """Tell whether what stands below a message at *route* can be pressed."""
        channel = self._channels.get(route.channel)
        return channel is not None and channel.buttons

    def serves(self, session: str) -> bool:
        """Tell whether anybody can be answered in *session* here."""
        return any(one.serves(session) for one in self._channels.values())

    async def fetch(self, channel: str, session: str, file: PendingFile) -> FetchedFile:
        """Fetch a pending file of a message that came by *channel*."""
        found = self._channels.get(channel)
        if found is None or found.fetch is None:
            # The configuration has changed since the message came.
            return FetchedFile(trouble=f"I could not get the {file.kind}: {channel} is off.")
        return await found.fetch(session, file)

    def session_at(self, route: Route) -> str | None:
        """Name the conversation that lives at *route*, if it is one person's."""
        channel = self._channels.get(route.channel)
        return None if channel is None else channel.session(route)


def owner_routes(owner: Sequence[Route], heard: Route | None) -> tuple[Route, ...]:
    """List the places *owner*, the best first: the chat, and topic, where they were *heard* last.

    What was heard elsewhere counts for nothing: there others may read, too, or nobody does.

    >>> desk, phone = Route("console"), Route("telegram", 7)
    >>> owner_routes((desk, phone), Route("telegram", 7, topic=3)) == (
    ...     Route("telegram", 7, topic=3), desk)
    True
    >>> owner_routes((desk, phone), Route("telegram", -5, private=False)) == (desk, phone)
    True
    """
    if heard is None or not heard.private:
        return tuple(owner)
    others = tuple(one for one in owner if not one.is_same_chat(heard))
    return (heard, *others) if len(others) < len(owner) else tuple(owner)
