"""Tasks in words: what the owner is told of them, what a run is told, and how they are listed."""

import math
from collections.abc import Sequence
from itertools import islice

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import QUIET, Budget
from elwood.agent.conversation.settings import write_hours
from elwood.agent.models.ledger import dollars
from elwood.features.tasks.state import RunFinished, RunsMissed, TaskState
from elwood.features.tasks.task import Task, TaskStatus, runs_after
from elwood.features.tasks.when import Once, say_clock, say_moment, say_when
from elwood.foundation.text.lines import duration, one_line

# Runs that are named before a task is allowed, and when it is planned.
SHOWN_RUNS = 3
# Characters of a title, of what a task does in a list, and of a reason or what came of a run.
MAX_TITLE, MAX_GLIMPSE, MAX_WORDS = 60, 120, 300
# Tasks that the model is told of unasked.
MAX_PLANNED = 10
# Planned times that passed and are counted.
MOST_MISSED = 10_000
# Buttons below a list: as many as fit a telephone's screen.
MAX_BUTTONS = 8
# Seconds that a run may be late without a word: the scheduler looks once a minute.
ON_TIME = 120.0
ACTED = " It may have done something already, so I do not try it again."
USAGE = (
    "/tasks pause ID, /tasks resume ID, /tasks cancel ID, /tasks run ID (now), /tasks stop ID (the "
    "run under way), /tasks log ID (what came of its runs); /tasks all lists what Elwood does by "
    "itself, too."
)


# --- what the owner is told ----------------------------------------------------------------------


def brief(words: str) -> str:
    """Put *words* into one short line without a full stop."""
    return one_line(words, MAX_WORDS).removesuffix(".")


def name(task: Task) -> str:
    """Name *task* for people."""
    return f'"{one_line(task.title, MAX_TITLE) or task.id}"'


def missed(task: Task, first: float, last: float, count: int, why: str, zone: str) -> str:
    """Tell the owner that planned times have passed."""
    if count == 1:
        return f"Missed: {name(task)}, planned for {say_clock(first, zone)}: {why}."
    many = f"over {MOST_MISSED:,}" if count >= MOST_MISSED else str(count)
    times = f"{many} times, from {say_clock(first, zone)} to {say_clock(last, zone)}"
    return f"Missed: {name(task)}, {times}: {why}."


def clock_behind(before: float, zone: str) -> str:
    """Tell the owner that the clock has shown *before* already, and is far behind that."""
    return (
        f"My clock is far behind: it has shown {say_clock(before, zone)} already. Tasks rest "
        "until it does again; if it is right now, /tasks resume ID."
    )


def result(what: str, task: Task, words: str, then: str = "") -> str:
    """Tell the owner in *words* what came of a task, and what is done about it *then*."""
    return f"{what}: {name(task)}: {brief(words)}.{then}"


# --- what a run is told, and what it says --------------------------------------------------------


def framed(
    text: str, trouble: str, told: str, task: Task, due: float, now: float, zone: str
) -> str:
    """Put *text* into the frame of a run that was planned for *due* and begins at *now*.

    *trouble* is why the try before failed, if there was one; *told* what the owner was told last.
    """
    lines = [
        f"[A run of the task {name(task)} ({task.id}), planned for {say_clock(due, zone)} ({zone})."
        " Nobody is waiting, and nobody can be asked."
    ]
    if task.silent:
        lines.append("Your answer is kept, and not sent to anybody.")
    else:
        # A group has other readers; nobody else is told what is the owner's by a slip.
        group = task.route is not None and not task.route.private
        whom = "a group, where others read it, too" if group else "the owner"
        lines.append(
            f"Your answer is sent to {whom}; if there is nothing to tell, answer exactly {QUIET}."
        )
    if now - due > ON_TIME:
        late = f"It comes {duration(now - due)} late: it is {say_clock(now, zone)} now"
        lines.append(f"{late}; mind what is over.")
    if trouble:
        lines.append(
            f"An earlier try failed: {brief(trouble)}. Look first at what it may have done already."
        )
    if told:
        lines.append(
            f'The owner was told lately: "{brief(told)}". Say that again only if it has changed.'
        )
    return f"{' '.join(lines)}]\n\n{text}"


def called(task: Task, due: float, now: float, zone: str) -> str:
    """Say for the records which tool a run calls."""
    what = f"{task.tool} {task.arguments}"
    return f"[The task {name(task)} ({task.id}), planned for {say_clock(due, zone)}, calls {what}]"


def said(task: Task, due: float, now: float, zone: str) -> str:
    """Say a plain reminder, and that it is late if it is."""
    text = f"⏰ {task.message}"
    if now - due <= ON_TIME:
        return text
    return f"{text}\n\n(This was planned for {say_clock(due, zone)}, {duration(now - due)} ago.)"


def logged(one: TaskState, entry: RunFinished | RunsMissed, now: float, zone: str) -> str:
    """Say in a line what became of a run that is under way, or of what was missed."""
    if isinstance(entry, RunsMissed):
        what, words = f"{entry.result} ({entry.count})", entry.why
    else:
        took = f" in {duration(now - one.run.at)}" if one.run is not None else ""
        what, words = f"{entry.result}{took}", entry.words
    return f"{say_clock(now, zone)}  {what}{f': {brief(words)}' if words else ''}"


# --- how tasks are listed ------------------------------------------------------------------------


def next_runs(task: Task, zone: str, now: float) -> str:
    runs = islice(runs_after(task, now), SHOWN_RUNS)
    return "; ".join(say_moment(at, zone, now) for at in runs) or "no further run"


def cadence(task: Task, zone: str) -> str:
    """Say when *task* runs, for who lives in *zone*.

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
    """Say what bounds the runs of *task*, where it is not what holds for all.

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


def does(task: Task) -> str:
    if task.chore:
        return f"Elwood itself: {task.chore}"
    if task.tool:
        return f"calls: {task.tool} {task.arguments}"
    return f"reminds: {task.message}" if task.message else f"does: {task.prompt}"


def listing(tasks: Sequence[TaskStatus], zone: str, now: float) -> str:
    """List tasks: some lines each, which nothing in it can break."""
    parts = []
    for seen in tasks:
        task, title = seen.task, one_line(seen.task.title, MAX_TITLE)
        how = [cadence(task, zone)]
        how += ["silent"] if task.silent else []
        how += ["in a conversation"] if task.session else []
        lines = [
            f"{task.id}: {title}" if title != task.id else title,
            f"  {one_line(', '.join(how), MAX_WORDS)}",
        ]
        if bounds := limits(task):
            lines.append(f"  {one_line(', '.join(bounds), MAX_WORDS)}")
        lines.append(f"  {one_line(state(seen, zone, now), MAX_WORDS)}")
        lines.append(f"  {one_line(does(task), MAX_GLIMPSE)}")
        # Of a run that waits the model is not told: strangers may have steered it.
        if seen.words and seen.result in ("failed", "missed"):
            lines.append(f"  {one_line(seen.words, MAX_WORDS)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def planned(tasks: Sequence[TaskStatus], route: Route, zone: str) -> str:
    """Name those of *tasks* whose answers go to the person at *route*, or to any owner, in lines.

    It says when by what does not change with each run.  What strangers may have planned is left
    out, as it would need their label.
    """
    own = [
        task
        for task in (one.task for one in tasks if one.next is not None and not one.paused)
        if (task.route.is_same_chat(route) if task.route else task.origin != "talk")
        and not task.untrusted
    ]
    # Those that come once, the next first; others in an order that stays.
    own.sort(key=lambda one: (one.when.at if isinstance(one.when, Once) else math.inf, one.id))
    more = f"\n({len(own) - MAX_PLANNED} more: list_tasks)" if len(own) > MAX_PLANNED else ""
    lines = (
        f"\n- {one.id}: {one_line(f'{cadence(one, zone)}: {one.title}', MAX_GLIMPSE)}"
        for one in own[:MAX_PLANNED]
    )
    return "".join(lines) + more


def buttons(tasks: Sequence[TaskStatus]) -> tuple[str, ...]:
    """Offer for the first of *tasks* what can be pressed: to stop, to pause, or to resume it."""
    offered = []
    for seen in tasks:
        if seen.running is not None and not seen.task.session:
            offered.append(f"/tasks stop {seen.task.id}")
        if seen.paused or seen.next is not None:
            offered.append(f"/tasks {'resume' if seen.paused else 'pause'} {seen.task.id}")
    return tuple(offered[:MAX_BUTTONS])
