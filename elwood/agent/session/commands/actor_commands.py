"""Carries out slash commands: short work, beside whatever else the session does."""

from collections.abc import Sequence
from functools import partial

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.commands.exporting import Exports
from elwood.agent.session.commands.slash import (
    COMMANDS,
    Approval,
    TypedCommand,
    Unknown,
    help_text,
    parse,
    request,
)
from elwood.agent.session.commands.status import Status
from elwood.agent.session.delivery import Delivery
from elwood.agent.session.extension import CommandCall, SessionExtensions
from elwood.agent.session.log.branch import listing as branches
from elwood.agent.session.log.entries import Entry, Received, Replied, Retried
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import is_command
from elwood.agent.session.reading.records import read_history
from elwood.agent.session.reading.tables import listing
from elwood.agent.session.turn.inputs import OwnerClock
from elwood.agent.session.turn.runner import TurnRunner
from elwood.foundation.runtime import Address

# Seconds for approvals to carry a command out.
APPROVALS_LIMIT = 10.0


class Commands:
    """Carries out the commands of one session."""

    def __init__(
        self,
        log_: SessionLog,
        delivery: Delivery,
        runner: TurnRunner,
        approvals: Address[ApprovalsMail],
        exports: Exports,
        status: Status,
        extensions: SessionExtensions,
        clock: OwnerClock,
    ) -> None:
        self._log = log_
        self._delivery = delivery
        self._runner = runner
        self._approvals = approvals
        self._exports = exports
        self._status = status
        self._extensions = extensions
        self._clock = clock
        self._branching = Branching(log_, runner.approvals.let_go)

    async def resume(self, nursery: trio.Nursery, left: Sequence[Received]) -> None:
        """Carry out, one after another, what a crash cut off; turns go on in *nursery*."""
        for received in left:
            await self.carry_out(nursery, received, again=True)

    async def carry_out(
        self, nursery: trio.Nursery, received: Received, again: bool = False
    ) -> None:
        """Carry a command out; *again* if that may have been done before."""
        footer, buttons = "", tuple[str, ...]()
        match parse(received.text):
            case TypedCommand("new" | "undo" | "retry" | "branch" | "resume") as command:
                await self._move(command, received, nursery)
                return
            case TypedCommand("stop"):
                stopped, gone = await self._runner.halt(received)
                if stopped:
                    return  # the turn's reply answers the command as well
                text = f"Nothing is running. {_gone(gone)}".rstrip()
            case TypedCommand("tree"):
                state = self._log.state
                text = "The conversations of this chat; /resume NUMBER goes back to one:"
                footer = branches(state.tree, state.path, self._clock.now())
            case TypedCommand("export", given):
                text = await self._exports.export(given.lower() or "md", received, self._log, again)
            case TypedCommand("status"):
                text = await self._say_status(received)
            case TypedCommand("budget"):
                text = "What is spent is for my owner only."
                if not received.untrusted:  # jobs are named after what they are about
                    text = await self._status.budget(self._log.id)
            case TypedCommand("receipts", given):
                history = await self._log.look_back(partial(read_history, self._log.id))
                text, footer = listing(history.calls, given, self._clock.zone)
            case TypedCommand("help"):
                text = help_text(self._extensions.shared.commands)
            case Approval() as approval:
                text = await self._approve(approval, received)
            case Unknown(name, given):
                if (found := self._extensions.shared.command(name)) is not None:
                    call = CommandCall(
                        session=self._log.id, given=given, received=received, again=again
                    )
                    answer = await found.run(call)
                    text, footer, buttons = answer.text, answer.footer, answer.buttons
                elif asked := await self._extensions.expand(received.text):
                    await self._log.keep(Retried(received.id, asked, received.untrusted))
                    self._runner.arrived()
                    self._runner.work(nursery)
                    return  # what answers it is the turn
                else:
                    known = help_text(self._extensions.shared.commands)
                    text = f"I do not know /{name}.\n\n{known}"
        await self._answer(received, text, footer, buttons=buttons)

    async def _move(self, command: TypedCommand, received: Received, nursery: trio.Nursery) -> None:
        """Move the conversation while it is at rest, in one line with the answer."""
        async with self._runner.at_rest(nursery):
            if received.id not in self._log.state.waiting:
                return  # answered meanwhile, by a stop
            moved = await self._branching.move(command, received)
            if moved.text:
                await self._answer(received, moved.text, moved.footer, *moved.entries)
            else:
                # What answers it is the turn that it begins.
                await self._log.keep(*moved.entries)

    async def _answer(
        self,
        received: Received,
        text: str,
        footer: str,
        *entries: Entry,
        buttons: tuple[str, ...] = (),
    ) -> None:
        if received.id not in self._log.state.waiting:
            return  # answered meanwhile, by a stop
        replied = Replied(
            received.id, None, (received.id,), received.route, text, footer, buttons=buttons
        )
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
            settled = await self._approvals.insist(lambda: attrs.evolve(asked))
        return settled.text if settled else "Nobody decides about calls now. Try again in a minute."

    async def _say_status(self, received: Received) -> str:
        state = self._log.state
        turn = state.turn
        lines = [f"Working on {turn.under_way}." if turn else "Nothing is running here."]
        waiting = sum(not is_command(received) for received in state.waiting.values())
        if waiting:
            lines.append(f"Messages waiting: {waiting}.")
        if state.pending:
            lines.append(f"Calls waiting for your approval: {len(state.pending)}.")
        if state.undelivered:
            lines.append(f"Answers on their way: {len(state.undelivered)}.")
        lines.append(await self._status.lines(self._log.id, owner=not received.untrusted))
        return "\n".join(lines)


def _gone(calls: int) -> str:
    if not calls:
        return ""
    what = "The call that waited" if calls == 1 else f"The {calls} calls that waited"
    return f"{what} for your approval will not run."
