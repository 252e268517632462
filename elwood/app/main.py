"""The wiring of the house: who exists, what each is given, and who may speak to whom."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import trio

from elwood import __version__
from elwood.agent.approvals.actor import Approvals
from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.approvals.state import CONTROL, ApprovalBook, ApprovalEntry
from elwood.agent.channels.channel import Channel, Doors
from elwood.agent.channels.last_heard import LastHeard
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.channels.owner_notices import TellOwner
from elwood.agent.channels.owner_routes import places
from elwood.agent.channels.post_until_delivered import PostUntilDelivered
from elwood.agent.models.actor import Models
from elwood.agent.models.embeddings import Embedder, ThroughModels
from elwood.agent.models.messages import ModelsMail
from elwood.agent.models.provider import Provider
from elwood.agent.models.spending.ledger import Ledger, UsageEntry
from elwood.agent.models.spending.store import UsageBook
from elwood.agent.session.messages import SessionsMail
from elwood.agent.session.pool import Conversations, Neighbours
from elwood.agent.session.presence import Presence
from elwood.agent.tools.tool import Hands, Tool
from elwood.app.config.settings import Config
from elwood.app.equipment import (
    Equipment,
    learning,
    remembering,
)
from elwood.features.control.actor import Control, look
from elwood.features.control.view import House as HouseSeen
from elwood.features.health.actor import VITAL, Health, listener
from elwood.features.health.disk_monitor import Vitals
from elwood.features.memory.extension import OwnerQuestions
from elwood.features.memory.messages import MemoryMail
from elwood.features.tasks.feature import Clockwork
from elwood.features.tasks.messages import TimetableMail
from elwood.features.tasks.notation import read_hours
from elwood.features.tasks.when import next_active
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import (
    ActorTable,
    Child,
    Event,
    Mailbox,
    RestartPolicy,
    supervise,
)
from elwood.foundation.secrets.redaction import redact
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal

# Failures of the world are waited for; failures of ours stop the house, and systemd starts it anew.
WORLD = RestartPolicy(max_crashes=None)
OURS = RestartPolicy()
# How long a turn may go on after SIGTERM, seconds; more than this, and systemd would kill us.
LAST_TURN = 20.0


class House:
    """One process: mailboxes, and who reads them."""

    def __init__(
        self,
        config: Config,
        outside: Environment,
        channels: Sequence[Channel],
        *,
        providers: Mapping[str, Provider],
        tools: Sequence[Tool],
        hands: Hands,
        embedder: Embedder | None = None,
        dry_run: bool = False,
        keeps_time: bool = True,
        grace: float = LAST_TURN,
    ) -> None:
        self.config = config
        self.outside = outside
        self.actor_table = ActorTable(trio.current_time)
        self.stop = trio.Event()
        self.up = trio.Event()
        self.sessions: Mailbox[SessionsMail] = Mailbox("sessions", 256)
        self.approvals: Mailbox[ApprovalsMail] = Mailbox("approvals", 64)
        self.models: Mailbox[ModelsMail] = Mailbox("models", 256)
        self.memory: Mailbox[MemoryMail] = Mailbox("memory", 32)
        self.timetable: Mailbox[TimetableMail] = Mailbox("timetable", 32)
        self.outboxes: dict[str, Mailbox[OutboxMail]] = {
            channel.name: Mailbox(f"outbox {channel.name}", 256) for channel in channels
        }
        self._channels = channels
        self._providers = providers
        self._embedder = embedder
        self._grace = grace
        self._keeps_time = keeps_time
        self._started = outside.now()
        self.presence = Presence(trio.current_time)
        state = config.paths.state
        calls = outside.calls()
        self._disk = Disk(
            blocking=outside.blocking, clock=outside.now, reserve=state / "reserve", calls=calls
        )
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
            self.timetable.address,
        )
        self._vitals = Vitals(
            {
                "the state folder": lambda: outside.blocking(lambda: calls.space(state)),
                "the workspace": lambda: outside.blocking(
                    lambda: calls.space(config.paths.workspace)
                ),
            },
            lambda data: outside.blocking(lambda: self._disk.replace(state / "health.json", data)),
            lambda: look(self.actor_table, self._seen(), self.redact),
            outside.now,
        )
        heard = LastHeard(state / "heard.json", self._disk)
        self._places = lambda: places(self._equipment.places, heard.route)
        self._tell = TellOwner(PostUntilDelivered(self._posts), self._places, self.redact)
        self._conversations = Conversations(
            config,
            outside,
            self._disk,
            Neighbours(
                models=self.models.address,
                approvals=asks,
                memory=self.memory.address,
                timetable=self.timetable.address,
                outboxes=self._posts,
            ),
            self._equipment,
            hands=hands,
            tools=tools,
            learning=learning(
                config,
                outside,
                self._disk,
                self.memory.address,
                self.models.address,
                OwnerQuestions(self._posts, self._places),
            ),
            channels=channels,
            presence=self.presence,
            actor_table=self.actor_table,
            refusal=lambda: self._vitals.refusal,
            heard=heard.note,
            places=self._places,
        )
        self.clock = Clockwork(
            config,
            outside,
            self._disk,
            timetable=self.timetable,
            sessions=self.sessions.address,
            models=self.models.address,
            memory=self.memory.address,
            places=self._places,
            tell=self._tell,
            channels=channels,
            threads=self._equipment.threads,
            daily=self._equipment.daily,
            heard=heard,
            full=lambda: self._vitals.refusal,
        )

    async def live(self) -> None:
        """Run until `stop` is set.  Raises Escalated if going on makes no sense."""
        events = Mailbox[Event]("health", 256)
        listen = listener(events.address)
        await supervise(
            self._children(events, listen),
            stop=self.stop,
            listener=listen,
            actor_table=self.actor_table,
        )

    def redact(self, text: str) -> str:
        """Take the configured secrets out of *text*."""
        return redact(text, self.config.secrets)

    # --- the actors, the lowest first: they are stopped in reverse -------------------------------

    def _children(self, events: Mailbox[Event], listen: Callable[[Event], None]) -> Sequence[Child]:
        config, outside = self.config, self.outside
        posts, owner = self._posts, self._equipment.places
        health = Health(
            self.actor_table,
            posts,
            self._places,
            notify=outside.notify,
            vital={"sessions": VITAL, "models": VITAL, "approvals": VITAL},
            up=self.up,
            stop=self.stop,
            redact=self.redact,
            vitals=self._vitals,
        )
        usage = Journal[UsageEntry, Ledger](self._path("usage"), UsageEntry, Ledger, self._disk)
        book = UsageBook(usage, config.limits, config.owner.timezone, outside.now)
        models = Models(
            book=book,
            providers=self._providers,
            settings=config.models,
            in_flight={name: config.providers[name].in_flight for name in self._providers},
            jitter=outside.random,
            tell=self._tell,
            embedder=self._embedder,
        )
        approvals = Approvals(
            Journal(self._path("approvals"), ApprovalEntry, ApprovalBook, self._disk),
            posts,
            outside,
            owners=self._equipment.owners | {CONTROL},
            owner_routes=owner,
            hint=self.sessions.address.offer,
            redact=self.redact,
            settings=config.approvals,
            when_awake=self._when_awake,
        )
        embedder = self._embedder and ThroughModels(self._embedder.model, self.models.address)
        memory = remembering(config, outside, self._disk, embedder, self._equipment.daily)
        control = Control(
            config.paths.runtime,
            self.actor_table,
            self._seen,
            self.approvals.address,
            self.memory.address,
            redact=self.redact,
            blocking=outside.blocking,
        )

        sessions = partial(self._conversations.run, grace=self._grace, listener=listen)

        intakes = [
            Child(Mailbox(channel.name, 16), channel.intake(self._doors(channel)), WORLD, grace=1.0)
            for channel in self._channels
        ]
        outboxes = [
            Child(self.outboxes[channel.name], channel.outbox, WORLD) for channel in self._channels
        ]
        scheduler = Child(self.clock.scheduler, self.clock.schedule, OURS, grace=1.0)
        return (
            Child(events, health.run, WORLD, grace=1.0),
            *outboxes,
            Child(self.models, models.run, OURS),
            Child(self.memory, memory.run, OURS),
            Child(self.clock.timetable, self.clock.keep_timetable, OURS),
            Child(self.approvals, approvals.run, OURS),
            Child(self.sessions, sessions, OURS, grace=self._grace + 1),
            *([scheduler] if self._keeps_time else []),
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

    def _when_awake(self, now: float) -> float:
        """Say when the owner may be bothered, at Unix time *now*."""
        hours = read_hours(self.config.owner.hours)
        assert not isinstance(hours, str), "it was checked with the configuration"
        return next_active(hours, now, self.config.owner.timezone)

    # --- what people ask about the house ---------------------------------------------------------

    def _seen(self) -> HouseSeen:
        python, seen = platform.python_version(), self.presence.seen()
        return HouseSeen(__version__, self._started, os.getpid(), python, seen)
