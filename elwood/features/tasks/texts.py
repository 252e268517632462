"""Format tasks: news for the owner, prompts of runs, and lists."""

import math
from collections.abc import Sequence
from itertools import islice

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import QUIET, Budget
from elwood.agent.conversation.settings import DAYS, local_time, write_hours
from elwood.agent.models.ledger import dollars
from elwood.features.tasks.state import RunFinished, RunsMissed, TaskState
from elwood.features.tasks.task import Task, TaskStatus, next_run, runs_after
from elwood.features.tasks.when import Once, say_clock, say_moment, say_when
from elwood.foundation.text.lines import duration, one_line

# Next runs in the question about a new task, and in its result.
SHOWN_RUNS = 3
# Characters of a title, of the work of a task in a list, and of a reason or result.
MAX_TITLE, MAX_GLIMPSE, MAX_WORDS = 60, 120, 300
# Tasks in the reminder for the model.
MAX_PLANNED = 10
# Most missed times that are counted.
MOST_MISSED = 10_000
# Buttons below a list: as many as fit on a phone screen.
MAX_BUTTONS = 8
# Seconds that a run may be late without a notice: the scheduler checks once a minute.
ON_TIME = 120.0
ACTED = " It may have done part of its work, so I will not try it again."
USAGE = (
    "/tasks pause ID: pause a task.\n"
    "/tasks resume ID: continue a paused task.\n"
    "/tasks cancel ID: delete a task.\n"
    "/tasks run ID: run it now.\n"
    "/tasks stop ID: stop its current run.\n"
    "/tasks log ID: show the results of its runs.\n"
    "/tasks all: also list my own jobs."
)


# --- news for the owner --------------------------------------------------------------------------


def brief(words: str) -> str:
    """Shorten *words* to one line without a full stop."""
    return one_line(words, MAX_WORDS).removesuffix(".")


def name(task: Task) -> str:
    """Format the title of *task* for people."""
    return f'"{one_line(task.title, MAX_TITLE) or task.id}"'


def format_missed(task: Task, first: float, last: float, count: int, why: str, zone: str) -> str:
    """Format the news that planned times were missed."""
    if count == 1:
        return f"Missed: {name(task)}, planned for {say_clock(first, zone)}: {why}."
    many = f"over {MOST_MISSED:,}" if count >= MOST_MISSED else str(count)
    times = f"{many} times, from {say_clock(first, zone)} to {say_clock(last, zone)}"
    return f"Missed: {name(task)}, {times}: {why}."


def clock_behind(before: float, zone: str) -> str:
    """Format the warning that the clock is far behind *before*, which it has shown."""
    return (
        f"My clock was set back: it has already shown {say_clock(before, zone)}. My tasks wait "
        "until then. If the clock is right now, send /tasks resume ID."
    )


def result(what: str, task: Task, words: str, then: str = "") -> str:
    """Format the news of a result; *then* says what follows."""
    return f"{what}: {name(task)}: {brief(words)}.{then}"


# --- prompts and answers of runs -----------------------------------------------------------------


def frame_prompt(
    text: str, trouble: str, told: str, task: Task, due: float, now: float, zone: str
) -> str:
    """Add the context of a run, planned for *due* and started at *now*, before *text*.

    *trouble* is the failure of the last try, *told* the last answer to the owner; "" if none.
    """
    lines = [
        f"[A run of the task {name(task)} ({task.id}), planned for {say_clock(due, zone)} ({zone})."
        " No one is waiting for it, and you cannot ask anyone."
    ]
    if task.silent:
        lines.append("Your answer is stored and not sent to anyone.")
    else:
        # A group has other readers: the model must not post private data by mistake.
        group = task.route is not None and not task.route.private
        whom = "a group, where other people also read it" if group else "the owner"
        lines.append(
            f"Your answer is sent to {whom}. If there is nothing to report, answer exactly {QUIET}."
        )
    if now - due > ON_TIME:
        late = f"This run is {duration(now - due)} late: it is {say_clock(now, zone)} now"
        lines.append(f"{late}. Leave out things that are over.")
    if trouble:
        lines.append(
            f"An earlier try failed: {brief(trouble)}. First check what it may have done already."
        )
    if told:
        lines.append(
            f'You recently told the owner: "{brief(told)}". Repeat it only if it has changed.'
        )
    return f"{' '.join(lines)}]\n\n{text}"


def format_tool_call(task: Task, due: float, now: float, zone: str) -> str:
    """Format the tool call of a run for the records."""
    what = f"{task.tool} {task.arguments}"
    return f"[The task {name(task)} ({task.id}), planned for {say_clock(due, zone)}, calls {what}]"


def format_reminder(task: Task, due: float, now: float, zone: str) -> str:
    """Format a reminder, with a notice if it is late."""
    text = f"⏰ {task.message}"
    if now - due <= ON_TIME:
        return text
    return f"{text}\n\n(This was planned for {say_clock(due, zone)}, {duration(now - due)} ago.)"


def format_log_line(one: TaskState, entry: RunFinished | RunsMissed, now: float, zone: str) -> str:
    """Format the line of the run log for a finished run or missed times."""
    if isinstance(entry, RunsMissed):
        what, words = f"{entry.result} ({entry.count})", entry.why
    else:
        took = f" in {duration(now - one.run.at)}" if one.run is not None else ""
        what, words = f"{entry.result}{took}", entry.words
    return f"{say_clock(now, zone)}  {what}{f': {brief(words)}' if words else ''}"


# --- lists ---------------------------------------------------------------------------------------


def next_runs(task: Task, zone: str, now: float) -> str:
    runs = islice(runs_after(task, now), SHOWN_RUNS)
    return "; ".join(say_moment(at, zone, now) for at in runs) or "no further run"


def ask_to_schedule(task: Task, zone: str, now: float, *, is_own: bool) -> str:
    """Complete "May I …" for a new *task*; *is_own*: its words go to the owner.

    >>> task = Task("a", "A", Once(118800.0), "UTC", message="Call Bo.")
    >>> ask_to_schedule(task, "UTC", 0, is_own=True)
    'remind you tomorrow at 09:00'
    """
    does = "remind you" if is_own else "send a reminder"
    does = does if task.message else "do this job"
    at = next_run(task, now)
    if isinstance(task.when, Once) and at is not None:
        here, today = local_time(at, zone), local_time(now, zone)
        days = {0: "today", 1: "tomorrow"}
        day = days.get(
            (here.date() - today.date()).days, f"on {DAYS[here.weekday()]} {here:%Y-%m-%d}"
        )
        return f"{does} {day} at {here:%H:%M}"
    when = say_when(task.when, task.zone)
    return f"{does} {when}" if when.startswith("every ") else f"{does} on a schedule"


def cadence(task: Task, zone: str) -> str:
    """Format when *task* runs, for a reader in *zone*.

    >>> from elwood.agent.conversation.settings import Hours
    >>> from elwood.features.tasks.when import Cron
    >>> task = Task("a", "A", Cron("0 9 * * 1"), "Asia/Tokyo", hours=Hours("08:00", "20:00"))
    >>> cadence(task, "UTC")
    'every Mon at 09:00 (Asia/Tokyo), only 08:00-20:00'
    """
    text = say_when(task.when, zone if isinstance(task.when, Once) else task.zone)
    if task.zone != zone and not isinstance(task.when, Once):
        text += f" ({task.zone})"
    if task.hours is not None:
        text += f", only {write_hours(task.hours)}"
    if task.ends is not None:
        text += f", until {say_clock(task.ends, zone)}"
    return text


def limits(task: Task) -> list[str]:
    """List the limits of *task* that are not the defaults.

    >>> limits(Task("t", "T", Once(0.0), role="cheap", tools=("web",), budget=Budget(usd=0.25)))
    ['with the cheap model', 'only with web', 'at most $0.25 a day']
    """
    found = []
    if task.role != "default":
        found.append(
            f"with the {f'model {task.role}' if '/' in task.role else f'{task.role} model'}"
        )
    if task.tools is not None:
        found.append(f"only with {', '.join(task.tools)}" if task.tools else "without tools")
    budget = task.budget or Budget()
    most = [] if budget.usd is None else [dollars(budget.usd)]
    most += [] if budget.tokens is None else [f"{budget.tokens:,} tokens"]
    if most:
        found.append(f"at most {' and '.join(most)} a day")
    return found


def state(seen: TaskStatus, zone: str, now: float) -> str:
    parts = []
    if seen.running is not None:
        parts.append(f"running since {say_moment(seen.running, zone, now)}")
    if seen.paused:
        why = one_line(seen.paused, MAX_WORDS)
        parts.append(why if why.startswith("paused") else f"paused: {why}")
    elif seen.next is not None:
        parts.append(f"next {say_moment(seen.next, zone, now)}")
    elif seen.running is None:
        parts.append("no further run")
    if seen.last is not None:
        parts.append(f"last {say_moment(seen.last, zone, now)}: {seen.result or 'unknown'}")
    if seen.failures > 1:
        parts.append(f"failed {seen.failures} times in a row")
    return "; ".join(parts)


def describe_action(task: Task) -> str:
    if task.chore:
        return f"maintenance: {task.chore}"
    if task.tool:
        return f"calls: {task.tool} {task.arguments}"
    return f"reminds: {task.message}" if task.message else f"does: {task.prompt}"


def list_tasks(tasks: Sequence[TaskStatus], zone: str, now: float) -> str:
    """Format a list of tasks, several lines each; texts cannot add lines."""
    parts = []
    for seen in tasks:
        task, title = seen.task, one_line(seen.task.title, MAX_TITLE)
        how = [cadence(task, zone)]
        how += ["silent"] if task.silent else []
        how += ["continues a conversation"] if task.session else []
        lines = [
            f"{task.id}: {title}" if title != task.id else title,
            f"  {one_line(', '.join(how), MAX_WORDS)}",
        ]
        if bounds := limits(task):
            lines.append(f"  {one_line(', '.join(bounds), MAX_WORDS)}")
        lines.append(f"  {one_line(state(seen, zone, now), MAX_WORDS)}")
        lines.append(f"  {one_line(describe_action(task), MAX_GLIMPSE)}")
        # The words of other results are left out: strangers may have steered them.
        if seen.words and seen.result in ("failed", "missed"):
            lines.append(f"  {one_line(seen.words, MAX_WORDS)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def summarize_tasks(tasks: Sequence[TaskStatus], zone: str, now: float) -> str:
    """Summarize *tasks* in a line: those that run, the number of the others, and the next one."""
    active = [one for one in tasks if one.next is not None and not one.paused]
    running = ", ".join(name(one.task) for one in tasks if one.running is not None)
    parts = [f"Running tasks: {running}."] if running else []
    parts.append(f"Active tasks: {len(active)}.")
    if active:
        first = min(active, key=lambda one: one.next or 0.0)
        at = say_moment(first.next or 0.0, zone, now)
        parts.append(f"Next: {name(first.task)}, {at}.")
    return " ".join(parts)


def list_planned(tasks: Sequence[TaskStatus], route: Route, zone: str) -> str:
    """List the *tasks* whose answers go to *route* or to any owner, one line each.

    The lines do not change with each run.  Untrusted tasks are left out, as they would need their
    label.
    """
    own = [
        task
        for task in (one.task for one in tasks if one.next is not None and not one.paused)
        if (task.route.is_same_chat(route) if task.route else task.origin != "talk")
        and not task.untrusted
    ]
    # Single times first, the next at the top; then the others in a stable order.
    own.sort(key=lambda one: (one.when.at if isinstance(one.when, Once) else math.inf, one.id))
    more = f"\n({len(own) - MAX_PLANNED} more; see list_tasks)" if len(own) > MAX_PLANNED else ""
    lines = (
        f"\n- {one.id}: {one_line(f'{cadence(one, zone)}: {one.title}', MAX_GLIMPSE)}"
        for one in own[:MAX_PLANNED]
    )
    return "".join(lines) + more


def buttons(tasks: Sequence[TaskStatus]) -> tuple[str, ...]:
    """Return buttons that stop, pause or resume the first of *tasks*."""
    offered = []
    for seen in tasks:
        if seen.running is not None and not seen.task.session:
            offered.append(f"/tasks stop {seen.task.id}")
        if seen.paused or seen.next is not None:
            offered.append(f"/tasks {'resume' if seen.paused else 'pause'} {seen.task.id}")
    return tuple(offered[:MAX_BUTTONS])
