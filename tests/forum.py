"""A second channel: a forum whose ids are words, with private chats, rooms and threads in both.

The names of its people differ from those of their private chats, it counts in characters, and it
shares no people with Telegram.
"""

from itertools import count

import attrs
import trio

from elwood.agent.approvals.messages import ButtonPressed
from elwood.agent.channels.channel import Channel
from elwood.agent.channels.client import IntakeReplies, ask
from elwood.agent.channels.messages import Edit, OutboxMail, Post, Sent, Undeliverable
from elwood.agent.conversation.inbound import Inbound, Principal
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.people.messages import Known, Meet, Stranger
from elwood.agent.session.core import Core
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.splitting import MessageSize, character_offsets

NAME, PEOPLE, SESSIONS = "forum", "fo:", "fo-"
# Characters of one message.
LIMIT = 2000
SIZE = MessageSize(LIMIT, character_offsets)
OWNER = "ann"


def is_room(principal: str) -> bool:
    return principal.startswith(f"{PEOPLE}room.")


def home(user: str, thread: str = "") -> Route:
    """Return the private chat with *user*."""
    return Route(NAME, f"dm.{user}", thread)


class ForumChannel(Channel, frozen=True, kw_only=True):
    def session(self, route: Route) -> str | None:
        return session_of(route) if route.private else None

    def recipient(self, principal: str) -> Route | None:
        return None if is_room(principal) else home(principal.removeprefix(PEOPLE))

    def is_group(self, principal: str) -> bool:
        return is_room(principal)

    def is_private(self, chat: str) -> bool:
        return chat.startswith("dm.")

    def group(self, session: str) -> str | None:
        chat = session.removeprefix(SESSIONS).partition("_")[0]
        return f"forum.{chat}" if chat.startswith("room.") else None

    def is_owners(self, session: str) -> bool:
        chat = session.removeprefix(SESSIONS).partition("_")[0]
        return any(chat == one.chat for one in self.owner)


def session_of(route: Route) -> str:
    return f"{SESSIONS}{route.chat}" + (f"_{route.thread}" if route.thread else "")


@attrs.define
class Forum:
    """The forum, which survives the process, and Elwood's side of it."""

    posts: list[Post] = attrs.field(factory=list)
    edits: list[Edit] = attrs.field(factory=list)
    came: trio.Event = attrs.field(factory=trio.Event)
    core: Core | None = None
    _replies: IntakeReplies | None = None
    _numbers: "count[int]" = attrs.field(factory=lambda: count(1))

    @property
    def feature(self) -> Feature:
        return Feature(
            name=NAME, build=self._build, is_channel=True, sessions=SESSIONS, is_group=is_room
        )

    async def _build(self, core: Core, others: Gathered) -> Parts:
        await trio.lowlevel.checkpoint()
        post: Mailbox[OutboxMail] = Mailbox("outbox forum", 256)
        channel = ForumChannel(
            name=NAME,
            outbox=post.address,
            people=PEOPLE,
            sessions=SESSIONS,
            owner=(home(OWNER),),
            owners=frozenset({PEOPLE + OWNER}),
            size=SIZE,
            buttons=True,
        )
        self.core, self._replies = core, IntakeReplies(post.address)
        return Parts(
            channels=[channel], actors=[Actor(step=1, mailbox=post, body=self._send, policy=WORLD)]
        )

    async def _send(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for mail in mailbox:
            if isinstance(mail, Post):
                assert mail.route.channel == NAME
                if len(mail.part.text) > LIMIT:
                    mail.reply.set(Undeliverable("it is too long"))
                    continue
                self.posts.append(mail)
                self.came.set()
                mail.reply.set(Sent(f"post.{len(self.posts)}"))
            elif isinstance(mail, Edit):
                self.edits.append(mail)
                mail.reply.set(Sent(mail.message))

    def texts(self, chat: str, thread: str = "") -> list[str]:
        """Return the posts there."""
        found = [one for one in self.posts if one.route.chat == chat]
        return [one.part.text for one in found if one.route.thread == thread]

    async def say(self, user: str, text: str, room: str = "", thread: str = "") -> None:
        """Deliver *user*'s private message, or one in a *room*, like the intake of a channel."""
        core, replies, number = self.core, self._replies, next(self._numbers)
        assert core is not None
        assert replies is not None
        route = home(user, thread)
        if room:
            route = Route(NAME, f"room.{room}", thread, private=False, reply_to=f"said.{number}")
        who = speaker = Principal(f"{PEOPLE}{user}", user.title(), owner=user == OWNER)
        if room:
            group = f"{PEOPLE}{route.chat}"
            met = await ask(
                core.approvals,
                lambda: Meet(principal=group, name=room, route=route, brought=speaker),
            )
            if not isinstance(met, Known):
                return
        if not who.owner:
            met = await ask(
                core.approvals,
                lambda: Meet(principal=speaker.id, name=speaker.name, route=route, asks=not room),
            )
            if isinstance(met, Stranger) and not room:
                await replies.send_text(route, f"Your code: {met.code}")
                return
            who = Principal(who.id, who.name, False, member=met == Known("member"))
        sent_at = core.clock.now()
        taken = await ask(
            core.sessions,
            lambda: Inbound(
                session=session_of(route),
                id=f"forum:{number}",
                principal=who,
                route=route,
                text=text,
                sent_at=sent_at,
                message=f"said.{number}",
            ),
        )
        await replies.report_refusal(taken, number, route)

    async def press(self, post: Post, label: str, user: str = OWNER) -> str:
        """Press the button that begins with *label*; return its popup text."""
        assert self.core is not None
        [data] = [one.data for one in post.buttons if one.text.startswith(label)]
        pressed = ButtonPressed(
            principal=PEOPLE + user,
            data=data,
            route=post.route,
            message=f"post.{self.posts.index(post) + 1}",
        )
        return (await self.core.approvals.ask(pressed)).text
