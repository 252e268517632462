"""What a session does with tasks besides its tools: /tasks, which shows and changes them."""

import trio
from msgspec.structs import replace

from elwood.agent.models.messages import ModelsMail, Spending
from elwood.agent.session.core import Admission
from elwood.agent.session.extension import CommandAnswer, CommandCall
from elwood.agent.session.turn.inputs import OwnerClock
from elwood.features.tasks.messages import Change, ListTasks, TimetableMail
from elwood.features.tasks.task import TaskStatus
from elwood.features.tasks.texts import USAGE, buttons, find, listing
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for a command, and of them to learn what tasks have cost: without that it is told, too.
COMMAND_LIMIT, COSTS_LIMIT = 20.0, 5.0
# Who changes a task, as the model and people read it.
BY = "the owner"
UNAVAILABLE = "Nobody can say now what is planned. Try again in a minute."


class TasksCommand:
    """Carries out ``/tasks``, for the owner only."""

    def __init__(
        self,
        timetable: Address[TimetableMail],
        models: Address[ModelsMail],
        clock: OwnerClock,
        admission: Admission,
    ) -> None:
        self._timetable = timetable
        self._models = models
        self._clock = clock
        self._admission = admission

    async def run(self, call: CommandCall) -> CommandAnswer:
        """Carry it out."""
        if call.received.untrusted:
            return CommandAnswer("What is planned is for my owner only.")
        if call.again and call.given.split()[:1] == ["run"]:
            text = "It may run already: I was interrupted. /tasks tells."
            return CommandAnswer(text, buttons=("/tasks",))
        answer = CommandAnswer(UNAVAILABLE)
        with trio.move_on_after(COMMAND_LIMIT):
            try:
                answer = await self._answer(call.given)
            except ActorUnavailable:
                return CommandAnswer(UNAVAILABLE)
        return answer

    async def _answer(self, given: str) -> CommandAnswer:
        # The owner's zone: its name is what it was made of.
        zone, now, timetable = str(self._clock.zone), self._clock.now(), self._timetable
        match given.split(maxsplit=1):
            case [] | ["all"]:
                tasks = await timetable.ask(ListTasks(chores=bool(given)))
                tasks = await self._with_costs(tasks)
                return CommandAnswer(listing(tasks, zone, now), buttons=buttons(tasks))
            case [("pause" | "resume" | "cancel" | "run" | "stop") as verb, wanted]:
                tasks = await timetable.ask(ListTasks(chores=True))
                found = find(wanted, tasks)
                if not isinstance(found, str):
                    id_ = found.task.id
                elif verb == "stop":
                    id_ = wanted.strip()  # it may be cancelled, and not at its end
                else:
                    return CommandAnswer(f"{found[0].upper()}{found[1:]}.")
                settled = await timetable.ask(
                    Change(id=id_, verb=verb, by=BY, stop=verb == "cancel")
                )
                text = settled.text
                if verb == "run" and settled.ok and (full := self._admission.refusal):
                    text = f"It runs when there is room: {full}."
                after = await timetable.ask(ListTasks(chores=True))
                changed = [one for one in after if one.task.id == id_]
                return CommandAnswer(f"{id_}: {text}", buttons=(*buttons(changed), "/tasks"))
            case _:
                return CommandAnswer(f"I do not understand that. {USAGE}")

    async def _with_costs(self, tasks: tuple[TaskStatus, ...]) -> tuple[TaskStatus, ...]:
        """Fill in what the runs of *tasks* have cost this month, if that can be learned."""
        with trio.move_on_after(COSTS_LIMIT):
            try:
                spent = await self._models.ask(Spending(session=""))
            except ActorUnavailable:
                return tasks
            costs = {job.name: job.month.usd for job in spent.jobs}
            return tuple(replace(one, spent=costs.get(one.task.id, 0.0)) for one in tasks)
        return tasks
