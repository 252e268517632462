"""Sessions with simple neighbours: a scripted model, and an outbox that stores its posts.

A `Kill` simulates kill -9: no handler stops it, and the disk accepts no further write.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TypeVar

import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.messages import (
    Draft,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.inbound import Inbound, Principal, Reception
from elwood.agent.conversation.message import Human, Notice, Results, remove_opening
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import OwnerClock, TurnSettings
from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.ledger import Spent, Tally
from elwood.agent.models.messages import Complete, Completed, Embed, MayAsk, ModelsMail
from elwood.agent.models.settings import ModelSettings, RoleSettings
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.actor import Sessions
from elwood.agent.session.admission import Admission
from elwood.agent.session.commands.built_in import BUILT_IN
from elwood.agent.session.core import Core
from elwood.agent.session.extension import Extensions, SessionExtension, SlashCommand
from elwood.agent.session.live import LiveSessions
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.agent.session.settings import SessionSettings
from elwood.agent.tools.talk import Messenger
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import (
    ActorTable,
    Blocking,
    Child,
    Mailbox,
    RestartPolicy,
    inline,
    supervise,
)
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import AnchoringMail
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.files import Root
from tests.agent.session.gates import Approver, Typed
from tests.agent.session.scripted import Effects, answer
from tests.reminders import TOLD_AGAIN

H = TypeVar("H", bound="Process")
ME = Principal("me", "Me", owner=True)
ROUTE = Route("chat")
# The tools of tests need no approval, unless the test is about approvals.
FREE = ("act", "keep", "hang", "tap", "crash")
ALWAYS = RestartPolicy(first_delay=0.1, max_crashes=None)


class World:
    """Everything that survives the process: the disk, the reader, the effects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: Callable[[], Calls] = Calls
        self.posts: list[Post] = []
        self.decided: list[Typed] = []
        self.drafts: list[str] = []
        self.typing = 0
        self.outcomes: list[Sent | Unsure | Unsent | Undeliverable] = []
        self.effects = Effects()
        self.model: Callable[[Complete], Awaitable[Completed]] = echo
        self.asked: list[Complete] = []
        self.spent = Spent(today="1970-01-01", session=Tally(), day=Tally(), month=Tally())
        self.numbers = itertools.count(1)
        self.settings = TurnSettings()
        self.idle = 600.0
        self.in_memory = 16
        self.zone: tzinfo = UTC
        self.archive = 86_400.0
        self.dry_run = False
        # The tools that need no approval.
        self.free: tuple[str, ...] = FREE
        # The extensions of features.
        self.extend: Callable[[Process], Sequence[Callable[[SessionLog], SessionExtension]]] = (
            lambda process: ()
        )
        self.commands: Callable[[Process], Sequence[SlashCommand]] = lambda process: ()
        self.admission = Admission()
        self.blocking: Blocking = inline
        self.redactor = Redactor([Secret("hunter2")])
        # Unix time. It continues over restarts, and Trio's clock does not.
        self.now: Callable[[], float] = trio.current_time
        self.before_post: Callable[[Post], Awaitable[None]] = do_nothing
        self.after_post: Callable[[Post], Awaitable[None]] = do_nothing

    @property
    def said(self) -> list[str]:
        """The texts that reached the reader, in order; a repeat is marked."""
        return [("(again) " if post.repeat else "") + post.part.text for post in self.posts]


async def describe_status() -> str:
    """Return the status of a feature."""
    return "Elwood is well."


async def do_nothing(post: Post) -> None:
    """Do nothing before a message is sent."""


async def echo(request: Complete) -> Completed:
    """Answer with all messages and results since the last answer."""
    await trio.lowlevel.checkpoint()
    words = []
    for message in reversed(request.messages):
        if isinstance(message, Results):
            words += [result.text for result in message.results]
        elif isinstance(message, Human):
            words.append(remove_opening(message.text).split("\n", 1)[-1])
        elif not (isinstance(message, Notice) and message.text.startswith(TOLD_AGAIN)):
            break
    return answer("re: " + " | ".join(reversed(words)))


class Process:
    """One process with its sessions. It runs until the scope ends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sessions: Mailbox[SessionsMail] = Mailbox("sessions", 256)
        self.models: Mailbox[ModelsMail] = Mailbox("models", 32)
        self.outbox: Mailbox[OutboxMail] = Mailbox("outbox", 64)
        self.actor_table = ActorTable(trio.current_time)
        self.stop = trio.Event()
        self.disk = Disk(blocking=world.blocking, clock=world.now, calls=world.calls())
        folder = world.folder / "sessions/open"
        self.live = LiveSessions(folder, self.disk, trio.current_time)
        self.approver = Approver(self.world.decided)
        self.approver.hint = lambda: self.sessions.address.offer(Decided("s"))

    async def say(self, text: str, id_: str | None = None, **named: str) -> Reception:
        """Send a message like a channel: repeat it until it is accepted."""
        number = next(self.world.numbers)

        def make() -> Inbound:
            return Inbound(
                session=named.get("session", "s"),
                id=id_ or f"m{number}",
                principal=ME,
                route=ROUTE,
                text=text,
                sent_at=self.world.now(),
                message=named.get("message"),
                edits=named.get("edits"),
                quote=named.get("quote"),
            )

        return await self.sessions.address.insist(make)

    async def talk(self, *texts: str) -> None:
        """Send each message and wait for its answer."""
        for text in texts:
            await self.say(text)
            await self.quiet()

    def interrupt(self) -> None:
        """Press the stop button."""
        assert self.sessions.address.offer(Interrupt("s"))

    @property
    def states(self) -> Mapping[str, Session]:
        """The current states of the sessions in memory."""
        return self.live.states

    async def quiet(self) -> None:
        """Wait until no session has pending work."""
        await self.live.quiet()

    def children(self) -> Sequence[Child]:
        """Return all actors, the lowest layer first."""
        return (
            Child(self.outbox, self._outbox, ALWAYS),
            Child(self.models, self._models, ALWAYS),
            Child(self.approver.mailbox, self.approver.run, ALWAYS),
            Child(self.sessions, self._sessions, ALWAYS, grace=20.0),
        )

    async def _outbox(self, mailbox: Mailbox[OutboxMail]) -> None:
        async for message in mailbox:
            match message:
                case Post():
                    await self.world.before_post(message)
                    outcome = self.world.outcomes.pop(0) if self.world.outcomes else Sent("1")
                    if isinstance(outcome, Sent | Unsure):
                        self.world.posts.append(message)
                    await self.world.after_post(message)
                    message.reply.set(outcome)
                case Draft():
                    self.world.drafts.append(message.text)
                case Typing():
                    self.world.typing += 1

    async def _models(self, mailbox: Mailbox[ModelsMail]) -> None:
        async with trio.open_nursery() as nursery:
            async for message in mailbox:
                if isinstance(message, Complete):
                    nursery.start_soon(self._complete, message)
                elif isinstance(message, MayAsk):
                    message.reply.set("")
                elif isinstance(message, Embed):
                    message.reply.set(EmbeddingFailed("there is no embedding model"))
                else:
                    message.reply.set(self.world.spent)

    async def _complete(self, request: Complete) -> None:
        self.world.asked.append(request)
        with request.reply.while_wanted():
            request.reply.set(await self.world.model(request))

    async def _sessions(self, mailbox: Mailbox[SessionsMail]) -> None:
        world = self.world
        (world.folder / "workspace").mkdir(exist_ok=True)
        async with AsyncExitStack() as closing:
            core = self._core(closing)
            extensions = Extensions(
                sessions=world.extend(self),
                commands=(*BUILT_IN, *world.commands(self)),
                status=[describe_status],
            )
            tools = list(world.effects.tools())
            messenger = Messenger(core.channels, core.approvals)
            pool = Sessions(core, tools, messenger, extensions, dry_run=world.dry_run)
            await pool.run(mailbox, grace=20.0, listener=lambda event: None, wakes=lambda id_: True)

    def _core(self, closing: AsyncExitStack) -> Core:
        world, paths = self.world, self._paths()
        clock = OwnerClock(world.now, world.zone)
        environment = Environment(now=world.now, blocking=world.blocking, calls=world.calls)
        channels = Channels()
        chat = Channel(name="chat", outbox=self.outbox.address, owner=(), owners=frozenset({ME.id}))
        channels.add(chat)
        config = Config.from_values(
            paths,
            world.settings,
            SessionSettings(idle=world.idle, in_memory=world.in_memory, archive=world.archive),
            PolicySettings(allow=world.free),
            ModelSettings(roles={"default": RoleSettings(max_tokens=1000)}),
        )
        return Core(
            config=config,
            environment=environment,
            clock=clock,
            redactor=world.redactor,
            disk=self.disk,
            workspace=Root(paths.workspace),
            table=self.actor_table,
            sessions=self.sessions.address,
            children=Mailbox[SessionsMail]("child runs", 1).address,
            approvals=self.approver.mailbox.address,
            models=self.models.address,
            anchoring=Mailbox[AnchoringMail]("anchors", 1).address,
            channels=channels,
            live=self.live,
            admission=world.admission,
            events=Mailbox("health", 256),
            up=trio.Event(),
            stop=self.stop,
            closing=closing,
        )

    def _paths(self) -> Paths:
        folder = self.world.folder
        return Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run")


@asynccontextmanager
async def run_process(world: World) -> AsyncIterator[Process]:
    """Run a process; leaving the block sends SIGTERM."""
    async with keep_running(Process(world)) as one:
        yield one


@asynccontextmanager
async def keep_running(one: H) -> AsyncIterator[H]:
    """Run *one*; leaving the block sends SIGTERM."""
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await supervise(
                one.children(),
                stop=one.stop,
                listener=lambda event: None,
                actor_table=one.actor_table,
            )
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        yield one
        one.stop.set()
