"""What becomes of the timetable when somebody schedules, changes or takes away tasks."""

from collections.abc import Sequence
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs
from msgspec.structs import replace

from elwood.features.tasks import patterns as watching
from elwood.features.tasks import texts
from elwood.features.tasks import when as timing
from elwood.features.tasks.due_runs import MAX_TASKS, is_news
from elwood.features.tasks.entries import (
    Ended,
    Halted,
    Left,
    Made,
    Planned,
    Resumed,
    TimetableEntry,
    Wanted,
)
from elwood.features.tasks.missed_runs import closing
from elwood.features.tasks.state import Row, Timetable
from elwood.features.tasks.task import (
    ID,
    MAX_ID,
    Origin,
    Task,
)
from elwood.features.tasks.task_toml import bad_id
from elwood.foundation.text.slugs import slug

# Characters of a title, and of what is to be done: what files may have, and the house's own words.
MAX_TITLE, MAX_TEXT = 200, 21_000
# Seconds by which two runs are apart at least that were wanted at once.
APART = 0.001

Verb = Literal["pause", "resume", "cancel", "run", "stop"]
# Why planned times were closed.
RESTORED = "my state comes from a backup, so it may have been done already"
CHANGED, CANCELLED, PAUSED = "the task was changed", "the task was cancelled", "it was paused"
_PLACES = {
    "config": "config.toml",
    "heartbeat": "HEARTBEAT.md",
    "house": "the house itself",
    "talk": "agent.toml",
}


@attrs.frozen
class Decision:
    """What to write down, and in *words* what that means; not *ok* means that nothing is done.

    With *stop* what is at work for the task is to be stopped.
    """

    entries: tuple[TimetableEntry, ...] = ()
    words: str = ""
    ok: bool = True
    stop: bool = False


def schedule(table: Timetable, task: Task, now: float) -> tuple[Task, Decision]:
    """Take *task*, made in a conversation; it gets an id if it has none.

    >>> task = Task("", "Call mum", timing.Once(60.0), message="m")
    >>> schedule(Timetable(), task, 0.0)[0].id, schedule(Timetable(), task, 99.0)[1].words
    ('call-mum', 'that time has passed: nothing would ever be done')
    """
    if not task.id:
        for row in table.rows.values():
            if replace(row.task, id="") == task and not row.gone and not row.paused:
                return row.task, Decision()
        task = replace(task, id=_free(table, slug(task.title)))
    if task.origin != "talk" or task.chore:
        return task, Decision(words="only a prompt or a message can be scheduled here", ok=False)
    row_there = table.rows.get(task.id)
    if row_there is not None and row_there.task.origin != "talk":
        place = _PLACES[row_there.task.origin]
        words = f"the id {task.id!r} belongs to a task of {place}: take another one"
        return task, Decision(words=words, ok=False)
    if words := problem(task):
        return task, Decision(words=words, ok=False)
    if _first(task, now) is None:
        words = "that time has passed: nothing would ever be done"
        return task, Decision(words=words, ok=False)
    if row_there is None and len(table.rows) >= MAX_TASKS:
        words = f"there are {MAX_TASKS} tasks already: cancel one first"
        return task, Decision(words=words, ok=False)
    return task, Decision(_taken(row_there, task, now))


def adopt(
    table: Timetable, origin: Origin, tasks: Sequence[Task], now: float
) -> tuple[Decision, list[str]]:
    """Make *tasks* those of *origin*; return also which could not be taken, and why.

    >>> adopt(Timetable(), "config", [Task("t", "t", timing.Every(5.0), prompt="p")], 0.0)[1]
    ["'t': every 5 seconds is too often: the least is 60 seconds"]
    """
    entries: list[TimetableEntry] = []
    problems: list[str] = []
    wanted: dict[str, Task] = {}
    count = sum(row.task.origin != origin for row in table.rows.values())
    for task in tasks:
        row = table.rows.get(task.id)
        known = row is not None and row.task == task
        why = "" if known else problem(task)
        if task.id in wanted:
            why = "another task has this id"
        elif row is not None and row.task.origin != origin:
            why = f"the id belongs to a task of {_PLACES[row.task.origin]}"
        elif count + len(wanted) >= MAX_TASKS:
            why = f"there are {MAX_TASKS} tasks already"
        if why:
            problems.append(f"{task.id or task.title!r}: {why}")
            continue
        wanted[task.id] = replace(task, origin=origin)
    for id_, row in table.rows.items():
        if row.task.origin == origin and id_ not in wanted and not row.gone:
            entries += _left(row, now, f"it is gone from {_PLACES[origin]}")
    for id_, task in wanted.items():
        entries += _taken(table.rows.get(id_), task, now)
    return Decision(tuple(entries)), problems


def change(
    table: Timetable,
    id_: str,
    verb: Verb,
    by: str,
    now: float,
    *,
    stop: bool = False,
    own: bool = False,
) -> Decision:
    """Pause, resume or cancel a task, have it run now, or stop its run; its *own* run may want it.

    With *stop* what is cancelled does not come to its end.  What is gone can still be stopped.

    >>> change(Timetable(), "t", "run", "me", 0.0).words
    "There is no task 't'; /tasks lists them."
    """
    row = table.rows.get(id_)
    if row is None or (row.gone and verb != "stop"):
        return Decision(words=f"There is no task {id_!r}; /tasks lists them.", ok=False)
    match verb:
        case "stop":
            return _stop(row)
        case "pause":
            return _pause(row, by, now)
        case "resume":
            return _resume(row, now)
        case "cancel":
            if row.task.origin == "house":
                return Decision(words="The house does it by itself: it can be paused.", ok=False)
            if row.task.origin != "talk":
                words = f"It stands in {_PLACES[row.task.origin]}: take it out there, or pause it."
                return Decision(words=words, ok=False)
            entries = tuple(_left(row, now, f"cancelled by {by}", cancelled=not own))
            if stop and (row.run is not None or row.result == "waiting"):
                ending = _stop(row)
                words = f"Cancelled. {ending.words}"
                return attrs.evolve(ending, entries=entries, words=words, ok=True)
            return Decision(entries, f"Cancelled.{_goes_on(row)}")
        case "run":
            if row.run is not None or row.wanted is not None:
                return Decision(words="It runs already.", ok=False)
            return Decision((_wanted(row, now),), "It runs now.")


def restored(table: Timetable, at: float, zone: str) -> list[TimetableEntry]:
    """Close all that was planned before *at*, when this state was taken from a backup.

    >>> table = Timetable({"t": Row(Task("t", "t", timing.Once(60.0)), series=1, mark=0.0)})
    >>> [one.result for one in restored(table, 100.0, "UTC")]
    ['missed']
    """
    found: list[TimetableEntry] = []
    for row in table.rows.values():
        begun = [] if row.run is None else [row.run.planned]
        if row.run is None and row.wanted is not None:
            begun.append(Planned(row.task.id, row.wanted, 0, row.series))
        if row.again is not None:
            begun.append(row.again.planned)
        for run in begun:
            if run.due <= at:
                line = texts.missed(row.task, run.due, run.due, 1, RESTORED, zone)
                tell = line if is_news(row.task) else ""
                found.append(Ended(run, "missed", RESTORED, tell=tell))
        if not row.gone and not row.paused:
            found += closing(row, at, RESTORED, zone)
    return found


def problem(task: Task) -> str:
    """Say what is wrong with *task* and what to write instead; "" if it is fine.

    >>> problem(Task("t", "t", timing.Every(3600.0)))
    'it has nothing to do: give one of prompt, message and chore'
    >>> problem(Task("t", "t", timing.Every(3600.0), prompt="look", zone="Mars/Base"))
    "there is no time zone 'Mars/Base': write one like Europe/Berlin"
    """
    if not ID.fullmatch(task.id):
        return f"an id has small letters, digits and dashes, at most {MAX_ID}"
    if sum(map(bool, (task.prompt, task.message, task.chore))) != 1:
        return "it has nothing to do: give one of prompt, message and chore"
    if len(task.title) > MAX_TITLE:
        return f"a title has at most {MAX_TITLE} characters"
    if len(task.prompt) + len(task.message) > MAX_TEXT:
        return f"what is to be done has at most {MAX_TEXT} characters; put more into a file"
    watch = task.watch or ()
    if len(watch) > watching.MAX_PATTERNS:
        return f"a task watches at most {watching.MAX_PATTERNS} patterns; name folders instead"
    if why := next(filter(None, map(watching.complaint, watch)), ""):
        return why
    if not _is_zone(task.zone):
        return f"there is no time zone {task.zone!r}: write one like Europe/Berlin"
    if not task.catch_up >= 0:
        return "catch_up are seconds, not less than 0"
    return timing.check(task.when) or (timing.check_hours(task.hours) if task.hours else "")


def _taken(row: Row | None, task: Task, now: float) -> tuple[TimetableEntry, ...]:
    if row is None:
        return (Made(task, now),)
    old = row.task
    if row.gone or (old.when, old.zone) != (task.when, task.zone):
        close = [] if row.paused or row.gone else closing(row, now, CHANGED)
        return (*close, Made(task, now))
    return () if old == task else (Made(task),)


def _left(row: Row, now: float, why: str, *, cancelled: bool = True) -> list[TimetableEntry]:
    close = [] if row.paused else closing(row, now, CANCELLED)
    return [*close, Left(row.task.id, why, cancelled)]


def _pause(row: Row, by: str, now: float) -> Decision:
    if row.paused:
        return Decision(words=f"It is paused already: {row.paused}.")
    entries = (*closing(row, now, PAUSED), Halted(row.task.id, f"paused by {by}"))
    return Decision(entries, f"Paused.{_goes_on(row)}")


def _goes_on(row: Row) -> str:
    if row.run is None:
        return ""
    return f" The run that is under way goes on to its end; /tasks stop {row.task.id} stops it."


def _stop(row: Row) -> Decision:
    """Stop what works in the task's own conversation; others are stopped where they are read."""
    if row.run is None:
        if row.result == "waiting" and not row.task.session:
            return Decision(words="What you allowed of it stops, if it is at work.", stop=True)
        return Decision(words="Nothing of it is running.", ok=False)
    task = row.run.task
    if task.session:
        words = f"It runs in the conversation {task.session}: /stop there stops it."
        return Decision(words=words, ok=False)
    if task.message:
        return Decision(words="It is being said: that cannot be stopped.", ok=False)
    if task.chore:
        words = "What the house does itself goes on to its end; a model that works on it stops."
        return Decision(words=words, stop=True)
    return Decision(words="Stopped.", stop=True)


def _resume(row: Row, now: float) -> Decision:
    if not row.paused:
        return Decision(words="It is not paused.")
    entries: tuple[TimetableEntry, ...] = (Resumed(row.task.id, now),)
    is_over = _first(row.task, max(now, row.mark)) is None and row.run is None
    if is_over and row.failed:
        return Decision((*entries, _wanted(row, now)), "It is tried once more, now.")
    if is_over and row.wanted is None:
        id_ = row.task.id
        words = f"/tasks run {id_} does it now, /tasks cancel {id_} takes it away."
        return Decision(words=f"Its last time passed while it was paused: {words}", ok=False)
    return Decision(entries, "It goes on.")


def _wanted(row: Row, now: float) -> Wanted:
    return Wanted(row.task.id, max(now, row.newest + APART))


def _first(task: Task, after: float) -> float | None:
    at = timing.next_at(task.when, after, task.zone, task.id)
    return None if at is None or (task.ends is not None and at > task.ends) else at


def _free(table: Timetable, key: str) -> str:
    key = key[: MAX_ID - 4].strip("-") or "task"
    key = f"my-{key}"[: MAX_ID - 4].strip("-") if bad_id(key) else key
    names = [key, *(f"{key}-{number}" for number in range(2, MAX_TASKS + 2))]
    return next(name for name in names if name not in table.rows)


def _is_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no file, no name, or a folder
        return False
    return True
