"""Telegram, as the app sees it."""

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.channels.pacing import paced
from elwood.agent.conversation.inbound import PREFIX, session_of
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import SESSION as TASK
from elwood.agent.feature import WORLD, Actor, Feature, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.settings import WatchdogSettings
from elwood.features.telegram.client import Bot
from elwood.features.telegram.intake import Intake
from elwood.features.telegram.outbox import Outbox
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Mailbox


async def build(core: Core, others: Gathered) -> Parts:
    """Make the two ends of the channel, each with connections of its own."""
    settings = core.config.of(TelegramSettings)
    post: Mailbox[OutboxMail] = Mailbox("outbox telegram", 256)
    listening, sending = Client(connections=4), Client(connections=64)
    core.closing.push_async_callback(listening.aclose)
    core.closing.push_async_callback(sending.aclose)
    outbox = Outbox(
        Bot(settings, sending),
        random=core.environment.random,
        pacing=paced(settings.messages_per_second),
    )
    intake = Intake(
        Bot(settings, listening),
        settings,
        sessions=core.sessions,
        approvals=core.approvals,
        outbox=post.address,
        random=core.environment.random,
        now=core.clock.now,
        silence=core.config.of(WatchdogSettings).poll,
    )

    async def listen(mailbox: Mailbox[None]) -> None:
        core.up.set()
        await intake.run(mailbox)

    return Parts(
        channels=[channel(settings, post)],
        actors=[
            Actor(step=1, mailbox=post, body=outbox.run, policy=WORLD),
            Actor(step=5, mailbox=Mailbox("telegram", 16), body=listen, policy=WORLD, grace=1.0),
        ],
    )


def channel(settings: TelegramSettings, outbox: Mailbox[OutboxMail]) -> Channel:
    """Describe the channel to the others."""
    return Channel(
        name="telegram",
        outbox=outbox.address,
        owner=tuple(Route("telegram", chat=user) for user in settings.owners),
        owners=frozenset(f"tg:{user}" for user in settings.owners),
        serves=lambda name: name.startswith((PREFIX, TASK)),
        session=lambda route: session_of(route.chat, route.topic, {}) if route.private else None,
        files=True,
    )


FEATURE = Feature(name="telegram", settings=(TelegramSettings,), build=build)
