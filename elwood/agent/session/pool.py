"""The pool in which the sessions live, and what each of them is made of."""

from collections.abc import Sequence

from elwood.agent.conversation.inbound import Inbound, Refused
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.settings import ModelSettings
from elwood.agent.session.actor import SessionActor
from elwood.agent.session.commands.actor_commands import Commands
from elwood.agent.session.commands.exporting import Exports
from elwood.agent.session.commands.status import Status
from elwood.agent.session.core import Core
from elwood.agent.session.delivery import Delivery
from elwood.agent.session.extension import Extensions, SessionExtensions
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.messages import Await, SessionsMail, Unheard
from elwood.agent.session.settings import SessionSettings, WatchdogSettings
from elwood.agent.session.turn.gate import Gates
from elwood.agent.session.turn.prompt import SystemPrompt
from elwood.agent.session.turn.runner import Thinker, TurnRunner
from elwood.agent.session.turn.turn import ModelClient
from elwood.agent.tools.talk import Messenger
from elwood.agent.tools.tool import Tool
from elwood.foundation.runtime import Listener, Mailbox, PoolPolicy, run_pool
from elwood.foundation.storage.journal import Journal

# Share of the context that the system prompt may take: one of so many.
PROMPT_SHARE = 4


class Sessions:
    """Makes the sessions, each with its log, and runs them."""

    def __init__(
        self,
        core: Core,
        tools: Sequence[Tool],
        messenger: Messenger,
        extensions: Extensions,
        *,
        dry_run: bool = False,
    ) -> None:
        config, blocking = core.config, core.environment.blocking
        turn, models = config.of(TurnSettings), config.of(ModelSettings)
        self._core = core
        self._extensions = extensions
        self._gates = Gates(core, tools, dry_run=dry_run)
        prompt = SystemPrompt(
            core.workspace,
            blocking,
            tools[: turn.max_tools],
            turn.context_tokens // PROMPT_SHARE,
            core.redactor,
            extensions.prompt,
        )
        self._thinker = Thinker(
            model=ModelClient(core.models),
            prompt=prompt,
            settings=turn,
            max_tokens=models.max_tokens,
            stuck_after=config.of(WatchdogSettings).turn,
        )
        self._exports = Exports(core.workspace, messenger, core.redactor, core.clock, blocking)
        self._status = Status(
            core.models,
            core.table,
            models.default,
            extensions.status,
            core.redactor,
            core.clock.now,
        )

    async def run(
        self, mailbox: Mailbox[SessionsMail], *, grace: float, listener: Listener
    ) -> None:
        """Run the pool; what has begun may go on for *grace* seconds after the stop."""
        await run_pool(
            mailbox,
            key=lambda message: message.session,
            body=lambda id_, box: self.make(id_).run(box),
            wake=self._wake,
            refuse=_refuse,
            policy=PoolPolicy(grace=grace),
            listener=listener,
            actor_table=self._core.table,
        )

    def make(self, id_: str) -> SessionActor:
        """Make the session *id_*, as its log has it."""
        core = self._core
        path = core.paths.state / "sessions" / f"{id_}.jsonl"
        log = SessionLog(id_, Journal(path, Entry, Session, core.disk), core.live.publish)
        extensions = SessionExtensions(self._extensions, log)
        stuck_after = core.config.of(WatchdogSettings).delivery
        delivery = Delivery(log, core.channels, core.environment.blocking, stuck_after)
        runner = TurnRunner(
            log,
            delivery,
            self._gates.make(log),
            extensions,
            self._thinker,
            core.clock,
            core.redactor,
        )
        commands = Commands(
            log,
            delivery,
            runner,
            core.approvals,
            self._exports,
            self._status,
            extensions,
            core.clock,
        )
        return SessionActor(
            log,
            core.live,
            core.admission,
            delivery,
            runner,
            commands,
            extensions,
            core.redactor,
            core.clock,
            core.config.of(SessionSettings),
        )

    async def _wake(self) -> list[str]:
        return [name for name in await self._core.live.marked() if self._core.channels.serves(name)]


def _refuse(message: SessionsMail, why: str) -> None:
    if isinstance(message, Inbound):
        message.reply.set(Refused(f"This conversation cannot take anything now: {why}."))
    elif isinstance(message, Await):
        message.reply.set(Unheard())
