"""Telegram and the console as channels, for tests that only need an outbox."""

from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.route import Route
from elwood.features.telegram.channel import NAME, TelegramChannel, principal_id
from elwood.foundation.runtime import Address, Mailbox


def two_channels(*owner: Route, outbox: Address[OutboxMail] | None = None) -> Channels:
    """Create both; the channel of the first of the *owner*'s routes comes first."""
    outbox = outbox or Mailbox[OutboxMail]("outbox", 1).address
    channels = Channels()
    for name in dict.fromkeys((*(route.channel for route in owner), NAME, "console")):
        there = tuple(route for route in owner if route.channel == name)
        if name == NAME:
            owners = frozenset(principal_id(int(route.chat)) for route in there)
            made: Channel = TelegramChannel(outbox=outbox, owner=there, owners=owners)
        else:
            made = Channel(name=name, outbox=outbox, owner=there, owners=frozenset({name}))
        channels.add(made)
    return channels
