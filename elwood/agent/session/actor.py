"""Conversations, in a pool: each accepts messages immediately and works concurrently."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs
import msgspec
import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.inbound import Busy, Inbound, NotNow, Reception, Refused, Taken
from elwood.agent.conversation.message import ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.conversation.stop_words import says_stop
from elwood.agent.session.commands.actor_commands import Commands
from elwood.agent.session.commands.slash import SlashCommands
from elwood.agent.session.core import Core
from elwood.agent.session.delivery import Delivery, Showing
from elwood.agent.session.extension import Extensions, SessionExtension
from elwood.agent.session.log.entries import (
    MAX_REMINDERS,
    MAX_WAITING,
    Archived,
    Entry,
    Received,
    Replied,
    TurnStarted,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session, commands, is_command, is_stop, may_close
from elwood.agent.session.log.turns import TOLD
from elwood.agent.session.messages import Await, Interrupt, Returned, SessionsMail, StopRun
from elwood.agent.session.restored import close_old_work, describe_doubt
from elwood.agent.session.settings import SessionSettings
from elwood.agent.session.turn.approval_client import ApprovalClient
from elwood.agent.session.turn.gate import Gate, toolset
from elwood.agent.session.turn.prompt import SystemPrompt
from elwood.agent.session.turn.runner import NOT_KEPT, TurnRunner
from elwood.agent.tools.talk import Messenger
from elwood.agent.tools.tool import Tool
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import (
    Listener,
    Mailbox,
    PoolPolicy,
    clear_error,
    report_error,
    run_pool,
    show_wait,
)
from elwood.foundation.secrets.redaction import Credential, Masked, screen
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.storage.journal import Journal, JournalDamaged
from elwood.foundation.text.characters import well_formed

log = logging.getLogger("elwood.sessions")

OPEN = "opening the conversation's log"
# Seconds between two tries to open the log on a full disk.
PAUSE = 5.0
# Seconds for approvals to revoke permissions; no messages are accepted during that.
WITHDRAW_LIMIT = 5.0
# Seconds after which a damaged log shows as stuck, so that the owner learns of it within a minute.
ALARM = 30.0

# Seconds that a response may take after the stop, so that a restart need not wait for a long one.
LAST_RESPONSE = 1.5

BELONGS = (
    "That looks like a credential ({}). I did not keep it, and the model has not seen it. It is "
    "still in this chat: please delete it here. If others may have read it, replace it.\n\n"
    "Do I need this secret? Then put it into a separate file and name that file in config.toml "
    '(`key = "file:/…"`). A systemd credential (`LoadCredential=`) or an environment variable also '
    "works. I read secrets when I start. docs/guides/files.md explains this."
)
# Bytes by which a log grows until it is closed: less than other journals, because a conversation
# is opened again after each pause. Replaying them takes about 6 ms.
SEGMENT = 1 << 17
# Share of the context for the system prompt: one of this many.
PROMPT_SHARE = 4


@attrs.define(eq=False)
class SessionActor:
    """The only writer of its journal."""

    _core: Core
    _log: SessionLog
    _delivery: Delivery
    _showing: Showing
    _runner: TurnRunner
    _commands: Commands
    _extensions: Sequence[SessionExtension]
    _messenger: Messenger

    @property
    def _settings(self) -> SessionSettings:
        return self._core.config.get(SessionSettings)

    async def run(self, mailbox: Mailbox[SessionsMail]) -> None:
        """Run until idle for long enough, or stopped."""
        with bind(session=self._log.id):
            began = trio.current_time()
            try:
                opened = await self._open(mailbox)
                event(log, "session", {}, success=opened, seconds=trio.current_time() - began)
                if opened:
                    await self._work(mailbox)
            finally:
                self._log.close()

    async def _open(self, mailbox: Mailbox[SessionsMail]) -> bool:
        """Open the log, however long it takes; return False if stopped before."""
        while True:
            try:
                await self._log.open()
                await self._core.live.mark(self._log.id)
            except JournalDamaged as error:
                if not await self._refuse_all(mailbox, error):
                    return False
            except DiskFull as error:
                report_error(OPEN, str(error))
                if not await self._answer_all(mailbox, NotNow(str(error)), PAUSE):
                    return False
            else:
                clear_error(OPEN)
                return True

    async def _archive_if_due(self) -> None:
        """Archive the conversation if it was idle for long; `/resume` brings it back.

        It stays while it has work left, or a call that waits for the owner. Called before each
        message is accepted, so that no message can come between and each finds a new conversation.
        """
        state, quiet = self._log.state, self._core.clock.now() - self._log.last
        at_rest = state.is_idle and not state.pending
        if not (at_rest and state.path) or quiet < self._settings.archive:
            return
        # The permissions of the conversation end with it, so they are revoked first.
        with trio.move_on_after(WITHDRAW_LIMIT) as scope:
            await self._runner.approvals.cancel_pending(anew=True)
        why = "approvals did not respond" if scope.cancelled_caught else ""
        try:
            if not why:
                await self._log.record(Archived())
        except DiskFull as error:
            why = str(error)
        if why:
            log.warning("conversation was not archived", extra={"why": why})

    async def _work(self, mailbox: Mailbox[SessionsMail]) -> None:
        withdraw = self._runner.approvals.withdraw
        zone, at = self._core.clock.zone, self._core.channels.get_by_route
        await close_old_work(self._log, self._core.admission.restored, zone, at, withdraw)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._delivery.run)
            nursery.start_soon(self._showing.run)
            for extension in self._extensions:
                if (work := extension.work) is not None:
                    nursery.start_soon(work)
            await self._archive_if_due()
            left, cut_off = [], []
            for received in commands(self._log.state):
                if is_stop(received):
                    cut_off.append(received)
                    continue
                if self._commands.interrupts(received):
                    self._runner.stop(None)
                left.append(received)
            if cut_off:
                await nursery.start(self._commands.resume_stops, nursery, cut_off)
            if left:
                nursery.start_soon(self._commands.resume, nursery, left)
            self._runner.work(nursery)
            if self._log.state.pending:
                nursery.start_soon(self._runner.apply_decisions, nursery)
            while await self._take_next(mailbox, nursery):
                pass
            # Stopped: running work may finish within the grace of the supervisor, except a long
            # response, which can be requested again.
            with trio.move_on_after(LAST_RESPONSE):
                while self._runner.is_working or self._log.state.undelivered:
                    await self._log.wait_change()
            while self._runner.is_acting or self._log.state.undelivered:
                await self._log.wait_change()
            nursery.cancel_scope.cancel()
        await self._runner.suspend_turn()
        for extension in self._extensions:
            await extension.finish_previous_turn()
        state, is_behind = self._log.state, any(one.is_behind for one in self._extensions)
        if state.is_idle and not (state.pending or state.missed or is_behind):
            await self._core.live.unmark(self._log.id)  # nothing to be woken for

    async def _take_next(self, mailbox: Mailbox[SessionsMail], nursery: trio.Nursery) -> bool:
        """Receive one message; return False if idle for long enough, or stopped."""
        message: SessionsMail | None = None
        with (
            trio.move_on_after(self._settings.idle) as wait,
            self._core.live.register_waiting(
                self._log.id, wait, self._log.size, self._settings.in_memory
            ),
        ):
            try:
                message = await mailbox.receive()
            except trio.EndOfChannel:
                return False
        match message:
            case Inbound():
                with bind(message=message.id):
                    message.reply.set(await self._receive(message, nursery))
            case Await():
                nursery.start_soon(self._await, message)
            case StopRun():
                nursery.start_soon(self._stop_run, message)
            case Interrupt():
                self._runner.stop(None)
            case Decided():
                nursery.start_soon(self._runner.apply_decisions, nursery)
            case Returned(route=route):
                nursery.start_soon(self._delivery.send_missed, route)
            case None:
                await self._archive_if_due()
                return not self._log.state.is_idle
        return True

    async def _refuse_all(self, mailbox: Mailbox[SessionsMail], damage: JournalDamaged) -> bool:
        """Refuse all messages, with the reason, until a person has repaired the log (CP-34)."""
        log.error("session refuses work", extra={"why": str(damage)})
        refused = Refused(f"I cannot read the log of this conversation. {damage}")
        with show_wait(f"the repair of {damage}", limit=ALARM):
            while await self._answer_all(mailbox, refused, self._settings.idle):
                try:
                    await self._log.open()
                except JournalDamaged:
                    continue
                return True
        return False

    async def _answer_all(
        self, mailbox: Mailbox[SessionsMail], answer: Reception, seconds: float
    ) -> bool:
        """Send the same answer to all messages of the next *seconds*; return False if stopped."""
        with trio.move_on_after(seconds):
            async for message in mailbox:
                _answer(message, answer)
            return False
        return True

    async def _receive(self, inbound: Inbound, nursery: trio.Nursery) -> Reception:
        state = self._log.state
        if inbound.id in state.seen:
            return Taken()
        text = well_formed(inbound.text)
        screened = screen(text) if inbound.bounds is None else None
        if isinstance(screened, Masked):
            text = screened.text
        who = inbound.principal
        if isinstance(screened, Credential):
            text = NOT_KEPT
        elif inbound.quote:
            author = f" {inbound.quoted}" if inbound.quoted else ""
            text = f"[replying to{author}: {well_formed(inbound.quote)}]\n{text}"
        received = Received(
            inbound.id,
            self._core.redactor(text),
            who.id,
            inbound.route,
            inbound.sent_at,
            inbound.message,
            inbound.edits,
            inbound.untrusted or not who.owner,
            inbound.bounds,
            tuple(map(self._redact_file, inbound.files)),
            who.member and not inbound.untrusted,
            "" if inbound.route.private or inbound.bounds else who.speaker,
            self._core.redactor(well_formed(inbound.heard)),
            inbound.pending,
            looks=inbound.looks,
        )
        if state.is_as_before(received):
            return Taken()
        await self._archive_if_due()
        if self._is_stop(inbound):
            received = msgspec.structs.replace(received, text="/stop")
        waiting = max(len(state.waiting), len(state.undelivered))
        most = MAX_WAITING
        if is_command(received):
            most = 2 * MAX_WAITING  # short work, and a stop must get through a full queue
        elif received.bounds is not None and received.bounds.says == "text":
            most = MAX_REMINDERS
        if waiting >= most:
            return Busy(waiting)
        if (why := self._core.admission.refusal) and not is_command(received):
            return Refused(f"{why}.")
        if is_command(received) and (why := self._commands.refusal(received)):
            return await self._take(received, _answer_entry(received, why))
        if isinstance(screened, Credential):
            # Its answer is in the same line, so the model never sees the message.
            return await self._take(
                received, _answer_entry(received, BELONGS.format(screened.kind))
            )
        if why := describe_doubt(received, self._core.admission.restored, self._core.clock.zone):
            return await self._take(received, _answer_entry(received, why))
        if received.bounds is not None and received.bounds.says in TOLD:
            quiet = received.bounds.says == "note"
            route = self._delivery.route(received)
            said = _answer_entry(received, received.text, route=route, quiet=quiet)
            return await self._take(received, said)
        begun = None if is_command(received) else self._runner.build_start(received)
        # If there is no other work, the start of its turn is in the same line, which saves a write.
        entries = (received, begun) if begun else (received,)
        if is_command(received):
            taken = await self._take(*entries)
        else:  # the turn need not wait for the disk; its answer and the sender's channel do
            go_on = partial(self._go_on, received, begun, nursery)
            taken = await self._try(self._log.record_ahead(go_on, *entries))
        if isinstance(taken, NotNow):
            return taken
        if inbound.principal.owner and received.bounds is None and received.route.private:
            self._core.channels.note_owner_route(received.route)
        if state.missed and received.bounds is None:
            nursery.start_soon(self._delivery.send_missed, received.route)
        if is_command(received):
            nursery.start_soon(self._commands.carry_out, nursery, received)
        elif received.bounds is None:
            self._messenger.remove_buttons(received.route, typed=received.message is not None)
        return taken

    def _go_on(self, received: Received, begun: TurnStarted | None, nursery: trio.Nursery) -> None:
        if self._runner.is_working:
            self._delivery.mark_seen(received)
        self._runner.notify_arrival()
        self._runner.work(nursery, begun)

    def _is_stop(self, inbound: Inbound) -> bool:
        """Return True if plain words stop the turn; not if a button typed them, or if forwarded."""
        is_pressed = inbound.quote and inbound.message is None
        if is_pressed or inbound.untrusted or inbound.bounds is not None:
            return False
        is_busy = self._log.state.turn is not None or self._log.state.waiting
        languages = self._core.config.get(Owner).languages
        return bool(is_busy) and says_stop(inbound.text, languages)

    def _redact_file(self, file: ReceivedFile) -> ReceivedFile:
        return msgspec.structs.replace(file, text=self._core.redactor(well_formed(file.text)))

    async def _stop_run(self, wanted: StopRun) -> None:
        await self._runner.stop_run(wanted.id, wanted.why)
        await self._await(wanted)

    async def _await(self, wanted: Await | StopRun) -> None:
        """Answer when the run has ended; until then it waits, or is part of the open turn."""
        while True:
            state = self._log.state
            open_ = [] if state.turn is None else [one.id for one in state.turn.inputs]
            if (done := state.runs.get(wanted.id)) is not None:
                wanted.reply.set(done)
                return
            if wanted.id not in state.waiting and wanted.id not in open_:
                wanted.reply.set(None)
                return
            await self._log.wait_change()

    async def _take(self, *entries: Entry) -> Taken | NotNow:
        return await self._try(self._log.record(*entries))

    async def _try(self, recording: Awaitable[None]) -> Taken | NotNow:
        try:
            await recording
        except DiskFull as error:
            return NotNow(str(error))
        return Taken()


def _answer_entry(
    received: Received, text: str, *, route: Route | None = None, quiet: bool = False
) -> Replied:
    """Build an answer to *received* without a turn; *route* defaults to where it came from."""
    route = route or received.route
    return Replied(received.id, None, (received.id,), route, text, quiet=quiet)


class Sessions:
    """Creates the sessions, each with its log, and runs them."""

    def __init__(
        self,
        core: Core,
        tools: Sequence[Tool],
        messenger: Messenger,
        extensions: Extensions,
        *,
        live: Sequence[dict[str, Tool]] = (),
        dry_run: bool = False,
    ) -> None:
        turn = core.config.get(TurnSettings)
        self._core = core
        self._shared = extensions
        self._known = SlashCommands(extensions.commands)
        self._toolset = toolset(core, tools, live, dry_run=dry_run)
        self._prompt = SystemPrompt(
            core.workspace,
            core.environment.blocking,
            lambda: [*tools, *(one for some in live for one in some.values())],
            turn.context_tokens // PROMPT_SHARE,
            core.redactor,
            extensions.prompt,
            turn.max_tools,
        )
        self._messenger = messenger

    async def run(
        self,
        mailbox: Mailbox[SessionsMail],
        *,
        grace: float,
        listener: Listener,
        wakes: Callable[[str], bool],
    ) -> None:
        """Run the pool; running work has *grace* seconds after the stop.

        Of the sessions with work left it starts those for which *wakes* is true; another pool has
        the others.
        """
        await run_pool(
            mailbox,
            key=lambda message: message.session,
            body=lambda id_, box: self.make(id_).run(box),
            wake=partial(self._wake, wakes),
            refuse=_refuse,
            policy=PoolPolicy(grace=grace),
            listener=listener,
            actor_table=self._core.table,
        )

    def make(self, id_: str) -> SessionActor:
        """Create the session *id_* with its log."""
        core = self._core
        path = core.paths.state / "sessions" / f"{id_}.jsonl"
        journal = Journal[Entry, Session](
            path, Entry, Session, core.disk, segment=SEGMENT, may_close=may_close
        )
        log_ = SessionLog(id_, journal, core.live.publish, self._known.moving)
        extensions = [make(log_) for make in self._shared.sessions]
        now = core.clock.now
        delivery, showing = Delivery(core, log_), Showing(core.channels, core.redactor)
        approvals = ApprovalClient(
            log_, core.approvals, core.config.get(ApprovalSettings), self._toolset.version, now
        )
        gate = Gate(log_, self._toolset, approvals, core.redactor, now, showing.show_detail)
        runner = TurnRunner(core, self._prompt, log_, delivery, gate, showing, extensions)
        commands = Commands(
            core,
            self._messenger,
            log_,
            delivery,
            runner,
            self._known,
            self._shared.status,
            extensions,
            self._toolset.tools,
        )
        return SessionActor(
            core, log_, delivery, showing, runner, commands, extensions, self._messenger
        )

    async def _wake(self, wakes: Callable[[str], bool]) -> list[str]:
        serves = self._core.channels.serves
        return [
            name for name in await self._core.live.list_marked() if wakes(name) and serves(name)
        ]


def _refuse(message: SessionsMail, why: str) -> None:
    _answer(message, Refused(f"I cannot take messages for this conversation now: {why}."))


def _answer(message: SessionsMail, answer: Reception) -> None:
    if isinstance(message, Inbound):
        message.reply.set(answer)
    elif isinstance(message, Await | StopRun):
        message.reply.set(None)
