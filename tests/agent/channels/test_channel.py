"""Routes for notices to the owner, and the channel of a session or a person."""

import msgspec
import pytest

from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.route import Route
from elwood.features.telegram.channel import TelegramChannel
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.splitting import MessageSize, character_offsets

HOME, TOPIC, ELSEWHERE = Route("chat", "1"), Route("chat", "1", thread="3"), Route("machine")


def test_an_unread_channel_keeps_the_owner_route() -> None:
    channels = Channels()
    for route, owner in ((HOME, (HOME,)), (ELSEWHERE, ())):
        post = Mailbox[OutboxMail](f"outbox {route.channel}", 4).address
        channels.add(Channel(name=route.channel, outbox=post, owner=owner))
    assert channels.owner_routes() == (HOME,)
    channels.note_owner_route(TOPIC)
    channels.note_owner_route(ELSEWHERE)
    assert channels.owner_routes() == (TOPIC,)


RESERVED = {"tg-": "telegram", "mcp-": "mcp_serve"}


def make_channels(*channels: Channel) -> Channels:
    made = Channels(RESERVED)
    for channel in channels:
        made.add(channel)
    return made


OUTBOX = Mailbox[OutboxMail]("outbox", 4).address
CONSOLE = Channel(name="console", outbox=OUTBOX, owner=(ELSEWHERE,))
TELEGRAM = TelegramChannel(
    outbox=OUTBOX, owner=(Route("telegram", "7"),), owners=frozenset({"tg:7"})
)
MCP = Channel(name="mcp", outbox=OUTBOX, sessions="mcp-")
NAMES = ("tg-7", "tg--5", "work", "task-tea", "mcp-1")


@pytest.mark.parametrize(
    ("channels", "served", "owners"),
    [
        ((CONSOLE,), ("work", "task-tea"), ("work",)),
        ((TELEGRAM,), ("tg-7", "tg--5", "task-tea"), ("tg-7", "work")),
        ((CONSOLE, TELEGRAM, MCP), NAMES, ("tg-7", "work")),
        # A terminal for one conversation wakes only that one.
        ((msgspec.structs.replace(CONSOLE, only="work"),), ("work",), ("work",)),
    ],
)
def test_a_session_prefix_selects_the_channel(
    channels: tuple[Channel, ...], served: tuple[str, ...], owners: tuple[str, ...]
) -> None:
    """This holds for a disabled channel too."""
    made = make_channels(*channels)
    assert tuple(filter(made.serves, NAMES)) == served
    assert tuple(filter(made.is_owners, NAMES)) == owners


def test_a_principal_selects_the_channel() -> None:
    made = make_channels(CONSOLE, TELEGRAM)
    assert made.recipient("tg:9") == Route("telegram", "9")
    assert [made.recipient(one) for one in ("tg:-5", "console", "fo:x", "task:tea")] == [None] * 4
    assert [made.is_group(one) for one in ("tg:-5", "tg:5", "fo:-5")] == [True, False, False]
    group, own = Route("telegram", "-5"), Route("telegram")
    assert made.get_by_route(group).set_privacy(group) == Route("telegram", "-5", private=False)
    assert made.get_by_route(own).set_privacy(own) == own


def test_a_message_limit_leaves_room_for_a_question() -> None:
    with pytest.raises(ValueError, match="must hold 2000 units, not 160"):
        MessageSize(160, character_offsets)
