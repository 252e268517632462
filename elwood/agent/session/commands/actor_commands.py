"""Carries out slash commands: short work, beside whatever else the session does."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import attrs
import trio

from elwood.agent.models.messages import Spending
from elwood.agent.models.spending.report import in_table
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.commands.exporting import export
from elwood.agent.session.commands.slash import (
    COMMANDS,
    Approval,
    Command,
    help_text,
    parse,
    request,
)
from elwood.agent.session.delivery.delivery import Delivery
from elwood.agent.session.log.entries import Entry, Received, Replied, Retried
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import is_command
from elwood.agent.session.log.tree import listing as branches
from elwood.agent.session.reading.records import read_history
from elwood.agent.session.reading.tables import listing
from elwood.agent.session.turn.runner import TurnRunner
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.features.memory.commands import memory_command
from elwood.features.tasks.commands import tasks_command
from elwood.features.tasks.messages import ListTasks
from elwood.foundation.runtime import ActorUnavailable

# Seconds for approvals to carry a command out.
APPROVALS_LIMIT = 10.0
# Seconds for the book of what was spent.
MODELS_LIMIT = 5.0


class Commands:
    """Carries out the commands of one session."""

    def __init__(
        self,
        id_: str,
        log_: SessionLog,
        delivery: Delivery,
        runner: TurnRunner,
        house: Surroundings,
    ) -> None:
        self._id = id_
        self._log = log_
        self._delivery = delivery
        self._runner = runner
        self._house = house
        self._branching = Branching(log_, runner.withdraw)

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
            case Command("new" | "undo" | "retry" | "branch" | "resume") as command:
                await self._move(command, received, nursery)
                return
            case Command("stop"):
                stopped, gone = await self._runner.halt(received)
                if stopped:
                    return  # the turn's reply answers the command as well
                text = f"Nothing is running. {_gone(gone)}".rstrip()
            case Command("tree"):
                state = self._log.state
                text = "The conversations of this chat; /resume NUMBER goes back to one:"
                footer = branches(state.tree, state.path, self._house.now())
            case Command("export", given):
                text = await export(
                    given.lower() or "md", received, self._id, self._log, self._house, again=again
                )
            case Command("status"):
                text = await self._status(received)
            case Command("budget"):
                text = await self._budget(received)
            case Command("receipts", given):
                history = await self._log.look_back(partial(read_history, self._id))
                text, footer = listing(history.calls, given, self._house.zone)
            case Command("memory", given):
                text = "There is no memory here."
                if self._house.memory is not None:
                    now = self._house.now()
                    memory, searches = self._house.memory, self._house.searches
                    text = await memory_command(received, given, memory, searches, now)
            case Command("tasks", given):
                text, buttons = await tasks_command(received, given, self._house, again=again)
            case Command("help"):
                text = help_text()
            case Approval() as approval:
                text = await self._approve(approval, received)
            case unknown:
                if asked := await self._house.expand_skill_command(received.text):
                    await self._log.keep(Retried(received.id, asked, received.untrusted))
                    self._runner.arrived()
                    self._runner.work(nursery)
                    return  # what answers it is the turn
                text = f"I do not know /{unknown.name}.\n\n{help_text()}"
        await self._answer(received, text, footer, buttons=buttons)

    async def _move(self, command: Command, received: Received, nursery: trio.Nursery) -> None:
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
            settled = await self._house.approvals.insist(lambda: attrs.evolve(asked))
        return settled.text if settled else "Nobody decides about calls now. Try again in a minute."

    async def _budget(self, received: Received) -> str:
        if received.untrusted:  # jobs are named after what they are about
            return "What is spent is for my owner only."
        with trio.move_on_after(MODELS_LIMIT), suppress(ActorUnavailable):
            table = self._house.timetable
            tasks = () if table is None else await table.ask(ListTasks(chores=True))
            purses = {seen.task.id: seen.task.purse for seen in tasks if seen.task.purse}
            asked = Spending(session=self._id, purses=purses)
            return in_table(await self._house.models.ask(asked))
        return "What it has cost cannot be said now. Try again in a minute."

    async def _status(self, received: Received) -> str:
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
        lines.append(await self._house.status(self._id, not received.untrusted))
        return "\n".join(lines)


def _gone(calls: int) -> str:
    if not calls:
        return ""
    what = "The call that waited" if calls == 1 else f"The {calls} calls that waited"
    return f"{what} for your approval will not run."
