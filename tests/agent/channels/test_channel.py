"""Where the owner is told things."""

from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Mailbox

HOME, TOPIC, ELSEWHERE = Route("chat", 1), Route("chat", 1, topic=3), Route("machine")


def test_what_the_owner_has_said_where_nobody_reads_moves_no_news() -> None:
    channels = Channels()
    for route, owner in ((HOME, (HOME,)), (ELSEWHERE, ())):
        post = Mailbox[OutboxMail](f"outbox {route.channel}", 4).address
        channels.add(
            Channel(name=route.channel, outbox=post, owner=owner, serves=lambda name: True)
        )
    assert channels.owner_routes() == (HOME,)
    channels.hear(TOPIC)
    channels.hear(ELSEWHERE)
    assert channels.owner_routes() == (TOPIC,)
