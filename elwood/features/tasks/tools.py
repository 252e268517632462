"""The tools that list what is planned, and change it."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.actions import Other, Reschedule
from elwood.agent.conversation.calls import Effect
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.plans import Plan
from elwood.agent.session.reading.receipts import one_line
from elwood.agent.tools.tool import (
    Hands,
    Output,
    Tool,
    ToolFailure,
)
from elwood.features.tasks.messages import Change, ListTasks, TimetableMail
from elwood.features.tasks.task import Seen
from elwood.features.tasks.task_text import (
    MAX_TITLE,
    cadence,
    clock,
    find,
    table,
    whole,
)
from elwood.foundation.runtime import Address

# Who changes a task, where a person reads it.
BY = "the assistant"

Verb = Literal["pause", "resume", "cancel"]


class ListTheTasks(msgspec.Struct, forbid_unknown_fields=True):
    task: Annotated[
        str, Meta(max_length=MAX_TITLE, description="The id of one, to see all of it")
    ] = ""


class ChangeTask(msgspec.Struct, forbid_unknown_fields=True):
    task: Annotated[
        str,
        Meta(
            max_length=MAX_TITLE,
            description="Its id, or its exact title; in a run, leave it out to mean its own task",
        ),
    ] = ""


async def list_tasks(given: ListTheTasks, hands: Hands) -> Output:
    """List all tasks that people know of, or show one."""
    tasks = await timetable(hands).ask(ListTasks())
    now = hands.now()
    if given.task:
        one = _found(given.task, tasks)
        tasks, text = (one,), whole(one, hands.zone, now)
    else:
        text = table(tasks, hands.zone, now)
        text = f"id | title | when | state | what\n{text}" if text else "there are no tasks"
    strange = ", ".join(seen.task.id for seen in tasks if seen.task.untrusted)
    origin = f"tasks: {strange}" if strange else ""
    return Output(f"{text}\n(now: {clock(now, hands.zone)})", bool(strange), True, origin)


async def plan_listing(given: ListTheTasks, hands: Hands) -> Plan:
    """Say what would be shown."""
    await trio.lowlevel.checkpoint()
    return Plan(Other("read"), f"List the tasks{f': {given.task}' if given.task else ''}")


async def plan_change(verb: Verb, given: ChangeTask, hands: Hands) -> Plan:
    """Find which task would be changed: a yes is for this one."""
    wanted = given.task.strip() or hands.job()
    if not wanted:
        raise ToolFailure(f"say which task to {verb}: list_tasks tells the ids")
    tasks = await timetable(hands).ask(ListTasks())
    found = find(wanted, tasks)
    if isinstance(found, str):
        raise ToolFailure(f"{found}; nothing was changed")
    task = found.task
    title = one_line(task.title, MAX_TITLE)
    subject = f"{verb.capitalize()} the task {task.id}: {title}, {cadence(task, hands.zone)}"
    return Plan(Reschedule(own=task.id == hands.job()), subject, {"task": task.id})


async def change(verb: Verb, given: ChangeTask, hands: Hands) -> str:
    """Have the task changed that was found when it was allowed."""
    task = hands.facts["task"]
    asked = Change(id=task, verb=verb, by=BY, own=task == hands.job())
    settled = await timetable(hands).ask(asked)
    if not settled.ok:
        raise ToolFailure(settled.text)
    return f"{task}: {settled.text}"


def timetable(hands: Hands) -> Address[TimetableMail]:
    """Return who is asked about tasks.  Raises ToolFailure if nobody is."""
    if hands.timetable is None:
        raise ToolFailure("nothing can be scheduled here")
    return hands.timetable


def _found(wanted: str, tasks: Sequence[Seen]) -> Seen:
    found = find(wanted, tasks)
    if isinstance(found, str):
        raise ToolFailure(found)
    return found


def _changing(verb: Verb, effect: Effect, description: str) -> Tool:
    plan: Callable[[ChangeTask, Hands], Awaitable[Plan]] = partial(plan_change, verb)
    run: Callable[[ChangeTask, Hands], Awaitable[str]] = partial(change, verb)
    return Tool(
        name=f"{verb}_task",
        id=f"tasks.task.{verb}",
        description=description,
        input=ChangeTask,
        run=run,
        risk="write",
        effect=effect,
        timeout=30.0,
        target=lambda given: given.task,
        plan=plan,
    )


LIST_TASKS = Tool(
    name="list_tasks",
    id="tasks.task.list",
    description=(
        "List the reminders and jobs that are planned, with ids, next and last runs; or show one "
        "whole. It tells, too, whether something is planned already."
    ),
    input=ListTheTasks,
    run=list_tasks,
    risk="read",
    effect="pure",
    timeout=30.0,
    target=lambda given: given.task,
    plan=plan_listing,
    gives=PRIVATE,
)

PAUSE_TASK = _changing("pause", "keyed", "Let a task rest until it is resumed.")
RESUME_TASK = _changing("resume", "keyed", "Have a paused task go on, at its next time.")
CANCEL_TASK = _changing(
    "cancel",
    # What is gone cannot be found again: after a crash it is looked up, and not repeated.
    "once",
    "End a task for good: a reminder or job that is not wanted any more, or is done. What its runs "
    "still wait for the owner's yes for is withdrawn, unless a run ends its own task.",
)
