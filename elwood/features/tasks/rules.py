"""Decide changes of tasks: by people and files, by time, and at the end of a run."""

from collections.abc import Collection, Sequence
from itertools import islice, takewhile
from typing import Literal

import msgspec
from msgspec.structs import replace

from elwood.agent.conversation.calls import Look
from elwood.agent.conversation.settings import next_active
from elwood.features.tasks import texts, when
from elwood.features.tasks.state import (
    FAR_BEHIND,
    LONG,
    PlannedRun,
    RunFinished,
    RunRequested,
    RunsMissed,
    TaskPaused,
    TaskRemoved,
    TaskResumed,
    TaskScheduled,
    TaskState,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import (
    HEARTBEAT,
    MAX_ID,
    MAX_TASKS,
    Origin,
    Result,
    Task,
    TaskStatus,
    next_run,
    runs_after,
)
from elwood.features.tasks.when import Once
from elwood.foundation.text.words import slug

# Failures in a row after which the owner is notified, and after which the task is paused.
TELL_AFTER, PAUSE_AFTER = 2, 5
# Seconds from a failure to the next try.
BACKOFF = (60.0, 300.0, 900.0, 3600.0)
# Seconds for which a heartbeat must not repeat its last answer.
SAID_FOR = 86_400.0
# Characters of news in one message; channels take some 4,000.
MAX_TELL = 3_000
# Seconds: of very many missed times only the last ones are examined.
LAST_DAYS = 86_400.0
# Fewest seconds between two requested runs.
APART = 0.001

Verb = Literal["pause", "resume", "cancel", "run", "stop"]
OFF = "I was not running then, or could not accept new work"
FINISHED = "its last planned time has passed"
# Why planned times were closed.
RESTORED = "my data was restored from a backup, so it may have run already"
CHANGED, CANCELLED, PAUSED = "the task was changed", "the task was cancelled", "it was paused"
FILES = {
    "config": "config.toml",
    "heartbeat": "HEARTBEAT.md",
    "house": "Elwood itself",
    "talk": "a conversation",
    "own": "agent.toml",
}


class Decision(msgspec.Struct, frozen=True):
    """A change to record."""

    entries: tuple[TimetableEntry, ...] = ()
    words: str = ""  # message for people
    ok: bool = True  # False: nothing is done
    stop: str = ""  # the task whose session must stop


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a run."""

    result: Result
    words: str = ""
    acted: bool = False  # it may have had side effects, so it is not retried
    told: bool = False  # its session reported the failure to the owner
    said: str = ""  # the answer that the owner got
    denied: bool = False  # the owner denied a call


class WatchedState(msgspec.Struct, frozen=True):
    """The *fingerprint* of a watch, and the receipts of its tool calls (*looks*)."""

    fingerprint: str = ""
    looks: tuple[Look, ...] = ()

    def receipts(self, unchanged: int) -> tuple[Look, ...]:
        """Return the receipts for the log; *unchanged* earlier looks had the same result."""
        if not unchanged:
            return self.looks
        count = f"({unchanged + 1} checks)"
        return tuple(replace(one, target=f"{one.target} {count}") for one in self.looks)


class DueRun(msgspec.Struct, frozen=True):
    """A run to start or to resume."""

    task: Task
    planned: PlannedRun
    begun: bool = False  # it was started before: resume it
    seen: str = ""  # fingerprint of the watch at the last success
    good: float = 0.0  # Unix time of the last success; 0: never
    trouble: str = ""  # why the last try failed
    said: str = ""  # the last answer to the owner
    follows: bool = False  # it is the follow-up of a run
    unchanged: int = 0  # looks in a row without a change before it
    looks: tuple[Look, ...] = ()  # receipts of the looks that led to it


class Telling(msgspec.Struct, frozen=True):
    """News for the owner."""

    text: str
    upto: int  # last entry of the timetable that is included
    buttons: tuple[str, ...] = ()  # commands
    again: bool = False  # it may have been sent before


class Agenda(msgspec.Struct, frozen=True):
    """Runs and news that are due; *next* is the Unix time of the next agenda."""

    runs: tuple[DueRun, ...] = ()
    next: float | None = None
    tell: Telling | None = None


# --- changes by people and files -----------------------------------------------------------------


def schedule(
    table: Timetable, task: Task, now: float, reserved: Collection[str] = ()
) -> tuple[Task, Decision]:
    """Add *task*, made in a conversation; without an id it gets a new one, not *reserved*.

    >>> task = Task("", "Call mum", Once(60.0), message="m")
    >>> schedule(Timetable(), task, 0.0)[0].id, schedule(Timetable(), task, 99.0)[1].words
    ('call-mum', 'that time has passed, so it would never run')
    """
    if not task.id:
        for one in table.tasks.values():
            if replace(one.task, id="") == task and not one.removed and not one.paused:
                return one.task, Decision()
        task = replace(task, id=_free_id(table, slug(task.title), reserved))
    there = table.tasks.get(task.id)
    words = ""
    if next_run(task, now) is None:
        words = "that time has passed, so it would never run"
    elif there is None and len(table.tasks) >= MAX_TASKS:
        words = f"there are {MAX_TASKS} tasks already: cancel one first"
    return task, Decision(words=words, ok=False) if words else Decision(
        _add_entries(there, task, now)
    )


def adopt(
    table: Timetable, origin: Origin, tasks: Sequence[Task], now: float
) -> tuple[Decision, list[str]]:
    """Replace the tasks of *origin*; return also the refused ones with reasons."""
    entries: list[TimetableEntry] = []
    problems: list[str] = []
    wanted: dict[str, Task] = {}
    count = sum(one.task.origin != origin for one in table.tasks.values())
    for task in tasks:
        there = table.tasks.get(task.id)
        if there is not None and there.task.origin != origin:
            problems.append(f"{task.id}: this id belongs to a task of {FILES[there.task.origin]}")
        elif count + len(wanted) >= MAX_TASKS:
            problems.append(f"{task.id}: there are {MAX_TASKS} tasks already")
        else:
            wanted[task.id] = replace(task, origin=origin)
    for id_, one in table.tasks.items():
        if one.task.origin == origin and id_ not in wanted and not one.removed:
            entries += _remove_entries(
                one, now, f"it was removed from {FILES[origin]}", cancelled=True
            )
    for id_, task in wanted.items():
        entries += _add_entries(table.tasks.get(id_), task, now)
    return Decision(tuple(entries)), problems


def change(
    table: Timetable, id_: str, verb: Verb, by: str, now: float, *, own: bool = False
) -> Decision:
    """Pause, resume or cancel a task, run it now, or stop its run; *own*: for its own run."""
    one = table.tasks.get(id_)
    if one is None or one.removed:
        return Decision(words=f"There is no task {id_!r}. /tasks lists all tasks.", ok=False)
    match verb:
        case "stop":
            return _stop(one)
        case "pause" if one.paused:
            return Decision(words=f"It is already paused ({one.paused}).")
        case "pause":
            paused = TaskPaused(id_, f"paused by {by}")
            return Decision((*close_times(one, now, PAUSED), paused), "Paused.")
        case "resume":
            return _resume(one, now)
        case "cancel":
            return _cancel(one, by, now, own=own)
        case "run":
            if one.run is not None or one.requested is not None:
                return Decision(words="It is already running.", ok=False)
            return Decision((_request_run(one, now),), "It starts now.")


def close_restored(table: Timetable, at: float, zone: str) -> list[TimetableEntry]:
    """Close all runs planned before *at*, when this state was restored from a backup."""
    found: list[TimetableEntry] = []
    for one in table.tasks.values():
        begun = [] if one.run is None else [one.run.planned]
        if one.run is None and one.requested is not None:
            begun.append(PlannedRun(one.task.id, one.requested, 0, one.series))
        if one.retry is not None:
            begun.append(one.retry.planned)
        for run in begun:
            if run.due <= at:
                line = texts.format_missed(one.task, run.due, run.due, 1, RESTORED, zone)
                tell = line if _is_news(one.task) else ""
                found.append(RunFinished(run, "missed", RESTORED, tell=tell))
        if not one.removed and not one.paused:
            found += close_times(one, at, RESTORED, zone)
    return found


def _add_entries(one: TaskState | None, task: Task, now: float) -> tuple[TimetableEntry, ...]:
    if one is None:
        return (TaskScheduled(task, now),)
    old = one.task
    if one.removed or (old.when, old.zone, old.hours) != (task.when, task.zone, task.hours):
        close = [] if one.paused or one.removed else close_times(one, now, CHANGED)
        return (*close, TaskScheduled(task, now))
    return () if old == task else (TaskScheduled(task),)


def _remove_entries(
    one: TaskState, now: float, why: str, *, cancelled: bool
) -> list[TimetableEntry]:
    close = [] if one.paused else close_times(one, now, CANCELLED)
    return [*close, TaskRemoved(one.task.id, why, cancelled)]


def _cancel(one: TaskState, by: str, now: float, *, own: bool) -> Decision:
    if one.task.origin != "talk":
        words = f"It belongs to {FILES[one.task.origin]}: here it can be paused, not cancelled."
        return Decision(words=words, ok=False)
    entries = tuple(_remove_entries(one, now, f"cancelled by {by}", cancelled=not own))
    if own or (one.run is None and one.result != "waiting"):
        return Decision(entries, "Cancelled.")
    stopped = _stop(one)
    return Decision(entries, f"Cancelled. {stopped.words}", stop=stopped.stop)


def _stop(one: TaskState) -> Decision:
    """Stop the task's own session; people stop a shared session with /stop there."""
    task = one.task if one.run is None else one.run.task
    if one.run is None and one.result != "waiting":
        return Decision(words="It is not running.", ok=False)
    if task.session:
        words = f"It runs in the conversation {task.session}. To stop it, send /stop there."
        return Decision(words=words, ok=False)
    words = "The model stops working on it. Anything else in progress will finish."
    if one.run is not None and task.prompt:
        words = "Stopped."
    return Decision(words=words, stop="" if task.message else task.id)


def _resume(one: TaskState, now: float) -> Decision:
    if not one.paused and one.mark - now <= FAR_BEHIND:
        return Decision(words="It is not paused.")
    resumed, is_at_work = TaskResumed(one.task.id, now), one.run or one.requested
    if one.paused and next_run(one.task, max(now, one.mark)) is None and not is_at_work:
        return Decision(
            (resumed, _request_run(one, now)), "It has no planned time left, so it starts now."
        )
    return Decision((resumed,), "Resumed.")


def _request_run(one: TaskState, now: float) -> RunRequested:
    return RunRequested(one.task.id, max(now, (one.last or 0.0) + APART))


def _free_id(table: Timetable, key: str, reserved: Collection[str]) -> str:
    key = key[: MAX_ID - 4].strip("-") or "task"
    if key in reserved or key.startswith(HEARTBEAT):
        key = f"my-{key}"[: MAX_ID - 4].strip("-")
    names = [key, *(f"{key}-{number}" for number in range(2, MAX_TASKS + 2))]
    return next(name for name in names if name not in table.tasks)


# --- missed times --------------------------------------------------------------------------------


def clock_behind(table: Timetable, now: float, zone: str) -> str:
    """Return a warning if the clock is far behind an earlier time, else ""."""
    latest = max((one.mark for one in table.tasks.values() if not one.paused), default=0.0)
    return texts.clock_behind(latest, zone) if latest - now > FAR_BEHIND else ""


def close_missed(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """Close the planned times that can no longer run."""
    found: list[TimetableEntry] = []
    for one in table.tasks.values():
        if one.run is None and not one.removed and not one.paused:
            found += close_times(one, now, zone=zone)
    return found


def close_times(one: TaskState, now: float, why: str = "", zone: str = "") -> list[RunsMissed]:
    """Close the planned times up to *now*, in one entry; with a *zone* it notifies the owner.

    Without *why* the newest may still run.  A task with a watch misses nothing: its next run sees
    the same changes.
    """
    task = one.task
    if task.watch is not None:
        return []
    times = list(islice(takewhile(now.__ge__, runs_after(task, one.mark)), texts.MOST_MISSED))
    if len(times) == texts.MOST_MISSED:
        since = max(times[-1], now - LAST_DAYS)
        times += takewhile(now.__ge__, runs_after(task, since))
    if times and not why and now - times[-1] <= task.catch_up:
        times.pop()
    if not times:
        return []
    first, last, count = times[0], times[-1], len(times)
    why = why or (LONG if one.last is not None and last <= one.last else OFF)
    tell = zone and why != LONG and _is_news(task)
    line = texts.format_missed(task, first, last, count, why, zone) if tell else ""
    return [RunsMissed(task.id, first, last, count, "missed", why, line)]


def _is_news(task: Task) -> bool:
    """Return True if the owner is notified when *task* is missed.

    Watches, chores and heartbeats can wait for the next time.
    """
    can_wait = task.watch is not None or bool(task.chore) or task.origin == "heartbeat"
    return task.notify and not can_wait


# --- due runs ------------------------------------------------------------------------------------


def agenda(table: Timetable, now: float) -> Agenda:
    """Build the agenda, oldest run first; missed runs must be recorded before."""
    runs, times = [], []
    for one in table.tasks.values():
        run, at = _next_due(one, now)
        if run is not None:
            runs.append(run)
        if at is not None:
            times.append(at)
    runs.sort(key=lambda run: (not run.begun, run.planned.attempt > 0, run.planned.due))
    return Agenda(tuple(runs), min(times, default=None), build_news(table))


def may_begin(one: TaskState, run: PlannedRun, now: float) -> bool:
    """Return True if *run* may start now; the clock may have changed since the agenda."""
    found, _ = _next_due(one, now)
    in_time = run.is_requested or now - run.due <= one.task.catch_up
    return found is not None and found.planned == run and in_time


def remove_finished(table: Timetable, now: float) -> list[TimetableEntry]:
    """Remove the tasks of conversations that have no further run."""
    return [
        TaskRemoved(one.task.id, FINISHED)
        for one in table.tasks.values()
        if one.task.origin == "talk"
        and not (one.paused or one.run is not None or one.requested is not None)
        and not _may_retry(one, now)
        and _next_planned(one, now) is None
    ]


def _may_retry(one: TaskState, now: float) -> bool:
    return one.retry is not None and now - one.retry.planned.due <= one.task.catch_up


def _next_planned(one: TaskState, now: float) -> float | None:
    """Return the next planned time; a task with a watch runs once for all missed times."""
    task = one.task
    if task.watch is None:
        return next_run(task, one.mark)
    at = next_run(task, max(one.mark, now - task.catch_up))
    while at is not None and (later := next_run(task, at)) is not None and later <= now:
        at = later
    return at


def _next_due(one: TaskState, now: float) -> tuple[DueRun | None, float | None]:
    """Return the run of a task that is due, and the next time; missed runs must be recorded."""
    task = one.task
    if one.run is not None:
        return DueRun(one.run.task, one.run.planned, True, good=one.good), None
    if one.removed:
        return None, None
    if one.requested is not None:
        return _due_run(one, PlannedRun(task.id, one.requested, 0, one.series)), None
    if one.paused:
        return None, None
    coming = _next_planned(one, now)
    if coming is not None and coming <= now:
        planned, at = PlannedRun(task.id, coming, 1, one.series), now
    elif one.retry is not None and _may_retry(one, now):
        planned, at = one.retry.planned, one.retry.at
    else:
        return None, coming
    if not isinstance(task.when, Once):
        at = next_active(task.hours, max(at, now), task.zone)
    if at <= now:
        return _due_run(one, planned), None
    return None, at if coming is None or coming <= now else min(at, coming)


def _due_run(one: TaskState, planned: PlannedRun) -> DueRun:
    trouble = one.words if one.failures and one.result == "failed" else ""
    said = one.said if planned.due - one.said_at < SAID_FOR else ""
    unchanged = one.unchanged
    return DueRun(one.task, planned, False, one.seen, one.good, trouble, said, unchanged=unchanged)


# --- the end of a run ----------------------------------------------------------------------------


def on_run_finished(
    one: TaskState, run: PlannedRun, outcome: Outcome, now: float, zone: str
) -> list[TimetableEntry]:
    """Return the entries for the end of a run: a retry, news for the owner, or a pause."""
    task, words = one.task, texts.brief(outcome.words)
    then = texts.ACTED if outcome.acted else ""
    if outcome.result != "failed":
        is_new = outcome.acted or one.result != "spent"
        tell = outcome.result == "spent" and not outcome.told and is_new and task.notify
        line = texts.result("Not done", task, words, then) if tell else ""
        return [RunFinished(run, outcome.result, words, tell=line, said=texts.brief(outcome.said))]
    owns = run.series == one.series
    count = one.failures + 1 if owns else 1
    # A heartbeat is never paused: its budget bounds the cost.
    is_paused = one.paused or one.removed or task.origin == "heartbeat"
    if count >= PAUSE_AFTER and not is_paused:
        why = f"it failed {count} times in a row: {words}"
        line = texts.result("Paused", task, why) if task.notify else ""
        halted = TaskPaused(task.id, why, line)
        return [RunFinished(run, "failed", words), *close_times(one, now, why), halted]
    again = None
    is_over = outcome.acted or outcome.denied or one.paused or one.removed
    if owns and not (is_over or run.is_requested):
        again = now + BACKOFF[min(run.attempt, len(BACKOFF)) - 1]
        following = next_run(task, run.due)
        if (following is not None and following <= again) or again - run.due > task.catch_up:
            again = None
    is_last = again is None and next_run(task, one.mark) in (None, run.due)
    # The owner has not seen its actions: the answer of a failed run is not sent.
    is_news = count == TELL_AFTER or run.is_requested or is_last or outcome.acted or outcome.denied
    if outcome.told or not is_news or not task.notify:
        return [RunFinished(run, "failed", words, again)]
    if again is not None:
        then = f" I will try again at {when.say_clock(again, zone)}."
    what = "Failed" if count == 1 else f"Failed {count} times in a row"
    return [RunFinished(run, "failed", words, again, texts.result(what, task, words, then))]


def run_log(
    table: Timetable, entries: Sequence[TimetableEntry], now: float, zone: str
) -> dict[str, str]:
    """Format *entries* as lines of the run logs, by task; "" removes a log.

    A task that runs once has no log.
    """
    lines: dict[str, str] = {}
    for entry in entries:
        match entry:
            case RunFinished(run=PlannedRun(task=id_)) | RunsMissed(task=id_):
                one = table.tasks.get(id_)
                if one is not None and not (one.removed or isinstance(one.task.when, Once)):
                    lines[id_] = texts.format_log_line(one, entry, now, zone)
            case TaskRemoved(task=id_):
                lines[id_] = ""
    return lines


# --- status for people ---------------------------------------------------------------------------


def task_status(one: TaskState, now: float) -> TaskStatus:
    """Return the status of a task for people."""
    since = None if one.run is None else one.run.at
    due, at = _next_due(replace(one, run=None), now)
    following = None if one.paused else at if due is None else now
    return TaskStatus(
        one.task, following, since, one.last, one.result, one.words, one.paused, one.failures
    )


def task_list(table: Timetable, now: float, *, chores: bool) -> tuple[TaskStatus, ...]:
    """List all tasks, the next run first; with *chores* also Elwood's own."""
    ones = [one for one in table.tasks.values() if not one.removed]
    seen = [task_status(one, now) for one in ones if chores or not one.task.chore]
    return tuple(sorted(seen, key=lambda one: (one.next is None, one.next or 0.0)))


def build_news(table: Timetable) -> Telling | None:
    """Build the next message of news, as much as one message holds."""
    lines, buttons, upto, size = [], [], 0, 0
    again = bool(table.news) and table.news[0].seq <= table.shown
    for news in table.news:
        size += len(news.text)
        if (news.seq <= table.shown) != again or (upto and size > MAX_TELL):
            break
        lines.append(news.text)
        upto = news.seq
        if news.button:
            buttons.append(news.button)
    return Telling("\n".join(lines), upto, tuple(buttons), again) if upto else None
