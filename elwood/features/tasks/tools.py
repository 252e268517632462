"""The tools that schedule, list and change tasks."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import Effect, Other, Plan, Reschedule, Schedule
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.run import SESSION, Budget, RunBounds, owner_of
from elwood.agent.models.ledger import dollars
from elwood.agent.tools.talk import Messenger, Recipient
from elwood.agent.tools.tool import Output, Tool, ToolContext, ToolFailure, always
from elwood.features.tasks.messages import Change, ListTasks, PlanTask, TimetableMail
from elwood.features.tasks.settings import TaskForm, read_task
from elwood.features.tasks.task import Task, TaskStatus, next_run
from elwood.features.tasks.texts import (
    MAX_TITLE,
    ask_to_schedule,
    cadence,
    describe_action,
    limits,
    list_tasks,
    next_runs,
)
from elwood.features.tasks.when import (
    MAX_EXPRESSION,
    UNITS,
    Cron,
    Every,
    Once,
    When,
    check,
    read_moment,
    say_clock,
    say_moment,
)
from elwood.foundation.runtime import Address
from elwood.foundation.settings import BadSetting
from elwood.foundation.text.lines import one_line

# Characters of a reminder, one message of Telegram; and of the prompt of a job.
MAX_REMINDER, MAX_JOB = 4000, 8000
# Characters of a date with time.
MAX_TIME = 40
# Tools that can be listed for a job; the alternative is all.
MAX_TOOLS = 32

Names = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=MAX_TOOLS)]
# The actor of a change, for people.
BY = "the assistant"

Verb = Literal["pause", "resume", "cancel"]


class Interval(msgspec.Struct, forbid_unknown_fields=True):
    n: Annotated[int, Meta(ge=1, le=10_000, description="How many of the unit")]
    unit: Literal["minute", "hour", "day", "week"]
    first: Annotated[
        str,
        Meta(
            max_length=MAX_TIME,
            description="Time of the first run, as in at; default: after one interval",
        ),
    ] = ""


class ScheduleTask(msgspec.Struct, forbid_unknown_fields=True):
    title: Annotated[
        str, Meta(min_length=1, max_length=MAX_TITLE, description="A few words: 'call mum'")
    ]
    at: Annotated[
        str,
        Meta(
            max_length=MAX_TIME,
            description="Once, at a date and time in the owner's zone: '2026-12-24T18:00'",
        ),
    ] = ""
    in_minutes: Annotated[
        Annotated[float, Meta(gt=0, le=5_000_000)] | None,
        Meta(description="Once, this many minutes from now"),
    ] = None
    cron: Annotated[
        str,
        Meta(
            max_length=MAX_EXPRESSION,
            description=(
                "Repeatedly at times of day in the owner's zone, as a cron "
                "expression with five fields: '30 7 * * 1-5' is every weekday at "
                "7:30, '0 10 1 * *' the 1st of every month"
            ),
        ),
    ] = ""
    every: Annotated[
        Interval | None,
        Meta(description="Repeatedly after an interval; for a time of day use cron"),
    ] = None
    remind: Annotated[
        str,
        Meta(
            max_length=MAX_REMINDER,
            description="For a reminder: the exact text to send to the person",
        ),
    ] = ""
    do: Annotated[
        str,
        Meta(
            max_length=MAX_JOB,
            description=(
                "For a job: an instruction to yourself with all necessary "
                "information; the run does not see this conversation"
            ),
        ),
    ] = ""
    only_between: Annotated[
        str, Meta(max_length=40, description="Hours in which it may run: '8-22', 'mon-fri 8-18'")
    ] = ""
    until: Annotated[
        str,
        Meta(
            max_length=MAX_TIME,
            description="Its end: '2026-12-24' (includes that day), or a date and time as in at",
        ),
    ] = ""
    here: Annotated[
        bool, Meta(description="The job continues this conversation, instead of a new one")
    ] = False
    silent: Annotated[
        bool, Meta(description="The job's answers are stored but not sent to the person")
    ] = False
    cheap: Annotated[bool, Meta(description="Use the small, cheap model, for simple checks")] = (
        False
    )
    budget_usd: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="US dollars per day that the job may spend; less than the default"),
    ] = None
    tools: Annotated[
        Names | None,
        Meta(
            description=(
                "Names of the only tools that the job may use, instead of all your "
                "tools; include cancel_task if the job must be able to end itself"
            )
        ),
    ] = None


class ListTheTasks(msgspec.Struct, forbid_unknown_fields=True):
    task: Annotated[
        str, Meta(max_length=MAX_TITLE, description="Id of one task, to see all its details")
    ] = ""


class ChangeTask(msgspec.Struct, forbid_unknown_fields=True):
    task: Annotated[
        str,
        Meta(
            max_length=MAX_TITLE,
            description="Its id, from list_tasks; in a run, leave it out for the run's own task",
        ),
    ] = ""


class _TaskDraft(msgspec.Struct, frozen=True):
    """A task to plan."""

    task: Task
    place: Recipient | None  # of its answers
    facts: dict[str, str]  # an approval is valid only for these


class TaskTools:
    """Tools that use the *timetable*; *messenger* finds the route of answers.

    *usual* is the default budget of a job.
    """

    def __init__(
        self, timetable: Address[TimetableMail], messenger: Messenger, usual: Budget
    ) -> None:
        self._timetable = timetable
        self._messenger = messenger
        self._usual = usual

    async def plan_schedule(self, given: ScheduleTask, context: ToolContext) -> Plan:
        """Describe the task; an approval is for this text at these times."""
        draft = await self._draft(given, context)
        task, now = draft.task, context.now
        lines = [
            f"{'Reminder' if task.message else 'Job'}: {one_line(task.title, MAX_TITLE)}",
            f"When: {cadence(task, context.zone)}",
            f"Next: {next_runs(task, context.zone, now)}",
        ]
        if draft.place:
            lines.append(f"{'Sent to' if task.message else 'Answers go to'}: {draft.place.name}")
        if task.silent:
            lines.append("Its answers are not sent.")
        if task.session:
            lines.append("It continues this conversation.")
        if bounds := limits(task):
            lines.append(f"It runs {', '.join(bounds)}.")
        # The free text is last, so it cannot imitate another line.
        lines += ["Text:", given.remind or given.do]
        text = f"{given.title}\n{given.remind or given.do}"
        is_own = draft.place is not None and draft.place.whom == "owner"
        asks = ask_to_schedule(task, context.zone, now, is_own=is_own)
        return Plan(Schedule(), "\n".join(lines), draft.facts, text, asks=asks)

    async def schedule(self, given: ScheduleTask, context: ToolContext) -> str:
        """Plan the task, if it is still the approved one."""
        draft = await self._draft(given, context)
        if draft.facts != dict(context.facts):
            raise ToolFailure("the task has changed since the approval; nothing was scheduled")
        answer = await self._timetable.ask(PlanTask(task=draft.task))
        match answer:
            case CommandResult(text):
                raise ToolFailure(f"not scheduled: {text}")
            case TaskStatus(task, next=at):
                return _format_scheduled(task, at, context)

    async def _draft(self, given: ScheduleTask, context: ToolContext) -> _TaskDraft:
        """Build the task.  Raises ToolFailure with the fault and the remedy."""
        try:
            return await self._examine(given, context)
        except BadSetting as wrong:
            clock = say_clock(context.now, context.zone)
            raise ToolFailure(f"{wrong}; nothing was scheduled (it is now {clock})") from wrong

    async def _examine(self, given: ScheduleTask, context: ToolContext) -> _TaskDraft:
        now, zone = context.now, context.zone
        reminder, job = given.remind.strip(), given.do.strip()
        if bool(reminder) == bool(job):
            raise BadSetting(
                "it needs either remind or do",
                "give the text of a plain reminder, or a job for yourself",
            )
        bounding = (given.budget_usd, given.tools)
        if reminder and (given.here or given.silent or given.cheap or bounding != (None, None)):
            raise BadSetting(
                "here, silent, cheap, budget_usd and tools work only with do",
                "a reminder is sent unchanged, without a model",
            )
        if given.here and (not context.session or context.session.startswith(SESSION)):
            raise BadSetting(
                "this is the run of a task, not a conversation", "leave out the parameter here"
            )
        when = _when(given, zone, now)
        if given.until.strip():
            _moment("until", given.until, zone, now, end=True)
        tools, budget = bounds_of(given, context, self._usual) if job else (None, Budget())
        place = await self._messenger.find_recipient("here", context.route)
        form = TaskForm(
            title=" ".join(given.title.split()),
            when="",
            ends=given.until.strip(),
            hours=given.only_between,
            prompt=job,
            message=reminder,
            session=context.session if given.here else "",
            silent=given.silent,
            model="cheap" if given.cheap else "default",
            tools=tools,
            tokens=budget.tokens,
            usd=budget.usd,
            untrusted=context.label.untrusted,
        )
        if not form.title:
            raise BadSetting("title has no words", "write a few words")
        # Not a reply to today's message, which may be old when the task runs.
        route = msgspec.structs.replace(place.route, reply_to=None) if place else None
        task = msgspec.structs.replace(read_task(form, zone, "talk", when), id="", route=route)
        if next_run(task, now) is None:
            raise BadSetting("it would never run", "its times must be before until")
        facts = {"to": repr(task.route), "zone": zone, "within": "; ".join(limits(task))}
        return _TaskDraft(task, place, facts)

    async def list_tasks(self, given: ListTheTasks, context: ToolContext) -> Output:
        """List all tasks except chores, or show one."""
        now = context.now
        if given.task:
            tasks: tuple[TaskStatus, ...] = (await self._find(given.task),)
        else:
            tasks = await self._timetable.ask(ListTasks())
        text = list_tasks(tasks, context.zone, now) or "there are no tasks"
        if given.task:
            text += f"\n\n{describe_action(tasks[0].task)}"
        strange = ", ".join(seen.task.id for seen in tasks if seen.task.untrusted)
        origin = f"tasks: {strange}" if strange else ""
        return Output(f"{text}\n(now: {say_clock(now, context.zone)})", bool(strange), True, origin)

    async def _find(self, wanted: str) -> TaskStatus:
        for seen in await self._timetable.ask(ListTasks()):
            if seen.task.id == wanted.strip().lower():
                return seen
        raise ToolFailure(f"there is no task {wanted}: list_tasks shows the ids")

    async def plan_change(self, verb: Verb, given: ChangeTask, context: ToolContext) -> Plan:
        """Find the task to change; an approval is for this one."""
        wanted = given.task.strip() or owner_of(context.bounds)
        if not wanted:
            raise ToolFailure(f"name the task to {verb}: list_tasks shows the ids")
        task = (await self._find(wanted)).task
        title = one_line(task.title, MAX_TITLE)
        subject = f"{verb.capitalize()} the task {task.id}: {title}, {cadence(task, context.zone)}"
        action = Reschedule(own=task.id == owner_of(context.bounds))
        return Plan(action, subject, {"task": task.id}, asks=f"{verb} this task")

    async def change(self, verb: Verb, given: ChangeTask, context: ToolContext) -> str:
        """Change the approved task."""
        task = context.facts["task"]
        asked = Change(id=task, verb=verb, by=BY, own=task == owner_of(context.bounds))
        settled = await self._timetable.ask(asked)
        if not settled.ok:
            raise ToolFailure(settled.text)
        return f"{task}: {settled.text}"


def _when(given: ScheduleTask, zone: str, now: float) -> When:
    """Parse the time, which exactly one of four parameters gives."""
    given_ones = (given.at.strip(), given.in_minutes, given.cron.strip(), given.every)
    if sum(one not in ("", None) for one in given_ones) != 1:
        raise BadSetting("it needs exactly one time", "give one of at, in_minutes, cron and every")
    if given.in_minutes is not None:
        when: When = Once(now + 60.0 * given.in_minutes)
    elif given.cron.strip():
        when = Cron(" ".join(given.cron.split()))
    elif given.every is not None:
        seconds = float(given.every.n * UNITS[given.every.unit])
        first = given.every.first.strip()
        begin = _moment("every.first", first, zone, now) - seconds if first else now
        when = Every(seconds, start=begin)
    else:
        when = Once(_moment("at", given.at, zone, now))
    check(when)
    return when


def bounds_of(
    given: ScheduleTask, context: ToolContext, usual: Budget
) -> tuple[tuple[str, ...] | None, Budget]:
    """Choose the tools and the budget of a job, at most those of this conversation.

    Missing values are those of the current run of a task, if any, else None, the default.
    """
    run = context.bounds or RunBounds("")
    own = run.budget or Budget()
    known = [name for name in sorted(context.tools) if run.tools is None or name in run.tools]
    if unknown := [name for name in given.tools or () if name not in known]:
        remedy = f"available: {', '.join(known)}" if known else "no tools are available"
        raise BadSetting(f"tools: {', '.join(unknown)} not available here", remedy)
    usd, most = (
        given.budget_usd,
        min((one for one in (own.usd, usual.usd) if one is not None), default=None),
    )
    if usd is not None and most is not None and usd > most:
        raise BadSetting(
            f"budget_usd: a task made in a conversation may spend at most {dollars(most)} a day",
            "the owner can raise limits.job_usd in config.toml, or write the task there",
        )
    budget = Budget(own.tokens, own.usd if usd is None else usd)
    return run.tools if given.tools is None else tuple(dict.fromkeys(given.tools)), budget


def _moment(key: str, text: str, zone: str, now: float, *, end: bool = False) -> float:
    """Parse a future local time; only an *end* may be a date, and means the end of that day."""
    try:
        at = read_moment(text, zone, end=end)
    except BadSetting as wrong:
        raise BadSetting(f"{key}: {wrong.what}", wrong.remedy) from wrong
    if not end and len(text.strip()) <= len("2026-12-24"):
        raise BadSetting(f"{key}: {text!r} has no time of day", "write it like 2026-12-24T18:00")
    if at <= now:
        raise BadSetting(f"{key}: {text!r} is in the past", "give a time in the future")
    return at


def _format_scheduled(task: Task, at: float | None, context: ToolContext) -> str:
    """Format the planned task; the footer of the answer shows the first line."""
    now, zone = context.now, context.zone
    first = say_moment(at, zone, now) if at is not None else "no further run"
    how = "; ".join([cadence(task, zone), *limits(task)])
    return (
        f"scheduled: {one_line(task.title, MAX_TITLE)}, {first}\n"
        f"id {task.id}; {how}; time zone {zone}; next: {next_runs(task, zone, now)}"
    )


def tools(
    timetable: Address[TimetableMail], messenger: Messenger, usual: Budget
) -> tuple[Tool, ...]:
    tasks = TaskTools(timetable, messenger, usual)
    return (
        Tool(
            name="schedule",
            id="tasks.task.create",
            description=(
                "Plan a reminder or a job, once or repeatedly. There are two "
                "kinds: 'remind' sends the person a text unchanged ('remind me "
                "tomorrow at nine to call mum'); 'do' is a job for yourself, and "
                "the person gets your answer ('every monday at eight summarise my "
                "inbox'). Give exactly one of at, in_minutes, cron and every; work "
                "out the time from the person's words yourself. A reminder or job "
                "exists only if this call succeeded: never promise one without it. "
                "Tell the person the time of the next run from the result. A job "
                "that runs 'until the build is green' repeats, and its text says: "
                "if it is green, tell the person and call cancel_task. Each run "
                "gets the id of its task. To change a task, cancel it and schedule "
                "it again."
            ),
            input=ScheduleTask,
            run=tasks.schedule,
            risk="write",
            effect="once",
            timeout=30.0,
            target=lambda given: given.title,
            plan=tasks.plan_schedule,
            deeds=("plan",),
            tells=True,
        ),
        Tool(
            name="list_tasks",
            id="tasks.task.list",
            description=(
                "List the planned reminders and jobs, with their ids, next and "
                "last runs; or show all details of one. Use it also to check if "
                "something is already planned."
            ),
            input=ListTheTasks,
            run=tasks.list_tasks,
            plan=always(Other("read"), "list your tasks"),
            risk="read",
            effect="pure",
            timeout=30.0,
            target=lambda given: given.task,
            gives=PRIVATE,
        ),
        _build_change_tool(tasks, "pause", "keyed", "Pause a task until resume_task."),
        _build_change_tool(
            tasks, "resume", "keyed", "Resume a paused task; it runs at its next planned time."
        ),
        _build_change_tool(
            tasks,
            "cancel",
            # A repeat would not find the task: after a crash the call is looked up instead.
            "once",
            "Delete a reminder or job that is finished or no longer wanted. "
            "Pending approvals of its runs are withdrawn, unless a run cancels its "
            "own task.",
        ),
    )


def _build_change_tool(tasks: TaskTools, verb: Verb, effect: Effect, description: str) -> Tool:
    plan: Callable[[ChangeTask, ToolContext], Awaitable[Plan]] = partial(tasks.plan_change, verb)
    run: Callable[[ChangeTask, ToolContext], Awaitable[str]] = partial(tasks.change, verb)
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
        deeds=("plan", "delete"),
    )
