"""The wiring of the house: who exists, what each is given, and who may speak to whom."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import trio

from elwood import __version__
from elwood.actors.approvals import Approvals
from elwood.actors.control import Control
from elwood.actors.health import VITAL, Health, listener
from elwood.actors.models import Models
from elwood.actors.sessions import SessionActor
from elwood.agent.presence import Presence
from elwood.agent.prompting import Prompting
from elwood.agent.surroundings import Surroundings
from elwood.config import Config
from elwood.core.budget import Charged, Ledger
from elwood.core.catalog import choose
from elwood.core.inspection import House as HouseSeen
from elwood.core.permissions import CONTROL, ApprovalEntry, Book
from elwood.core.redaction import so_far, strip
from elwood.core.replay import Session
from elwood.core.session import Entry
from elwood.equipment import Equipment, learning, remembering, typed_code
from elwood.messages import (
    ApprovalsMail,
    Inbound,
    MemoryMail,
    ModelsMail,
    OutboxMail,
    Refused,
    SessionsMail,
)
from elwood.outside import Channel, Doors, Outside
from elwood.runtime import (
    Board,
    Child,
    Event,
    Mailbox,
    PoolPolicy,
    RestartPolicy,
    run_pool,
    supervise,
)
from elwood.status import Status
from elwood.store.disk import Disk
from elwood.store.files import Root
from elwood.store.journal import Journal
from elwood.store.markers import Markers
from elwood.store.usage import UsageBook
from elwood.store.workspace import Workspace
from elwood.tools import Hands, Tool
from elwood.wire.embeddings import Embedder
from elwood.wire.provider import Provider

# Failures of the world are waited for; failures of ours stop the house, and systemd starts it anew.
WORLD = RestartPolicy(max_crashes=None)
OURS = RestartPolicy()
# How long a turn may go on after SIGTERM, seconds; more than this, and systemd would kill us.
LAST_TURN = 20.0
# Share of the context that the system prompt may take.
PROMPT_SHARE = 4


class House:
    """One process: mailboxes, and who reads them."""

    def __init__(
        self,
        config: Config,
        outside: Outside,
        channels: Sequence[Channel],
        *,
        providers: Mapping[str, Provider],
        tools: Sequence[Tool],
        hands: Hands,
        embedder: Embedder | None = None,
        dry_run: bool = False,
        grace: float = LAST_TURN,
    ) -> None:
        self.config = config
        self.outside = outside
        self.board = Board(trio.current_time)
        self.stop = trio.Event()
        self.up = trio.Event()
        self.sessions: Mailbox[SessionsMail] = Mailbox("sessions", 256)
        self.approvals: Mailbox[ApprovalsMail] = Mailbox("approvals", 64)
        self.models: Mailbox[ModelsMail] = Mailbox("models", 256)
        self.memory: Mailbox[MemoryMail] = Mailbox("memory", 32)
        self.outboxes: dict[str, Mailbox[OutboxMail]] = {
            channel.name: Mailbox(f"outbox {channel.name}", 256) for channel in channels
        }
        self._channels = channels
        self._providers = providers
        self._embedder = embedder
        self._grace = grace
        self._started = outside.now()
        self.presence = Presence(trio.current_time)
        state = config.paths.state
        self._disk = Disk(
            blocking=outside.blocking,
            clock=outside.now,
            reserve=state / "reserve",
            calls=outside.calls(),
        )
        self._markers = Markers(state / "sessions" / "open", self._disk)
        self._posts = {name: box.address for name, box in self.outboxes.items()}
        asks = self.approvals.address
        self._equipment = Equipment(
            config,
            hands,
            tools,
            asks,
            channels,
            self._posts,
            self.memory.address,
            outside.now,
            dry_run,
        )
        sandbox = self._equipment.sandbox
        self._status = Status(
            self.models.address, self.board, sandbox, self.strip, config, outside.now
        )
        workspace = Workspace(Root(config.paths.workspace), outside.blocking)
        budget = config.turn.context_tokens // PROMPT_SHARE
        shown = choose(tools, "", config.turn.max_tools)
        self._prompt = Prompting(
            workspace, shown, budget, self.strip, hands.skills, config.skills.always
        )

    async def live(self) -> None:
        """Run until `stop` is set.  Raises Escalated if going on makes no sense."""
        events = Mailbox[Event]("health", 256)
        listen = listener(events.address)
        await supervise(
            self._children(events, listen), stop=self.stop, listener=listen, board=self.board
        )

    def strip(self, text: str) -> str:
        """Take the configured secrets out of *text*."""
        return strip(text, self.config.secrets)

    # --- the actors, the lowest first: they are stopped in reverse -------------------------------

    def _children(self, events: Mailbox[Event], listen: Callable[[Event], None]) -> Sequence[Child]:
        config, outside = self.config, self.outside
        posts, owner = self._posts, self._equipment.places
        health = Health(
            self.board,
            posts,
            owner,
            notify=outside.notify,
            vital={"sessions": VITAL, "models": VITAL, "approvals": VITAL},
            up=self.up,
            stop=self.stop,
            strip=self.strip,
        )
        book = UsageBook(
            Journal(self._path("usage"), Charged, Ledger, self._disk),
            config.limits,
            config.owner.timezone,
            outside.now,
        )
        models = Models(
            book=book,
            providers=self._providers,
            settings=config.models,
            in_flight={name: config.providers[name].in_flight for name in self._providers},
            jitter=outside.random,
        )
        approvals = Approvals(
            Journal(self._path("approvals"), ApprovalEntry, Book, self._disk),
            posts,
            owners=self._equipment.owners | {CONTROL},
            owner_routes=owner,
            hint=self.sessions.address.offer,
            new_id=outside.new_id,
            new_code=typed_code,
            clock=outside.now,
            strip=self.strip,
            settings=config.approvals,
        )
        memory = remembering(config, outside, self._disk, self._embedder)
        control = Control(
            config.paths.runtime,
            self.board,
            self._seen,
            self.approvals.address,
            self.memory.address,
            strip=self.strip,
            blocking=outside.blocking,
        )

        async def sessions(mailbox: Mailbox[SessionsMail]) -> None:
            surroundings = self._surroundings()
            await run_pool(
                mailbox,
                key=lambda message: message.session,
                body=lambda id_, box: self._session(id_, surroundings).run(box),
                wake=self._wake,
                refuse=_refuse,
                policy=PoolPolicy(grace=self._grace),
                listener=listen,
                board=self.board,
            )

        intakes = [
            Child(Mailbox(channel.name, 16), channel.intake(self._doors(channel)), WORLD, grace=1.0)
            for channel in self._channels
        ]
        outboxes = [
            Child(self.outboxes[channel.name], channel.outbox, WORLD) for channel in self._channels
        ]
        return (
            Child(events, health.run, WORLD, grace=1.0),
            *outboxes,
            Child(self.memory, memory.run, OURS),
            Child(self.models, models.run, OURS),
            Child(self.approvals, approvals.run, OURS),
            Child(self.sessions, sessions, OURS, grace=self._grace + 1),
            Child(Mailbox("control", 16), control.run, WORLD, grace=1.0),
            *intakes,
        )

    def _doors(self, channel: Channel) -> Doors:
        return Doors(
            outside=self.outside,
            sessions=self.sessions.address,
            approvals=self.approvals.address,
            outbox=self.outboxes[channel.name].address,
            quiet=self.presence.quiet,
            failed=self.presence.failed,
            up=self.up,
            stop=self.stop,
        )

    def _path(self, name: str) -> Path:
        return self.config.paths.state / f"{name}.jsonl"

    # --- sessions --------------------------------------------------------------------------------

    def _session(self, id_: str, surroundings: Surroundings) -> SessionActor:
        path = self._path(f"sessions/{id_}")
        journal: Journal[Entry, Session] = Journal(path, Entry, Session, self._disk)
        return SessionActor(id_, journal, surroundings)

    def _surroundings(self) -> Surroundings:
        config, outside = self.config, self.outside
        return Surroundings(
            strip=self.strip,
            so_far=lambda text: so_far(text, config.secrets),
            models=self.models.address,
            approvals=self.approvals.address,
            memory=self.memory.address,
            offered=config.memory.offered,
            outboxes=self._posts,
            prompt=self._prompt,
            suggest=self._prompt.suggest,
            gate=self._equipment.gate,
            mark=self._mark,
            publish=self.presence.publish,
            status=self._status.of,
            blocking=outside.blocking,
            now=outside.now,
            zone=ZoneInfo(config.owner.timezone),
            turns=config.turn,
            max_tokens=config.models.max_tokens,
            delivery_limit=config.watchdog.delivery,
            turn_limit=config.watchdog.turn,
            idle=config.sessions.idle,
            threads=self._equipment.threads,
            archive=config.sessions.archive,
            export=self._equipment.export,
            restored=self._equipment.restored,
            learning=learning(
                config, self._disk, self.memory.address, self._posts, self._equipment.places
            ),
        )

    async def _wake(self) -> list[str]:
        names = await self._markers.names()
        return [name for name in names if any(channel.serves(name) for channel in self._channels)]

    async def _mark(self, id_: str, lives: bool) -> None:
        await (self._markers.set(id_) if lives else self._markers.clear(id_))

    # --- what people ask about the house ---------------------------------------------------------

    def _seen(self) -> HouseSeen:
        python, seen = platform.python_version(), self.presence.seen()
        return HouseSeen(__version__, self._started, os.getpid(), python, seen)


def _refuse(message: SessionsMail, why: str) -> None:
    if isinstance(message, Inbound):
        message.reply.set(Refused(f"This conversation cannot take anything now: {why}."))
