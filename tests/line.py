"""The whole app with a test channel: its messages, and its posts."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import Edit, OutboxMail, Post, Sent
from elwood.agent.conversation.inbound import Inbound, Principal, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.models.client import Provider
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.app.build import App, build
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Mailbox
from elwood.foundation.settings import Config

ROUTE = Route("line")
OWNER = Principal("line", "owner", owner=True)
# Seconds to wait for an answer.
LIMIT = 30.0


class LineChannel(Channel, frozen=True):
    def session(self, route: Route) -> str:
        return "line"


@attrs.define
class Line:
    """A channel that stores the posts; *core* and the other fields are the app behind it."""

    posts: list[Post] = attrs.field(factory=list)
    heard: Post | None = None  # the last one that `hear` returned
    core: Core | None = None
    others: Gathered | None = None
    app: App | None = None
    _came: trio.Event = attrs.field(factory=trio.Event)

    @property
    def feature(self) -> Feature:
        """The channel."""

        async def make(core: Core, others: Gathered) -> Parts:
            await trio.lowlevel.checkpoint()
            self.core, self.others = core, others
            post: Mailbox[OutboxMail] = Mailbox("outbox line", 256)
            channel = LineChannel(
                name="line", outbox=post.address, owner=(ROUTE,), owners=frozenset({OWNER.id})
            )
            outbox = Actor(step=1, mailbox=post, body=self._post, policy=WORLD)
            return Parts(channels=[channel], actors=[outbox])

        return Feature(name="line", build=make)

    async def _post(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for message in mailbox:
            if isinstance(message, Post):
                self.posts.append(message)
                message.reply.set(Sent(str(len(self.posts))))
                self._came.set()
                self._came = trio.Event()
            elif isinstance(message, Edit):
                message.reply.set(Sent(message.message))

    @property
    def texts(self) -> list[str]:
        """Return the posts."""
        return [post.part.text for post in self.posts]

    async def say(self, text: str) -> None:
        """Send *text*; return when it is accepted."""
        core = self.core
        assert core is not None
        name, now = f"line:{core.environment.new_id()}", core.clock.now()

        def inbound() -> Inbound:
            return Inbound(
                session="line", id=name, principal=OWNER, route=ROUTE, text=text, sent_at=now
            )

        assert await core.sessions.insist(inbound) == Taken()

    async def hear(self, what: Callable[[str], bool]) -> str:
        """Wait for the post that is *what* the caller wants; earlier posts are consumed."""
        with trio.fail_after(LIMIT):
            while True:
                for number, text in enumerate(self.texts):
                    if what(text):
                        self.heard = self.posts[number]
                        del self.posts[: number + 1]
                        return text
                await self._came.wait()

    async def ask(self, text: str) -> str:
        """Send *text*, and return the next post."""
        self.posts.clear()
        await self.say(text)
        return await self.hear(lambda said: True)


@asynccontextmanager
async def talking(
    config: Config, features: Sequence[Feature], providers: dict[str, Provider]
) -> AsyncIterator[Line]:
    """Run the app of *features*, with a line to it."""
    line = Line()
    async with (
        build(config, Environment(), (line.feature, *features), providers) as app,
        trio.open_nursery() as nursery,
    ):
        line.app = app
        nursery.start_soon(app.run)
        yield line
        app.core.stop.set()
