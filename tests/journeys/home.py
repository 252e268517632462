"""The real Elwood in this process; its disk, Telegram and model fail on request.

`Home` outlives a process; `Life` is one process. Time is virtual, and there are no sockets.
"""

import itertools
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
import trio
from trio.testing import MockClock

from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.message import (
    Completion,
    Human,
    Message,
    Notice,
    Results,
    remove_opening,
)
from elwood.agent.feature import Feature
from elwood.agent.media.client import FileFetcher, file_keeper
from elwood.agent.media.settings import MediaSettings
from elwood.agent.models.client import ModelRequest, Provider, Shown
from elwood.agent.models.embeddings import Embedder
from elwood.agent.models.ledger import Charged
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core, inspect
from elwood.agent.session.inspection import Inspection
from elwood.agent.session.log.entries import CallEnded, Entry
from elwood.agent.session.log.state import Session
from elwood.agent.tools.tool import Tool
from elwood.app.build import App, build
from elwood.app.main import FEATURES
from elwood.features.daily_notes.settings import DailyNotesSettings
from elwood.features.memory.parts import build as build_memory
from elwood.features.memory.settings import LearningSettings
from elwood.features.tasks.messages import TimetableChanged
from elwood.features.telegram.channel import TelegramChannel, list_allowed, route_to
from elwood.features.telegram.client import Bot, Downloads
from elwood.features.telegram.intake import Intake
from elwood.features.telegram.outbox import Outbox
from elwood.features.telegram.pacing import Pacing
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.telegram.store import StatusMessages
from elwood.foundation.environment import Environment, Notify
from elwood.foundation.net.connections import Network
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import ActorTable, Address, Escalated, Mailbox
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths
from tests.agent.session.scripted import Effects, answer, call
from tests.fake_http import Answer, connection
from tests.fake_telegram import OWNER, TOKEN, FakeTelegram
from tests.features.telegram.neighbours import UNPACED
from tests.journeys.disk import BadDisk, Kill
from tests.journeys.judging import broken_promises, fold, journals, read
from tests.model_roles import asking
from tests.reminders import OFFERED, TOLD_AGAIN

T = TypeVar("T")
# Time of Elwood's first start, Unix seconds.
EPOCH = 1_780_000_000.0
MODEL = "scripted/m"
# A second owner of the bot, with a separate session.
OTHER = 1002
MINE, OTHERS = f"tg-{OWNER}", f"tg-{OTHER}"
# Features whose tools are only for tests that request them, with separate sandboxes or servers.
WITHOUT = ("files", "shell", "web")
# Tools of tests that run without approval.
FREE = ("act", "keep", "hang", "shell", "deaf")
# Seconds in which work started by the scheduler finishes.
DONE = 4.0
Think = Callable[[ModelRequest], Completion | Awaitable[Completion]]
TellText = Callable[[Shown], None]
Body = Callable[[Mailbox[None]], Awaitable[None]]
OutboxBody = Callable[[Mailbox[OutboxMail]], Awaitable[None]]


def remove_times(text: str) -> str:
    """Remove the time and number of receipts."""
    return re.sub(r"(?m) · \d\d:\d\d( #[-\d, ]+)?$", "", text)


def newest_message(request: ModelRequest) -> str:
    """Return the newest message without daily notes, time and reminders."""
    along = (OFFERED, *TOLD_AGAIN)
    said = [m for m in request.messages if not (isinstance(m, Notice) and m.text.startswith(along))]
    last: Message = said[-1]
    if isinstance(last, Results):
        return " | ".join(result.text for result in last.results)
    if isinstance(last, Notice):
        return last.text
    assert isinstance(last, Human)
    text = remove_opening(last.text).split("\n", 1)[-1]
    return re.sub(r"^\[[^\[\]]* \((?:admin|member|guest)\)\]: ", "", text)


def follow_message(request: ModelRequest) -> Completion:
    """Call the tools named after "call"; else repeat the message, or the tool results."""
    text = newest_message(request)
    if isinstance(request.messages[-1], Human) and text.startswith("call "):
        words = text.removeprefix("call ").split(", ")
        return call(*(_call(number, *word.split(" ", 1)) for number, word in enumerate(words)))
    return answer(f"re: {text}")


def _call(number: int, name: str, given: str = "") -> tuple[str, str, str]:
    return (f"c{number}", name, f'{{"name": "{given}"}}' if given else "{}")


class Scripted:
    """A provider in this process; its home decides the answers."""

    codec = "scripted"

    def __init__(self, home: "Home") -> None:
        self._home = home

    async def complete(self, request: ModelRequest, show: TellText) -> Completion:
        self._home.asked.append(request)
        self._home.show = show
        show("")
        await trio.lowlevel.checkpoint()
        completion = self._home.think(request)
        return completion if isinstance(completion, Completion) else await completion


@attrs.define
class Home:
    """The world outside the process, which survives it."""

    folder: Path
    runtime: Path
    fake: FakeTelegram
    # How Elwood's clients connect.
    network: "Wires"
    disk: BadDisk = attrs.field(factory=BadDisk)
    effects: Effects = attrs.field(factory=Effects)
    asked: list[ModelRequest] = attrs.field(factory=list)
    think: Think = follow_message
    show: TellText = lambda text: None
    clock_error: float = 0.0
    # Tools of the test, and names of those of the features.
    more_tools: tuple[Tool | str, ...] = ()
    # Features that replace those of the same names.
    features: tuple[Feature, ...] = ()
    embedder: Embedder | None = None
    more_channels: tuple[Feature, ...] = ()
    # Whether the bot uses Telegram.
    telegram: bool = True
    settings: dict[str, Any] = attrs.field(factory=dict)
    # Group chats that the bot is in.
    groups: tuple[int, ...] = ()
    observe: bool = False
    allowed_chats: tuple[int, ...] = ()
    pairing: Literal["code", "off"] = "code"
    pacing: Pacing = UNPACED
    # Whether Telegram renders Markdown itself.
    markdown: bool = False
    # Wrappers of the channel's bodies: a place for bugs.
    outbox: Callable[[Mailbox[OutboxMail], OutboxBody], Awaitable[None]] | None = None
    intake: Callable[[Mailbox[None], Body], Awaitable[None]] | None = None
    notify: Notify = attrs.field(factory=Notify)
    made: Config | None = None
    state_folder: Path | None = None
    providers: dict[str, Callable[[Client, Callable[[], float]], Provider]] = attrs.field(
        factory=dict
    )
    model: str = MODEL
    hold: trio.Event | None = None
    # Seconds that each disk operation takes.
    slow: float = 0.0
    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))

    def now(self) -> float:
        """Return the wall clock."""
        return EPOCH + trio.current_time() - self.clock_error

    def kill(self, place: str, *, nth: int = 1, file: str = "") -> None:
        """Kill the process at *place* (see `tests.journeys.disk`)."""
        self.disk.at(place, self.disk.die, nth=nth, file=file)

    def hold_disk(self) -> None:
        """Block all further disk operations."""
        self.hold = trio.Event()

    def release_disk(self) -> None:
        """Unblock them."""
        if self.hold is not None:
            self.hold.set()
            self.hold = None

    async def blocking(self, fn: Callable[[], T], /) -> T:
        await trio.sleep(self.slow)
        while self.hold is not None:
            await self.hold.wait()
        return fn()

    @property
    def state(self) -> Path:
        return self.state_folder or self.folder / "state"

    def journal(self, session: str = MINE) -> Path:
        return self.state / "sessions" / f"{session}.jsonl"

    def entries(self, session: str = MINE) -> list[Entry]:
        """Read a session's log without a torn end."""
        return [entry for _, _, entry in read(self.journal(session), Entry)]

    def names(self, session: str = MINE) -> list[str]:
        """Return the tags of a session's entries."""
        return [entry.__struct_config__.tag for entry in self.entries(session)]  # type: ignore[misc]

    def call_outcomes(self) -> list[tuple[str, str]]:
        """Return each call's tool with target, and its outcome."""
        return [
            (f"{entry.tool} {entry.target}".strip(), entry.outcome)
            for entry in self.entries()
            if isinstance(entry, CallEnded)
        ]

    def fold(self, session: str = MINE) -> Session:
        """Fold a session's log."""
        return fold(self.state, session)

    def usage_entries(self) -> list[Charged]:
        """Read the usage journal."""
        found = read(self.state / "usage.jsonl", Charged)
        return [entry for _, _, entry in found if isinstance(entry, Charged)]

    @property
    def sessions(self) -> list[str]:
        return [path.stem for path in (self.state / "sessions").glob("*.jsonl")]

    def texts(self, chat: int = OWNER) -> list[str]:
        """Return messages to people, without alarms and without times of receipts."""
        told = ("⚠ Problem", "✓ Resolved", "(again) ⚠", "(again) ✓")
        return [remove_times(text) for text in self.fake.texts(chat) if not text.startswith(told)]

    def alarms(self) -> list[str]:
        """Return the alarms sent to the owner."""
        return [text for text in self.fake.texts(OWNER) if "⚠ Problem" in text]

    def config(self) -> Config:
        """Return the configuration: *made*, or a default for tests."""
        if self.made is not None:
            return self.made
        paths = Paths(state=self.state, workspace=self.folder / "workspace", runtime=self.runtime)
        # Scripted models are not used as observers; these can be.
        names = ("scripted", *self.providers)
        return Config.from_values(
            paths,
            Providers({name: ProviderSettings(api="openai") for name in names}),
            asking(self.model, self.model),
            PolicySettings(allow=FREE),
            # An extra call during idle times, for tests that want it.
            LearningSettings(mode="off"),
            DailyNotesSettings(reflections=False),
            *self.settings.values(),
            file=self.folder / "config.toml",
        )

    def broken_promises(self) -> list[str]:
        """List the broken promises."""
        sent = [(message.chat, message.text) for message in self.fake.sent]
        return broken_promises(journals(self.state), sent, self.effects.done)

    @asynccontextmanager
    async def life(self) -> AsyncIterator["Life"]:
        """Run one process; leaving the block sends SIGTERM unless it is dead."""
        self.disk.revive()
        self.hold = None
        life = Life(self)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(life.run)
            await life.built.wait()
            try:
                yield life
            except BaseException:
                nursery.cancel_scope.cancel()
                raise
            await life.built.wait()
            if life.app is not None:
                life.app.core.stop.set()
            with trio.fail_after(120):
                await life.over.wait()


class Life:
    """One process."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.app: App | None = None
        self.built = trio.Event()
        self.over = trio.Event()
        self.was_killed = False
        self.escalated: Escalated | None = None
        self._clients: list[Client] = []
        self._scope = trio.CancelScope()
        self._config = home.config()
        for folder in (self._config.get(Paths).state, self._config.get(Paths).workspace):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def run(self) -> None:
        """Run until the end of the process."""
        home = self.home
        environment = Environment(
            now=home.now,
            random=lambda: 0.5,
            new_id=lambda: f"id{next(home.numbers)}",
            blocking=home.blocking,
            calls=lambda: home.disk,
            notify=home.notify,
        )
        providers: dict[str, Provider] = {"scripted": Scripted(home)}
        for name, make in home.providers.items():
            providers[name] = make(self._client(), home.now)
        try:
            with self._scope:
                async with build(self._config, environment, self._features(), providers) as app:
                    self.app = app
                    self.built.set()
                    await app.run()
        except* Kill:
            self.was_killed = True
        except* Escalated as group:
            self.escalated = _one(group)
        finally:
            self.home.disk.dead = True
            self.built.set()
            self.over.set()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                for client in self._clients:
                    await client.aclose()

    def _features(self) -> list[Feature]:
        """Return the real features, with only the tools the test wants, and the test's own."""
        home = self.home
        given = (*home.effects.tools(), *home.more_tools)
        left = {tool if isinstance(tool, str) else tool.name: tool for tool in given}

        def limited(feature: Feature) -> Feature:
            async def build_(core: Core, others: Gathered) -> Parts:
                parts = await feature.build(core, others)
                wanted = [tool for tool in parts.tools if left.pop(tool.name, None) is not None]
                return attrs.evolve(parts, tools=wanted)

            return feature._replace(build=build_)

        async def own(core: Core, others: Gathered) -> Parts:
            await trio.lowlevel.checkpoint()
            tools = [tool for tool in left.values() if isinstance(tool, Tool)]
            assert len(tools) == len(left), "no feature has a tool of this name"
            return Parts(tools=tools)

        memory = Feature(name="memory", build=partial(build_memory, embedder=home.embedder))
        own_ones = {one.name: one for one in (memory, *home.features)}
        features = [
            limited(own_ones.get(one.name, one))
            for one in FEATURES
            if one.name in own_ones or one.name not in WITHOUT
        ]
        own_tools = Feature(name="own", build=own)
        telegram = [self._telegram()] if home.telegram else []
        return [*telegram, *home.more_channels, *features, own_tools]

    @property
    def core(self) -> Core:
        """Return the process's core."""
        assert self.app is not None
        return self.app.core

    def address(self, name: str) -> Address[Any]:
        """Return the actor *name*."""
        assert self.app is not None
        [found] = [one.mailbox for one in self.app.actors if one.mailbox.name == name]
        return found.address

    def kill(self) -> None:
        """Kill the process, as kill -9 does."""
        self.home.disk.dead = True
        self.was_killed = True
        self._scope.cancel()

    async def wait_for_kill(self) -> None:
        """Wait for the requested kill."""
        with trio.fail_after(1000):
            await self.over.wait()
        assert self.was_killed, "it ended, but was not killed"

    async def say(self, *texts: str, chat: int = OWNER, **more: Any) -> str:
        """Send each message, wait for all work; return the last text sent to *chat*."""
        for text in texts:
            self.home.fake.say(text, chat=chat, user=chat, **more)
            await self.wait_until_idle()
        return (self.home.texts(chat) or [""])[-1]

    async def pass_time(self, seconds: float) -> None:
        """Advance the wall clock, and let the scheduler do the due work."""
        self.home.clock_error -= seconds
        self.address("scheduler").offer(TimetableChanged())
        await trio.sleep(DONE)

    async def wait_until_idle(self, seconds: float = 600.0) -> None:
        """Wait until no work is left."""
        home = self.home

        def is_settled() -> bool:
            assert not self.over.is_set(), f"Elwood ended: {self.escalated}"
            idle = all(home.fold(session).is_idle for session in home.sessions)
            return idle and not home.fake.unconfirmed

        await self.until(is_settled, seconds)

    async def until(self, true: Callable[[], object], seconds: float = 600.0) -> None:
        """Poll until the condition holds; files and boards send no events."""
        with trio.fail_after(seconds):
            while True:
                if true():
                    return
                await trio.sleep(0.25)

    @property
    def actor_table(self) -> ActorTable:
        return self.core.table

    def inspect(self) -> Inspection:
        """Return the output of `elwood inspect`."""
        return inspect(self.core)

    def stuck_actors(self) -> list[str]:
        """Return the actors marked as stuck."""
        return [f"{stuck.actor}: {stuck.what}" for stuck in self.actor_table.stuck()]

    def _client(self) -> Client:
        self._clients.append(Client(connections=8, network=self.home.network))
        return self._clients[-1]

    def _telegram(self) -> Feature:
        """Build the channel, with clients that are closed at the end, and places for bugs."""
        home = self.home
        owners = (OWNER, OTHER)
        settings = TelegramSettings(
            token=Secret(TOKEN),
            owners=owners,
            groups=home.groups,
            base_url=home.fake.url,
            poll=50,
            observe=home.observe,
            allowed_chats=home.allowed_chats,
            pairing=home.pairing,
        )

        async def build_(core: Core, others: Gathered) -> Parts:
            await trio.lowlevel.checkpoint()
            post: Mailbox[OutboxMail] = Mailbox("outbox telegram", 256)
            media, blocking = core.config.get(MediaSettings), core.environment.blocking
            fetching = self._client()
            keeper = file_keeper(media, core.workspace, core.paths.state, blocking)
            downloads = Downloads(Bot(settings, fetching), None, blocking)
            bot = Bot(settings, self._client())
            actor = Intake(
                Bot(settings, self._client()),
                settings,
                sessions=core.sessions,
                approvals=core.approvals,
                outbox=post.address,
                random=core.environment.random,
                now=core.clock.now,
                commands=others.commands,
                note_return=core.note_return,
            )

            async def intake(mailbox: Mailbox[None]) -> None:
                await (home.intake(mailbox, actor.run) if home.intake else actor.run(mailbox))

            async def outbox(mailbox: Mailbox[OutboxMail]) -> None:
                status = StatusMessages(core.paths.state / "telegram", core.disk)
                made = Outbox(bot, status, random=lambda: 0.5, pacing=home.pacing)
                body = made.run
                await (home.outbox(mailbox, body) if home.outbox else body(mailbox))

            channel = TelegramChannel(
                sessions="",  # without a terminal this session includes the console's usual tools
                outbox=post.address,
                owner=(route_to(OWNER),),
                owners=frozenset(f"tg:{user}" for user in owners),
                rich_messages=home.markdown,
                allowed=list_allowed(settings),
                fetcher=FileFetcher(keeper, downloads.download, media, fetching),
            )
            listening = Mailbox[None]("telegram", 16)
            return Parts(
                channels=[channel],
                actors=[
                    Actor(step=1, mailbox=post, body=outbox, policy=WORLD),
                    Actor(step=6, mailbox=listening, body=intake, policy=WORLD, grace=1.0),
                ],
            )

        return Feature(name="telegram", build=build_)


def _one(group: ExceptionGroup[Escalated]) -> Escalated:
    [error] = group.exceptions
    assert isinstance(error, Escalated)
    return error


@contextmanager
def short_folder() -> Iterator[Path]:
    """Create a folder for sockets."""
    # A Unix socket path has at most 107 bytes, and pytest's folders are long.
    with tempfile.TemporaryDirectory(prefix="elwood") as name:
        yield Path(name) / "run"


@asynccontextmanager
async def home(folder: Path, *, jump: float = 0.0) -> AsyncIterator[Home]:
    """Create a home where no process has run yet.

    Time jumps after *jump* real seconds without events: 0, unless threads or kernel sockets are
    involved.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock), "a test that opens a home uses virtual_time"
    clock.autojump_threshold = jump
    fake = FakeTelegram(clock=lambda: EPOCH + trio.current_time())
    with short_folder() as runtime:
        async with trio.open_nursery() as nursery:
            network = Wires(nursery, {fake.port: fake.respond})
            yield Home(folder, runtime, fake, network=network)
            assert not fake.violations, fake.violations
            nursery.cancel_scope.cancel()


class Wires(Network):
    """Connect to servers by port without the kernel; the servers run in *nursery*.

    Virtual time can jump as soon as everything is idle, because nothing is in transit.
    """

    def __init__(self, nursery: trio.Nursery, servers: dict[int, Answer]) -> None:
        self._nursery = nursery
        self._servers = servers
        self._ends: list[Any] = []
        self._is_cut = False

    def cut(self, is_cut: bool = True) -> None:
        """Break all connections and refuse new ones, or accept them again."""
        self._is_cut = is_cut
        for end in self._ends:
            end.send_stream.close()
            end.receive_stream.close()
        self._ends.clear()

    def serve(self, answer: Answer) -> str:
        """Add a server; return its URL."""
        port = max(self._servers) + 1
        self._servers[port] = answer
        return f"http://127.0.0.1:{port}"

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if self._is_cut:
            raise OSError("the wire is cut")
        here, there = trio.testing.memory_stream_pair()
        self._ends.append(there)
        self._nursery.start_soon(connection(self._servers[port]), there)
        return here
