"""One conversation: takes messages in at once, and has the long work done beside."""

import logging

import attrs
import trio

from elwood.agent.delivery import Delivery
from elwood.agent.recollecting import memory_command
from elwood.agent.runner import TurnRunner
from elwood.agent.session_log import SessionLog
from elwood.agent.slash import COMMANDS, Approval, Command, help_text, parse, request
from elwood.agent.surroundings import Surroundings
from elwood.core.conversation import repair_text
from elwood.core.receipts import listing
from elwood.core.redaction import Credential, Masked, screen
from elwood.core.replay import Session
from elwood.core.session import MAX_WAITING, Entry, Received, Replied, Rewound
from elwood.core.work import commands, is_command
from elwood.log import bind
from elwood.messages import (
    Busy,
    Decided,
    Inbound,
    Interrupt,
    NotNow,
    Reception,
    Refused,
    SessionsMail,
    Taken,
)
from elwood.runtime import Mailbox, trouble, waiting, well
from elwood.store.journal import DiskFull, Journal, JournalDamaged

log = logging.getLogger("elwood.sessions")

OPEN = "opening the conversation's log"
# Seconds between two tries to open the log on a full disk.
PAUSE = 5.0
# Seconds after which a damaged log shows as stuck, so that the owner hears of it within a minute.
ALARM = 30.0
# Seconds for approvals to carry a command out.
APPROVALS_LIMIT = 10.0

STOP, NEW = Command("stop"), Command("new")
# What stands in the log for a message that was nothing but a credential.
NOT_KEPT = "[a credential was here; it was not kept]"
BELONGS = (
    "That looks like a credential ({}). I have not kept it, and the model has not seen it. It "
    "still stands in this chat: delete it here, and replace it if others may have read it.\n\n"
    "Secrets that I need belong into a file of their own that is named in config.toml "
    '(`key = "file:/…"`), into a systemd credential (`LoadCredential=`), or into the environment; '
    "docs/operating.md says more. I read them when I start."
)


class SessionActor:
    """The only writer of its journal."""

    def __init__(self, id_: str, journal: Journal[Entry, Session], house: Surroundings) -> None:
        self._id = id_
        self._house = house
        self._log = SessionLog(journal, lambda state: house.publish(id_, state))
        limit = house.delivery_limit
        self._delivery = Delivery(self._log, house.outboxes, house.blocking, limit)
        self._runner = TurnRunner(id_, self._log, self._delivery, house)

    async def run(self, mailbox: Mailbox[SessionsMail]) -> None:
        """Live until idle for long enough, or stopped."""
        with bind(session=self._id):
            try:
                if await self._open(mailbox):
                    await self._live(mailbox)
            finally:
                self._log.close()

    async def _open(self, mailbox: Mailbox[SessionsMail]) -> bool:
        """Open the log, however long it takes; False if we are stopped before."""
        while True:
            try:
                await self._log.open()
                await self._house.mark(self._id, True)
            except JournalDamaged as error:
                if not await self._refuse_all(mailbox, error):
                    return False
            except DiskFull as error:
                trouble(OPEN, str(error))
                if not await self._answer_all(mailbox, NotNow(str(error)), PAUSE):
                    return False
            else:
                well(OPEN)
                return True

    async def _live(self, mailbox: Mailbox[SessionsMail]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._delivery.run)
            left = []
            for received in commands(self._log.state):
                # What a crash cut off here must come before a turn is resumed, or begun on a yes.
                command = parse(received.text)
                if command in (STOP, NEW):
                    await self._runner.withdraw()
                    stopped = self._runner.stop(received if command == STOP else None)
                    if stopped and command == STOP:
                        continue
                left.append(received)
            self._runner.work(nursery)
            for received in left:
                nursery.start_soon(self._command, received)
            if self._log.state.pending:
                nursery.start_soon(self._runner.decided, nursery)
            while await self._take_next(mailbox, nursery):
                pass
            # Stopped: what has begun may come to its end within the grace of the supervisor.
            while self._runner.is_working or self._log.state.undelivered:
                await self._log.wait_change()
            nursery.cancel_scope.cancel()
        state = self._log.state
        if state.is_idle and not state.pending:  # nothing to be woken for
            await self._house.mark(self._id, False)

    async def _take_next(self, mailbox: Mailbox[SessionsMail], nursery: trio.Nursery) -> bool:
        """Take one message; False when the session has been idle for long enough, or stopped."""
        message: SessionsMail | None = None
        with trio.move_on_after(self._house.idle):
            try:
                message = await mailbox.receive()
            except trio.EndOfChannel:
                return False
        match message:
            case Inbound():
                message.reply.set(await self._receive(message, nursery))
            case Interrupt():
                self._runner.stop(None)
            case Decided():
                nursery.start_soon(self._runner.decided, nursery)
            case None if self._log.state.is_idle:
                return False
        return True

    async def _refuse_all(self, mailbox: Mailbox[SessionsMail], damage: JournalDamaged) -> bool:
        """Take nothing in, and say why, until a person has mended the log (CP-34)."""
        log.error("session refuses work", extra={"why": str(damage)})
        refused = Refused(f"This conversation's log is damaged. {damage}")
        with waiting(f"a person, as {damage}", limit=ALARM):
            while await self._answer_all(mailbox, refused, self._house.idle):
                try:
                    await self._log.open()
                except JournalDamaged:
                    continue
                return True
        return False

    async def _answer_all(
        self, mailbox: Mailbox[SessionsMail], answer: Reception, seconds: float
    ) -> bool:
        """Give all messages of the next *seconds* the same answer; False if we are stopped."""
        with trio.move_on_after(seconds):
            async for message in mailbox:
                if isinstance(message, Inbound):
                    message.reply.set(answer)
            return False
        return True

    async def _receive(self, inbound: Inbound, nursery: trio.Nursery) -> Reception:
        state = self._log.state
        if inbound.id in state.seen:
            return Taken()
        text = repair_text(inbound.text)
        screened = screen(text)
        if isinstance(screened, Masked):
            text = screened.text
        if isinstance(screened, Credential):
            text = NOT_KEPT
        elif inbound.quote:
            text = f"[replying to: {repair_text(inbound.quote)}]\n{text}"
        received = Received(
            inbound.id,
            self._house.strip(text),
            inbound.principal.id,
            inbound.route,
            inbound.sent_at,
            inbound.message,
            inbound.edits,
            inbound.untrusted or not inbound.principal.owner,
        )
        waiting = max(len(state.waiting), len(state.undelivered))
        # A command is short work, and a stop must come through when much is waiting.
        if waiting >= (2 * MAX_WAITING if is_command(received) else MAX_WAITING):
            return Busy(waiting)
        if isinstance(screened, Credential):
            # Its answer goes into the same line: it is never a message that the model is shown.
            answer = BELONGS.format(screened.kind)
            replied = Replied(received.id, None, (received.id,), received.route, answer)
            return await self._take(received, replied)
        begun = None if is_command(received) else self._runner.beginning(received)
        # When nothing else is to be done the start of its turn goes along, saving a write.
        taken = await self._take(received, *([begun] if begun else ()))
        if isinstance(taken, NotNow):
            return taken
        if is_command(received):
            nursery.start_soon(self._command, received)
        else:
            self._runner.arrived()
            self._runner.work(nursery, begun)
        return taken

    async def _take(self, received: Received, *more: Entry) -> Taken | NotNow:
        try:
            await self._log.record(received, *more)
        except DiskFull as error:
            return NotNow(str(error))
        return Taken()

    async def _command(self, received: Received) -> None:
        entries: tuple[Entry, ...] = ()
        footer = ""
        match parse(received.text):
            case Command("stop"):
                stopped, gone = await self._runner.halt(received)
                if stopped:
                    return  # the turn's reply answers the command as well
                text = f"Nothing is running. {_gone(gone)}".rstrip()
            case Command("new"):
                await self._runner.halt(None)
                while self._runner.is_working:
                    await self._log.wait_change()
                await self._runner.withdraw(anew=True)
                entries = (Rewound(0),)
                text = "A new conversation. I have put the old one away."
            case Command("status"):
                text = await self._status()
            case Command("receipts", given):
                text, footer = listing(self._log.state.receipts, given, self._house.zone)
            case Command("memory", given):
                text = await memory_command(received, given, self._house)
            case Command("help"):
                text = help_text()
            case Approval() as approval:
                text = await self._approve(approval, received)
            case unknown:
                text = f"I do not know /{unknown.name}.\n\n{help_text()}"
        if received.id not in self._log.state.waiting:
            return  # answered meanwhile, by a stop
        replied = Replied(received.id, None, (received.id,), received.route, text, footer)
        await self._delivery.accept(replied, *entries)

    async def _approve(self, approval: Approval, received: Received) -> str:
        """Have a decision carried out, in the name of whoever typed it."""
        if received.untrusted:
            return "Only your own words decide, and these are somebody else's."
        asked = request(approval, received.principal)
        if asked is None:
            return f"I do not understand that. /{approval.verb}: {COMMANDS[approval.verb]}"
        settled = None
        with trio.move_on_after(APPROVALS_LIMIT):
            settled = await self._house.approvals.insist(lambda: attrs.evolve(asked))
        return settled.text if settled else "Nobody decides about calls now. Try again in a minute."

    async def _status(self) -> str:
        state = self._log.state
        under_way = self._runner.under_way()
        lines = [f"Working on {under_way}." if under_way else "Nothing is running here."]
        waiting = sum(not is_command(received) for received in state.waiting.values())
        if waiting:
            lines.append(f"Messages waiting: {waiting}.")
        if state.pending:
            lines.append(f"Calls waiting for your approval: {len(state.pending)}.")
        if state.undelivered:
            lines.append(f"Answers on their way: {len(state.undelivered)}.")
        lines.append(await self._house.status(self._id))
        return "\n".join(lines)


def _gone(calls: int) -> str:
    if not calls:
        return ""
    what = "The call that waited" if calls == 1 else f"The {calls} calls that waited"
    return f"{what} for your approval will not run."
