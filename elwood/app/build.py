"""Build the app from its features."""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import trio

from elwood.agent.approvals.actor import Approvals
from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import CONTROL, ApprovalBook, ApprovalEntry
from elwood.agent.channels.channel import Channels
from elwood.agent.conversation.run import is_child
from elwood.agent.conversation.settings import Owner, OwnerClock, next_active, read_hours
from elwood.agent.feature import Feature, collect_reserved_sessions
from elwood.agent.media.store import FOLDER as RECEIVED
from elwood.agent.models.actor import Models, UsageBook
from elwood.agent.models.client import Provider, look_at
from elwood.agent.models.embeddings import Embedder
from elwood.agent.models.ledger import Charged, Ledger
from elwood.agent.models.messages import ModelsMail
from elwood.agent.models.settings import Limits, ModelSettings, Providers
from elwood.agent.parts import (
    WORLD,
    Actor,
    Gathered,
    Interruption,
    Parts,
    ReadTooEarly,
    choose_only,
)
from elwood.agent.session.actor import Sessions
from elwood.agent.session.admission import Admission
from elwood.agent.session.commands.built_in import BUILT_IN
from elwood.agent.session.core import Core
from elwood.agent.session.extension import Extensions
from elwood.agent.session.live import LiveSessions
from elwood.agent.session.messages import SessionsMail
from elwood.agent.session.own_config import OwnConfig
from elwood.agent.session.restored import read_restored
from elwood.agent.tools import talk
from elwood.agent.tools.talk import Messenger
from elwood.agent.tools.tool import Tool
from elwood.app.config.load import load_own
from elwood.app.main import ALL, own_sections
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import (
    ActorTable,
    Address,
    Child,
    Crashed,
    Ended,
    Event,
    Listener,
    Mailbox,
    Started,
    supervise,
)
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import Anchoring, AnchoringMail
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import Journal

log = logging.getLogger("elwood.health")

# Seconds that a turn may continue after SIGTERM.  A command that ignores SIGTERM needs two more;
# the whole stop may take ten, because people and systemd wait for it.
LAST_TURN = 7.0
# The same for child runs, which are stopped after that: their turn has waited for them already.
LAST_CHILDREN = 0.5
# Seconds to release resources, even while the app is being killed.
CLOSING = 5.0


class App:
    """One process: the mailboxes, their actors, and the tools of the model.

    *interrupt* handles a signal, if a feature wants signals.
    """

    def __init__(
        self,
        core: Core,
        actors: Sequence[Actor],
        tools: Sequence[Tool],
        listener: Listener,
        interrupt: Callable[[int], Interruption] | None,
    ) -> None:
        self.core = core
        self.interrupt = interrupt
        self.tools = tools
        self._listener = listener
        self.actors = sorted(actors, key=lambda one: 0 if one.stops_last else one.step)
        for actor in actors:
            actor.mailbox.step = actor.step

    async def run(self) -> None:
        """Run until `Core.stop` is set.  Raises Escalated after a fatal fault."""
        self.core.up.set()
        children = [
            Child(one.mailbox, one.body, one.policy, grace=one.grace) for one in self.actors
        ]
        await supervise(
            children, stop=self.core.stop, listener=self._listener, actor_table=self.core.table
        )


@asynccontextmanager
async def build(
    config: Config,
    environment: Environment,
    features: Sequence[Feature],
    providers: Mapping[str, Provider],
    *,
    dry_run: bool = False,
    stays: bool = True,
    grace: float = LAST_TURN,
    patience: float = math.inf,
) -> AsyncIterator[App]:
    """Build the app from *features*; their resources are closed at the end of the block.

    If it *stays*, it also runs scheduled work.  Work in progress may continue for *grace* seconds
    after the stop.  A failing model is retried for at most *patience* seconds.
    """
    sessions: Mailbox[SessionsMail] = Mailbox("sessions", 256)
    children: Mailbox[SessionsMail] = Mailbox("child runs", 64)
    approvals: Mailbox[ApprovalsMail] = Mailbox("approvals", 64)
    models: Mailbox[ModelsMail] = Mailbox("models", 256)
    anchors: Mailbox[AnchoringMail] = Mailbox("anchors", 16)
    async with AsyncExitStack() as closing:
        own = own_config(config, features)
        # Includes channels that are not built here: their conversations belong to them.
        reserved = collect_reserved_sessions((*ALL, *features))
        core = _make_core(
            *(config, environment, closing, sessions, children, approvals, models, anchors),
            *(stays, own, reserved),
        )
        gathered = Gathered(one for feature in features for one in feature.lent(config))
        parts = [Parts(commands=BUILT_IN)]
        for feature in features:
            try:
                built = await feature.build(core, gathered)
            except ReadTooEarly as error:
                error.add_note(f"while the feature {feature.name} was built")
                raise
            for channel in built.channels:
                core.channels.add(channel)
            parts.append(built)
        gathered.complete(parts)
        messenger = Messenger(core.channels, core.approvals)
        speaking = talk.tools(messenger, core.workspace, environment.blocking)
        tools = (*gathered.tools, *speaking)
        extensions = Extensions(
            sessions=[make for part in parts for make in part.sessions],
            prompt=[one for part in parts for one in part.prompt],
            commands=gathered.commands,
            status=[one for part in parts for one in part.status],
        )
        live = [tools for part in parts for tools in part.live]
        pool = Sessions(core, tools, messenger, extensions, live=live, dry_run=dry_run)
        embedder = choose_only("embedder", (part.embedder for part in parts))
        listen = listener(core.events.address)
        actors = [
            Actor(
                step=1,
                mailbox=anchors,
                body=Anchoring(core.paths.state, core.disk).run,
                policy=WORLD,
            ),
            Actor(
                step=2, mailbox=models, body=_make_models(core, providers, embedder, patience).run
            ),
            Actor(step=3, mailbox=approvals, body=_make_approvals(core, gathered.confined).run),
            Actor(
                step=4,
                mailbox=children,
                body=partial(pool.run, grace=LAST_CHILDREN, listener=listen, wakes=is_child),
                grace=LAST_CHILDREN + 1,
            ),
            Actor(
                step=5,
                mailbox=sessions,
                body=partial(
                    pool.run, grace=grace, listener=listen, wakes=lambda id_: not is_child(id_)
                ),
                grace=grace + 1,
            ),
            *(actor for part in parts for actor in part.actors),
        ]
        try:
            interrupt = choose_only("interrupt", (part.interrupt for part in parts))
            yield App(core, actors, tools, listen, interrupt)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING):
                await closing.aclose()


def _make_core(
    config: Config,
    environment: Environment,
    closing: AsyncExitStack,
    sessions: Mailbox[SessionsMail],
    children: Mailbox[SessionsMail],
    approvals: Mailbox[ApprovalsMail],
    models: Mailbox[ModelsMail],
    anchors: Mailbox[AnchoringMail],
    stays: bool,
    own: OwnConfig,
    reserved: Mapping[str, str],
) -> Core:
    paths, clock = config.get(Paths), OwnerClock(environment.now, config.get(Owner).zone)
    disk = Disk(
        blocking=environment.blocking,
        clock=environment.now,
        reserve=paths.state / "reserve",
        calls=environment.calls(),
    )
    table = ActorTable(trio.current_time)
    return Core(
        config=config,
        environment=environment,
        clock=clock,
        redactor=Redactor(config.secrets),
        disk=disk,
        workspace=Root(paths.workspace, untrusted=(RECEIVED,)),
        table=table,
        sessions=sessions.address,
        children=children.address,
        approvals=approvals.address,
        models=models.address,
        anchoring=anchors.address,
        channels=Channels(reserved),
        live=LiveSessions(paths.state / "sessions" / "open", disk, trio.current_time),
        admission=Admission(read_restored(paths.state)),
        events=Mailbox[Event]("health", 256),
        up=trio.Event(),
        stop=trio.Event(),
        closing=closing,
        stays=stays,
        own=own,
    )


def own_config(config: Config, features: Iterable[Feature]) -> OwnConfig:
    """Return the assistant's part of *config*: only settings that *features* let it change."""
    sections = own_sections(features)
    return OwnConfig(config, lambda text: load_own(text, config, sections), sections)


def _make_models(
    core: Core, providers: Mapping[str, Provider], embedder: Embedder | None, patience: float
) -> Models:
    config = core.config
    path = core.paths.state / "usage.jsonl"
    usage = Journal[Charged, Ledger](path, Charged, Ledger, core.disk)
    prices, zone = config.get(ModelSettings).prices, config.get(Owner).timezone
    book = UsageBook(usage, config.get(Limits), zone, core.clock.now, prices)
    settings = config.get(Providers).by_name
    return Models(
        book=book,
        providers=providers,
        settings=config.get(ModelSettings),
        in_flight={name: settings[name].in_flight for name in providers},
        jitter=core.environment.random,
        tell=core.tell_owner,
        embedder=embedder,
        patience=patience,
        look=lambda messages: core.environment.blocking(partial(look_at, core.workspace, messages)),
    )


def _make_approvals(core: Core, confined: bool) -> Approvals:
    owner = core.config.get(Owner)
    hours = read_hours(owner.hours)
    return Approvals(
        Journal(core.paths.state / "approvals.jsonl", ApprovalEntry, ApprovalBook, core.disk),
        core.channels,
        core.environment,
        owners=core.channels.owners | {CONTROL},
        hint=core.hint,
        redact=core.redactor,
        settings=core.config.get(ApprovalSettings),
        when_awake=lambda now: next_active(hours, now, owner.timezone),
        at_work=lambda: [
            name for name, one in core.live.states.items() if not one.is_idle or one.pending
        ],
        zone=core.clock.zone,
        confined=confined,
    )


def listener(health: Address[Event]) -> Listener:
    """Return the function that supervisors call on every event: it logs, and wakes *health*.

    The events of a pool's children, which start and stop with every conversation, are logged as
    details.
    """

    def listen(event: Event) -> None:
        level = logging.DEBUG if "/" in event.name else logging.INFO
        match event:
            case Started(name, restart):
                log.log(level, "actor started", extra={"actor": name, "restart": restart})
            case Crashed(name, error, delay):
                fields = {"actor": name, "delay": delay}
                log.error("actor crashed", extra=fields, exc_info=error)
            case Ended(name):
                log.log(level, "actor ended", extra={"actor": name})
        health.offer(event)

    return listen
