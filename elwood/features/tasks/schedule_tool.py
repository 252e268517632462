"""The tool that has something done later, or again and again."""

from collections.abc import Sequence
from typing import Annotated

import attrs
import msgspec
from msgspec import Meta

from elwood.agent.conversation.actions import Schedule as Scheduling
from elwood.agent.conversation.plans import Plan
from elwood.agent.conversation.task_run import SESSION
from elwood.agent.session.reading.receipts import one_line
from elwood.agent.tools.tool import Hands, Tool, ToolFailure
from elwood.features.tasks.bounds import bounded, in_words
from elwood.features.tasks.file_words import read_hours
from elwood.features.tasks.messages import ListTasks, Schedule, Unscheduled
from elwood.features.tasks.task import (
    CATCH_UP,
    CATCH_UP_ONCE,
    Seen,
    Task,
)
from elwood.features.tasks.task_text import (
    MAX_TITLE,
    cadence,
    clock,
    moment,
    runs,
)
from elwood.features.tasks.timing_text import MAX_TEXT, parse_when
from elwood.features.tasks.tools import timetable
from elwood.features.tasks.when import (
    Cadence,
    Every,
    Hours,
    Once,
    When,
)

# Characters of a reminder: one message of Telegram's; and of what a job is told.
MAX_REMINDER, MAX_JOB = 4000, 8000
# Tools that are named for a job; who needs more needs all.
MAX_TOOLS = 32

Names = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=MAX_TOOLS)]


class ScheduleTask(msgspec.Struct, forbid_unknown_fields=True):
    title: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_TITLE, description="A few words: 'call mum'"),
    ]
    when: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT,
            description=(
                "In English and the owner's time zone: 'in 20 minutes', 'tomorrow at 9', 'friday "
                "at 17:30', '2026-12-24 18:00', 'every 20 minutes', 'every day at 9', 'every "
                "monday at 8', 'on the 1st of every month at 10:00', or cron: '30 7 * * 1-5'"
            ),
        ),
    ]
    remind: Annotated[
        str,
        Meta(
            max_length=MAX_REMINDER,
            description="For a plain reminder: the very text that is sent to the person then",
        ),
    ] = ""
    do: Annotated[
        str,
        Meta(
            max_length=MAX_JOB,
            description=(
                "For a job: what you shall do then, as an order to yourself with all that is "
                "needed for it; the run sees nothing of this conversation"
            ),
        ),
    ] = ""
    only_between: Annotated[
        str, Meta(max_length=40, description="Hours in which it may run: '8-22', 'mon-fri 8-18'")
    ] = ""
    until: Annotated[
        str,
        Meta(max_length=MAX_TEXT, description="When it ends by itself: '2026-12-24', 'friday'"),
    ] = ""
    here: Annotated[
        bool, Meta(description="The job goes on with this conversation, instead of an empty one")
    ] = False
    silent: Annotated[
        bool, Meta(description="The job's answers are kept and not sent to the person")
    ] = False
    cheap: Annotated[
        bool, Meta(description="The job is done by the small, cheap model: for simple checks")
    ] = False
    budget_usd: Annotated[
        float | None, Meta(description="US dollars a day that the job may spend, less than usual")
    ] = None
    budget_tokens: Annotated[
        int | None, Meta(description="The same in tokens, where models have no price")
    ] = None
    tools: Annotated[
        Names | None,
        Meta(
            description=(
                "The only tools that the job may use, by name, instead of all that you have; "
                "cancel_task among them if it is to end itself"
            ),
        ),
    ] = None


async def plan_schedule(given: ScheduleTask, hands: Hands) -> Plan:
    """Say what would be done when: a yes is for this text at these times."""
    drafted = await _draft(given, hands)
    task, now = drafted.task, hands.now()
    planned = [moment(at, hands.zone, now) for at in runs(task, now)]
    lines = [
        f"{'Remind' if task.message else 'Schedule'}: {one_line(task.title, MAX_TITLE)}",
        f"When: {cadence(task, hands.zone)}",
        f"Next: {'; '.join(planned) or 'at a time of its own'}",
    ]
    if drafted.place:
        lines.append(f"Answers go to: {drafted.place}")
    if task.silent:
        lines.append("Its answers are not sent")
    if task.session:
        lines.append("It runs in this conversation")
    if bounds := in_words(task):
        lines.append(f"It runs {', '.join(bounds)}")
    # What is chosen freely stands last: it cannot pass for another line.
    lines += ["Text:", given.remind or given.do]
    text = f"{given.title}\n{given.remind or given.do}"
    return Plan(Scheduling(), "\n".join(lines), drafted.facts, text)


async def schedule(given: ScheduleTask, hands: Hands) -> str:
    """Have it planned, if it is still what was examined."""
    drafted = await _draft(given, hands)
    if drafted.facts != dict(hands.facts):
        raise ToolFailure("what it would plan changed since it was allowed; nothing was scheduled")
    tasks = await timetable(hands).ask(ListTasks())
    task = _goes_on(drafted.task, tasks)
    answer = await timetable(hands).ask(Schedule(task=task))
    match answer:
        case Unscheduled(why):
            raise ToolFailure(f"not scheduled: {why}")
        case Seen(task, next=at):
            return _scheduled(task, at, hands)


@attrs.frozen
class _Drafted:
    """A task as it would be planned; *place* is where its answers go, *facts* bind a yes to it."""

    task: Task
    place: str
    facts: dict[str, str]


async def _draft(given: ScheduleTask, hands: Hands) -> _Drafted:
    """Examine what is wanted.  Raises ToolFailure with what is wrong and what to write."""
    now, zone = hands.now(), hands.zone
    reminder, job = given.remind.strip(), given.do.strip()
    if bool(reminder) == bool(job):
        raise ToolFailure(
            "give one of remind (the text of a plain reminder) and do (a job for yourself); "
            "nothing was scheduled"
        )
    if reminder and (given.here or given.silent):
        raise ToolFailure("here and silent are for do: a reminder is sent as it stands")
    bounding = (given.budget_usd, given.budget_tokens, given.tools)
    if reminder and (given.cheap or bounding != (None, None, None)):
        raise ToolFailure("cheap, budgets and tools are for do: a reminder needs no model")
    if given.here and (not hands.session or hands.session.startswith(SESSION)):
        raise ToolFailure("this is the run of a task, not a conversation: leave out here")
    when, ends = _when(given.when, hands), _end(given.until, hands)
    bounds = bounded(
        hands.reach(), tools=given.tools, usd=given.budget_usd, tokens=given.budget_tokens
    )
    if isinstance(bounds, str):
        raise ToolFailure(f"{bounds}; nothing was scheduled")
    place = await hands.voice.place("here") if hands.voice else None
    task = Task(
        "",
        " ".join(given.title.split()),
        when,
        zone,
        prompt=job,
        message=reminder,
        hours=_hours(given.only_between),
        session=hands.session if given.here else "",
        # Not as an answer to the message of today: in a year nobody looks there.
        route=msgspec.structs.replace(place.route, reply_to=None) if place else None,
        silent=given.silent,
        role="cheap" if given.cheap else "default",
        tools=bounds.tools if job else None,
        purse=bounds.purse if job else None,
        catch_up=CATCH_UP_ONCE if reminder and isinstance(when, Once) else CATCH_UP,
        ends=ends,
        untrusted=hands.untrusted(),
    )
    if not task.title:
        raise ToolFailure("title has no words; nothing was scheduled")
    if not isinstance(when, Cadence) and not runs(task, now, 1):
        raise ToolFailure(
            "it would never run: its times lie outside of only_between, or behind until. "
            f"It is now {clock(now, zone)}"
        )
    facts = {"to": repr(task.route), "zone": zone, "within": "; ".join(in_words(task))}
    # Of a time that is counted from now on ("in 20 minutes") the words are what was allowed.
    later = attrs.evolve(hands, now=lambda: now + 1.0)
    if isinstance(when, Once) and _when(given.when, later) == when:
        facts["at"] = str(when.at)
    if _end(given.until, later) == ends:
        facts["ends"] = str(ends)
    return _Drafted(task, place.name if place else "", facts)


def _when(text: str, hands: Hands) -> When:
    """Read a time."""
    now = hands.now()
    when = parse_when(text, hands.zone, now)
    if isinstance(when, str):
        raise ToolFailure(f"when: {when} (it is now {clock(now, hands.zone)})")
    return when


def _end(text: str, hands: Hands) -> float | None:
    """Read when a task ends; a day alone ends with the day."""
    if not text.strip():
        return None
    now = hands.now()
    for said in (text, f"{text} at 23:59"):
        when = parse_when(said, hands.zone, now)
        if isinstance(when, Once):
            return when.at
    raise ToolFailure(
        f"until: {text!r} is no day or moment to come: write it like '2026-12-24' or 'friday at "
        f"18:00' (it is now {clock(now, hands.zone)}). What ends by something else says so in do."
    )


def _hours(text: str) -> Hours | None:
    hours = read_hours(text)
    if isinstance(hours, str):
        raise ToolFailure(f"only_between: {hours}")
    return hours


def _goes_on(task: Task, tasks: Sequence[Seen]) -> Task:
    """Let an interval that is planned already go on counting as it does: it is the same task."""
    if isinstance(task.when, Every):
        for old in (seen.task for seen in tasks):
            begun = msgspec.structs.replace(task, when=old.when)
            same = isinstance(old.when, Every) and old.when.seconds == task.when.seconds
            if same and msgspec.structs.replace(old, id="") == begun:
                return begun
    return task


def _scheduled(task: Task, at: float | None, hands: Hands) -> str:
    """Say what was planned; `core.receipts` shows the first line below the answer."""
    now, zone = hands.now(), hands.zone
    first = moment(at, zone, now) if at is not None else "no further run"
    title = one_line(task.title, MAX_TITLE)
    how = "; ".join([cadence(task, zone), *in_words(task)])
    return f"scheduled: {title}, {first}\nid {task.id}; {how}; next run: {first}"


SCHEDULE = Tool(
    name="schedule",
    id="tasks.task.create",
    description=(
        "Have something done later, once or again and again. Two kinds: 'remind' sends the person "
        "a text as it stands ('remind me tomorrow at nine to call mum'); 'do' is a job for "
        "yourself, whose answer is sent to the person ('every monday at eight summarise my "
        "inbox'). A reminder or job exists only if this succeeded: never promise one without it. "
        "Say when the next run is, as the result tells it. A job that goes on 'until the build is "
        "green' repeats, and its text says: if it is green, tell the person and call cancel_task. "
        "Each run is told the id of its task. To change a task, cancel it and schedule it anew."
    ),
    input=ScheduleTask,
    run=schedule,
    risk="write",
    effect="once",
    timeout=30.0,
    target=lambda given: f"{given.title}, {given.when}",
    plan=plan_schedule,
)
