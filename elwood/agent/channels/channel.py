"""The ways to talk with people, and where among them the owner is."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Address
from elwood.foundation.storage.disk import Disk, DiskFull

log = logging.getLogger("elwood")


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """A way to talk with people.

    *owner* are the places where the owner is told what goes wrong, *owners* who may decide.
    *serves* says which sessions can be answered here: the others sleep on, whatever they owe.
    *files* says that the files of a message arrive with it.  *session* names the conversation that
    lives at a route, if it is one person's.
    """

    name: str
    outbox: Address[OutboxMail]
    owner: tuple[Route, ...] = ()
    owners: frozenset[str] = frozenset()
    serves: Callable[[str], bool]
    session: Callable[[Route], str | None] = lambda route: None
    files: bool = False


class LastHeard:
    """One route in the file *path*.  What is not saved when a process dies is no great loss."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self.route: Route | None = None
        self._saved: Route | None = None

    async def load(self) -> None:
        """Read it; what cannot be read counts for nothing."""
        data = await self._disk.blocking(self._read)
        try:
            read = msgspec.json.decode(data, type=Route) if data else None
        except msgspec.DecodeError as error:
            log.warning("not known where the owner was heard", extra={"why": str(error)})
        else:
            self._saved = read
            self.route = self.route or read  # they may have been heard meanwhile

    def note(self, route: Route) -> None:
        """The owner was heard at *route*, in private."""
        self.route = msgspec.structs.replace(route, reply_to=None)

    async def save(self) -> None:
        """Write it, if it is another than before; for one caller, now and then."""
        route = self.route
        if route is None or route == self._saved:
            return
        data = msgspec.json.encode(route)
        try:
            await self._disk.blocking(lambda: self._disk.replace(self._path, data))
        except DiskFull as error:
            log.warning("not noted where the owner was heard", extra={"why": str(error)})
        else:
            self._saved = route

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""


class Channels:
    """All channels of the app; *heard* knows where the owner wrote last."""

    def __init__(self, heard: LastHeard) -> None:
        self.heard = heard
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

    def owner_routes(self) -> tuple[Route, ...]:
        """Where the owner reads now, the best first."""
        return owner_routes(self.places, self.heard.route)

    def named(self, name: str) -> Channel | None:
        """Find a channel."""
        return self._channels.get(name)

    def takes_files(self, route: Route) -> bool:
        """Tell whether files can be sent to *route*."""
        channel = self._channels.get(route.channel)
        return channel is not None and channel.files

    def serves(self, session: str) -> bool:
        """Tell whether anybody can be answered in *session* here."""
        return any(one.serves(session) for one in self._channels.values())

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
    others = tuple(one for one in owner if (one.channel, one.chat) != (heard.channel, heard.chat))
    return (heard, *others) if len(others) < len(owner) else tuple(owner)
