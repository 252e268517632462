"""What a session does with tasks besides its tools: /tasks, which shows and changes them."""

import trio
from msgspec.structs import replace

from elwood.agent.models.messages import Spending
from elwood.agent.session.log.entries import Received
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.features.tasks.messages import Change, ListTasks, TimetableMail
from elwood.features.tasks.task import TaskStatus
from elwood.features.tasks.texts import (
    USAGE,
    buttons,
    find,
    listing,
)
from elwood.foundation.runtime import ActorUnavailable, Address

# Seconds for a command, and of them to learn what tasks have cost: without that it is told, too.
COMMAND_LIMIT, COSTS_LIMIT = 20.0, 5.0
# Who changes a task, as the model and people read it.
BY = "the owner"
UNAVAILABLE = "Nobody can say now what is planned. Try again in a minute."

Answer = tuple[str, tuple[str, ...]]
"""A text, and the commands that its buttons type."""


async def tasks_command(
    received: Received, given: str, house: Surroundings, *, again: bool = False
) -> Answer:
    """Carry out ``/tasks``, for the owner only; *again* if that may have been done before."""
    if received.untrusted:
        return "What is planned is for my owner only.", ()
    if house.timetable is None:
        return "Nothing can be planned here.", ()
    if again and given.split()[:1] == ["run"]:
        return "It may run already: I was interrupted. /tasks tells.", ("/tasks",)
    answer: Answer = (UNAVAILABLE, ())
    with trio.move_on_after(COMMAND_LIMIT):
        try:
            answer = await _answer(given, house, house.timetable)
        except ActorUnavailable:
            return UNAVAILABLE, ()
    return answer


async def _answer(given: str, house: Surroundings, timetable: Address[TimetableMail]) -> Answer:
    # The owner's zone: its name is what it was made of.
    zone, now = str(house.zone), house.now()
    match given.split(maxsplit=1):
        case [] | ["all"]:
            tasks = await timetable.ask(ListTasks(chores=bool(given)))
            tasks = await _with_costs(tasks, house)
            return listing(tasks, zone, now), buttons(tasks)
        case [("pause" | "resume" | "cancel" | "run" | "stop") as verb, wanted]:
            tasks = await timetable.ask(ListTasks(chores=True))
            found = find(wanted, tasks)
            if not isinstance(found, str):
                id_ = found.task.id
            elif verb == "stop":
                id_ = wanted.strip()  # it may be cancelled, and not at its end
            else:
                return f"{found[0].upper()}{found[1:]}.", ()
            settled = await timetable.ask(Change(id=id_, verb=verb, by=BY, stop=verb == "cancel"))
            text = settled.text
            if verb == "run" and settled.ok and (full := house.refusal()):
                text = f"It runs when there is room: {full}."
            after = await timetable.ask(ListTasks(chores=True))
            changed = [one for one in after if one.task.id == id_]
            return f"{id_}: {text}", (*buttons(changed), "/tasks")
        case _:
            return f"I do not understand that. {USAGE}", ()


async def _with_costs(tasks: tuple[TaskStatus, ...], house: Surroundings) -> tuple[TaskStatus, ...]:
    """Fill in what the runs of *tasks* have cost this month, if that can be learned."""
    with trio.move_on_after(COSTS_LIMIT):
        try:
            spent = await house.models.ask(Spending(session=""))
        except ActorUnavailable:
            return tasks
        costs = {job.name: job.month.usd for job in spent.jobs}
        return tuple(replace(one, spent=costs.get(one.task.id, 0.0)) for one in tasks)
    return tasks
