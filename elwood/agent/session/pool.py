"""The conversations of the house: what they share, and the pool in which they live."""

from collections.abc import Callable, Mapping, Sequence
from zoneinfo import ZoneInfo

import attrs

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.inbound import Inbound, Refused
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.actor import SessionActor
from elwood.agent.session.commands.status import Status
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.live_sessions import Markers
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Await, SessionsMail, Unheard
from elwood.agent.session.presence import Presence
from elwood.agent.session.turn.prompt import Prompting
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.agent.session.turn.workspace import Workspace
from elwood.agent.tools.catalog import choose
from elwood.agent.tools.tool import Hands, Tool
from elwood.app.config.settings import Config
from elwood.app.equipment import Equipment
from elwood.features.memory.extension import Learning
from elwood.features.memory.messages import MemoryMail
from elwood.features.tasks.messages import TimetableMail
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import (
    ActorTable,
    Address,
    Listener,
    Mailbox,
    PoolPolicy,
    run_pool,
)
from elwood.foundation.secrets.redaction import redact, redact_partial
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import Journal

# Share of the context that the system prompt may take.
PROMPT_SHARE = 4


@attrs.frozen(kw_only=True)
class Neighbours:
    """Whom the sessions speak to."""

    models: Address[ModelsMail]
    approvals: Address[ApprovalsMail]
    memory: Address[MemoryMail]
    timetable: Address[TimetableMail]
    outboxes: Mapping[str, Address[OutboxMail]]


class Conversations:
    """Makes the sessions, and runs them.

    *refusal* says why no new work is taken, if none is; *heard* is told where the owner writes;
    *places* are where the owner reads, the best first.
    """

    def __init__(
        self,
        config: Config,
        outside: Environment,
        disk: Disk,
        neighbours: Neighbours,
        equipment: Equipment,
        *,
        hands: Hands,
        tools: Sequence[Tool],
        learning: Learning,
        channels: Sequence[Channel],
        presence: Presence,
        actor_table: ActorTable,
        refusal: Callable[[], str],
        heard: Callable[[Route], None],
        places: Callable[[], Sequence[Route]],
    ) -> None:
        self._config = config
        self._outside = outside
        self._disk = disk
        self._neighbours = neighbours
        self._equipment = equipment
        self._learning = learning
        self._channels = channels
        self._presence = presence
        self._actor_table = actor_table
        self._refusal = refusal
        self._heard = heard
        self._places = places
        self._markers = Markers(config.paths.state / "sessions" / "open", disk)
        self._status = Status(
            neighbours.models, actor_table, equipment.sandbox, self._redact, config, outside.now
        )
        self._prompt = Prompting(
            Workspace(Root(config.paths.workspace), outside.blocking),
            choose(tools, "", config.turn.max_tools),
            config.turn.context_tokens // PROMPT_SHARE,
            self._redact,
            hands.skills,
            config.skills.always,
        )

    async def run(
        self, mailbox: Mailbox[SessionsMail], *, grace: float, listener: Listener
    ) -> None:
        """Run the pool; what has begun may go on for *grace* seconds after the stop."""
        surroundings = self._surroundings()
        await run_pool(
            mailbox,
            key=lambda message: message.session,
            body=lambda id_, box: self._session(id_, surroundings).run(box),
            wake=self._wake,
            refuse=_refuse,
            policy=PoolPolicy(grace=grace),
            listener=listener,
            actor_table=self._actor_table,
        )

    def _redact(self, text: str) -> str:
        return redact(text, self._config.secrets)

    def _session(self, id_: str, surroundings: Surroundings) -> SessionActor:
        path = self._config.paths.state / "sessions" / f"{id_}.jsonl"
        journal: Journal[Entry, Session] = Journal(path, Entry, Session, self._disk)
        return SessionActor(id_, journal, surroundings)

    def _surroundings(self) -> Surroundings:
        config, outside, near = self._config, self._outside, self._neighbours
        return Surroundings(
            redact=self._redact,
            redact_partial=lambda text: redact_partial(text, config.secrets),
            models=near.models,
            approvals=near.approvals,
            memory=near.memory,
            searches=self._equipment.searches,
            timetable=near.timetable,
            offered=config.memory.offered,
            outboxes=near.outboxes,
            prompt=self._prompt,
            suggest=self._prompt.suggest,
            expand_skill_command=self._prompt.expand_skill_command,
            gate=self._equipment.gate,
            mark=self._mark,
            publish=self._presence.publish,
            status=self._status.of,
            blocking=outside.blocking,
            now=outside.now,
            zone=ZoneInfo(config.owner.timezone),
            turns=config.turn,
            max_tokens=config.models.max_tokens,
            delivery_limit=config.watchdog.delivery,
            turn_limit=config.watchdog.turn,
            idle=config.sessions.idle,
            refusal=self._refusal,
            heard=self._heard,
            places=self._places,
            threads=self._equipment.threads,
            archive=config.sessions.archive,
            export=self._equipment.export,
            learning=self._learning,
            restored=self._equipment.restored,
        )

    async def _wake(self) -> list[str]:
        names = await self._markers.names()
        return [name for name in names if any(channel.serves(name) for channel in self._channels)]

    async def _mark(self, id_: str, lives: bool) -> None:
        await (self._markers.set(id_) if lives else self._markers.clear(id_))


def _refuse(message: SessionsMail, why: str) -> None:
    if isinstance(message, Inbound):
        message.reply.set(Refused(f"This conversation cannot take anything now: {why}."))
    elif isinstance(message, Await):
        message.reply.set(Unheard())
