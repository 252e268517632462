"""Intake and Outbox under a real supervisor, against a fake Bot API, with scripted neighbours."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail, ButtonPressed
from elwood.agent.channels.messages import (
    Draft,
    Edit,
    OutboxMail,
    Post,
    Reachable,
    Sent,
    Status,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.channels.pacing import Bucket
from elwood.agent.conversation.inbound import Busy, CommandResult, Inbound, Refused, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.media.client import FileFetcher, file_keeper
from elwood.agent.media.settings import MediaSettings
from elwood.agent.people.messages import (
    ApprovePairing,
    EndAccess,
    Known,
    Meet,
    MovedGroups,
    MoveGroup,
    Stranger,
)
from elwood.agent.session.commands.built_in import BUILT_IN
from elwood.agent.session.log.entries import Received
from elwood.agent.session.messages import SessionsMail
from elwood.features.telegram.client import Bot, Downloads
from elwood.features.telegram.intake import Intake
from elwood.features.telegram.outbox import Outbox
from elwood.features.telegram.pacing import Pacing
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.telegram.store import StatusMessages
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import (
    ActorTable,
    Child,
    Crashed,
    Event,
    Mailbox,
    in_thread,
    inline,
    supervise,
)
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.text.markdown import Rich
from tests.fake_telegram import OWNER, TOKEN, FakeTelegram

# No limits of our own, so that the limits of the fake apply.
UNPACED = Pacing(
    chat=Bucket(1000, 1000),
    group=Bucket(1000, 1000),
    previews=Bucket(1000, 1000),
    total=1000.0,
    draft_gap=0.0,
    typing_gap=0.0,
)
HOME = Route("telegram", str(OWNER))


def settings(fake: FakeTelegram, **more: Any) -> TelegramSettings:
    given = {"owners": (OWNER,), "base_url": fake.url} | more
    return TelegramSettings(token=Secret(TOKEN), **given)


def half() -> float:
    return 0.5


def troubles(table: ActorTable) -> list[str]:
    return [t.error for status in table.statuses.values() for t in status.troubles.values()]


@attrs.define
class Neighbours:
    """The scripted actors around Intake, with the messages that they got."""

    actor_table: ActorTable
    events: list[Event] = attrs.field(factory=list)
    inbound: list[Inbound] = attrs.field(factory=list)
    met: list[Meet] = attrs.field(factory=list)
    presses: list[ButtonPressed] = attrs.field(factory=list)
    posts: list[Post] = attrs.field(factory=list)
    reached: list[Reachable] = attrs.field(factory=list)
    returned: list[Route] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)
    edits: list[Edit] = attrs.field(factory=list)
    moved: dict[str, str] = attrs.field(factory=dict)
    # None: no answer.
    take: Callable[[Inbound], Taken | Busy | Refused | None] = lambda _: Taken()
    meet: Callable[[Meet], Known | Stranger] = lambda _: Stranger(None)
    press: Callable[[ButtonPressed], CommandResult] = lambda _: CommandResult("Done.", ok=True)
    post: Callable[[Post], Sent | Unsure | Unsent | Undeliverable] = lambda _: Sent("1")
    workspace: Path = Path()
    fetcher: FileFetcher | None = None
    _changed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.inbound]

    @property
    def notices(self) -> list[str]:
        return [post.part.text for post in self.posts]

    async def until(self, true: Callable[[], Any]) -> None:
        while not true():
            await self._changed.wait()

    async def until_text(self, text: str) -> None:
        await self.until(lambda: text in self.texts)

    async def fetched(self, count: int = 1) -> list[Received]:
        """Wait for this many messages; fetch their files as sessions do."""
        await self.until(lambda: len(self.inbound) >= count)
        return [await self._fetch(one) for one in self.inbound]

    async def _fetch(self, inbound: Inbound) -> Received:
        assert self.fetcher is not None
        given = (inbound.id, inbound.text, inbound.principal.id, inbound.route, inbound.sent_at)
        received = Received(*given, pending=inbound.pending)
        for file in inbound.pending:
            received = received.with_fetched(await self.fetcher.fetch(inbound.session, file))
        return received

    def _stir(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def note_return(self, route: Route) -> None:
        await trio.lowlevel.checkpoint()
        self.returned.append(route)

    async def be_sessions(self, mailbox: Mailbox[SessionsMail]) -> None:
        async for mail in mailbox:
            if isinstance(mail, Inbound):
                self.inbound.append(mail)
                taken = self.take(mail)
                if taken is not None:
                    mail.reply.set(taken)
            self._stir()

    async def be_approvals(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        async for mail in mailbox:
            match mail:
                case Meet():
                    self.met.append(mail)
                    mail.reply.set(self.meet(mail))
                case EndAccess(principal=principal):
                    self.ended.append(principal)
                    mail.reply.set(True)
                case ButtonPressed():
                    self.presses.append(mail)
                    mail.reply.set(self.press(mail))
                case MoveGroup():
                    self.moved[mail.new] = self.moved.get(mail.old, mail.old)
                    mail.reply.set(None)
                case MovedGroups():
                    mail.reply.set(dict(self.moved))
                case ApprovePairing():
                    raise AssertionError("Intake does not pair")
            self._stir()

    async def be_outbox(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for mail in mailbox:
            if isinstance(mail, Reachable):
                self.reached.append(mail)
            elif isinstance(mail, Edit):
                self.edits.append(mail)
                mail.reply.set(Sent(mail.message))
            else:
                assert isinstance(mail, Post)
                self.posts.append(mail)
                mail.reply.set(self.post(mail))
            self._stir()

    def troubles(self) -> list[str]:
        return troubles(self.actor_table)

    def waits(self) -> list[str]:
        return [
            w.what for status in self.actor_table.statuses.values() for w in status.waits.values()
        ]


@asynccontextmanager
async def supervised(
    actor_table: ActorTable, events: list[Event], children: Sequence[Child]
) -> AsyncIterator[None]:
    """Run *children* for the block; none may crash."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def house() -> None:
            await supervise(children, stop=stop, listener=events.append, actor_table=actor_table)

        nursery.start_soon(house)
        yield
        stop.set()
    crashes = [event for event in events if isinstance(event, Crashed)]
    assert not crashes, crashes


@asynccontextmanager
async def intake(fake: FakeTelegram, **more: Any) -> AsyncIterator[Neighbours]:
    """Run an Intake on *fake* with Neighbours around it."""
    around = Neighbours(ActorTable(trio.current_time))
    sessions = Mailbox[SessionsMail]("sessions", 256)
    approvals = Mailbox[ApprovalsMail]("approvals", 64)
    outbox = Mailbox[OutboxMail]("outbox", 64)
    client = Client()
    media = MediaSettings(**more.pop("media", {}))
    folder = Path(tempfile.mkdtemp())
    (folder / "workspace").mkdir()
    keeper = file_keeper(media, Root(folder / "workspace"), folder / "state", in_thread)
    around.workspace = folder / "workspace"
    given = settings(fake, **more)
    downloads = Downloads(Bot(given, client), given.local_files, in_thread)
    around.fetcher = FileFetcher(keeper, downloads.download, media, client)
    actor = Intake(
        Bot(given, client),
        given,
        sessions=sessions.address,
        approvals=approvals.address,
        outbox=outbox.address,
        random=half,
        now=fake.clock,
        commands=BUILT_IN,
        note_return=around.note_return,
    )
    children = [
        Child(outbox, around.be_outbox),
        Child(approvals, around.be_approvals),
        Child(sessions, around.be_sessions),
        Child(Mailbox("telegram", 1), actor.run, grace=1.0),
    ]
    try:
        async with supervised(around.actor_table, around.events, children):
            yield around
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await client.aclose()
        shutil.rmtree(folder)


@attrs.define
class Sender:
    """The address of a running Outbox, with shortcuts for requests."""

    mailbox: Mailbox[OutboxMail]
    actor_table: ActorTable
    bot: Bot

    async def post(
        self, text: str, *, route: Route = HOME, **more: Any
    ) -> Sent | Unsure | Unsent | Undeliverable:
        rich = more.pop("part", None) or Rich(text)
        return await self.mailbox.address.ask(Post(route=route, part=rich, **more))

    def draft(self, text: str, *, route: Route = HOME, draft: int = 1) -> bool:
        return self.mailbox.address.offer(Draft(route=route, draft=draft, unredacted=text))

    def typing(self, *, route: Route = HOME) -> bool:
        return self.mailbox.address.offer(Typing(route=route))

    def runs(self, text: str, *, route: Route = HOME) -> bool:
        return self.mailbox.address.offer(Status(route=route, text=text))

    def troubles(self) -> list[str]:
        return troubles(self.actor_table)


@asynccontextmanager
async def outbox(
    fake: FakeTelegram, *, pacing: Pacing = UNPACED, **more: Any
) -> AsyncIterator[Sender]:
    """Run an Outbox on *fake*."""
    actor_table, events = ActorTable(trio.current_time), list[Event]()
    mailbox = Mailbox[OutboxMail]("outbox", 64)
    client = Client()
    bot = Bot(settings(fake, **more), client)
    folder = Path(tempfile.mkdtemp())
    status = StatusMessages(folder, Disk(blocking=inline, clock=trio.current_time))
    actor = Outbox(bot, status, random=half, pacing=pacing)
    try:
        async with supervised(actor_table, events, [Child(mailbox, actor.run, grace=2.0)]):
            yield Sender(mailbox, actor_table, bot)
    finally:
        shutil.rmtree(folder)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await client.aclose()
