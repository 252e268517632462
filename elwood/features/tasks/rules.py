"""What becomes of tasks: by what people and files say, as time passes, and when a run ends."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec.structs import replace

from elwood.agent.conversation.settings import check_hours, is_active, next_active
from elwood.features.tasks import texts, when
from elwood.features.tasks import watch as watching
from elwood.features.tasks.state import (
    FAR_BEHIND,
    LONG,
    ClockBehind,
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
    sessions_to_tell,
)
from elwood.features.tasks.task import (
    ID,
    MAX_ID,
    PAUSE_AFTER,
    TELL_AFTER,
    Origin,
    Result,
    Task,
    TaskStatus,
    bad_id,
)
from elwood.features.tasks.when import Once, When
from elwood.foundation.text.words import slug

# Tasks at once; a person has dozens.  All are looked at each minute, and all may be told about.
MAX_TASKS = 200
# Characters of a title, and of what is to be done: what files may have, and Elwood's own words.
MAX_TITLE, MAX_TEXT = 200, 21_000
# Seconds after a failed try until the next; a task that fails for longer is paused.
BACKOFF = (60.0, 300.0, 900.0, 3600.0)
# Characters of news in one message; channels take some 4,000.
MAX_TELL = 3_000
# Planned times, the newest, of which it is asked one by one whether they fell outside of hours.
LOOKED = 2_000
# Seconds between two words about a task whose runs outlast its interval.
TELL_LONG = 86_400.0
# Seconds by which two runs are apart at least that were wanted at once.
APART = 0.001

Verb = Literal["pause", "resume", "cancel", "run", "stop"]
OFF = "I was not running then, or could take no new work"
ONCE_A_DAY = " I tell you of more of that once a day."
FINISHED = "its last time has passed"
# Why planned times were closed.
RESTORED = "my state comes from a backup, so it may have been done already"
CHANGED, CANCELLED, PAUSED = "the task was changed", "the task was cancelled", "it was paused"
_FILES = {
    "config": "config.toml",
    "heartbeat": "HEARTBEAT.md",
    "house": "Elwood itself",
    "talk": "agent.toml",
}


class Decision(msgspec.Struct, frozen=True):
    """What to write down, and in *words* what that means; not *ok* means that nothing is done.

    With *stop* what is at work for the task is to be stopped.
    """

    entries: tuple[TimetableEntry, ...] = ()
    words: str = ""
    ok: bool = True
    stop: bool = False


class DueRun(msgspec.Struct, frozen=True):
    """A run to begin, or to go on with if it has *begun*.

    *seen* is the fingerprint of what the task watched when it was last done well, at Unix time
    *good* (0: never); *trouble* why the last try failed.
    """

    task: Task
    planned: PlannedRun
    begun: bool = False
    seen: str = ""
    good: float = 0.0
    trouble: str = ""


class Telling(msgspec.Struct, frozen=True):
    """News for the owner, which stand in the timetable up to its entry *upto*.

    They may have been told before if *again*.  *buttons* type what stands on them.
    """

    text: str
    upto: int
    buttons: tuple[str, ...] = ()
    again: bool = False


class Agenda(msgspec.Struct, frozen=True):
    """What is to be done; *next* is when to ask again.  Tasks of the sessions *let_go* are gone."""

    runs: tuple[DueRun, ...] = ()
    next: float | None = None
    tell: Telling | None = None
    let_go: tuple[str, ...] = ()


# --- what people and files say -------------------------------------------------------------------


def schedule(table: Timetable, task: Task, now: float) -> tuple[Task, Decision]:
    """Take *task*, made in a conversation; it gets an id if it has none.

    >>> task = Task("", "Call mum", Once(60.0), message="m")
    >>> schedule(Timetable(), task, 0.0)[0].id, schedule(Timetable(), task, 99.0)[1].words
    ('call-mum', 'that time has passed: nothing would ever be done')
    """

    def refused(words: str) -> tuple[Task, Decision]:
        return task, Decision(words=words, ok=False)

    if not task.id:
        for one in table.tasks.values():
            if replace(one.task, id="") == task and not one.removed and not one.paused:
                return one.task, Decision()
        task = replace(task, id=_free_id(table, slug(task.title)))
    if task.origin != "talk" or task.chore:
        return refused("only a prompt or a message can be scheduled here")
    there = table.tasks.get(task.id)
    if there is not None and there.task.origin != "talk":
        file = _FILES[there.task.origin]
        return refused(f"the id {task.id!r} belongs to a task of {file}: take another one")
    if words := problem(task):
        return refused(words)
    if upcoming(task.when, now, task.zone, task.id, task.ends) is None:
        return refused("that time has passed: nothing would ever be done")
    if there is None and len(table.tasks) >= MAX_TASKS:
        return refused(f"there are {MAX_TASKS} tasks already: cancel one first")
    return task, Decision(_taken(there, task, now))


def adopt(
    table: Timetable, origin: Origin, tasks: Sequence[Task], now: float
) -> tuple[Decision, list[str]]:
    """Make *tasks* those of *origin*; return also which could not be taken, and why."""
    entries: list[TimetableEntry] = []
    problems: list[str] = []
    wanted: dict[str, Task] = {}
    count = sum(one.task.origin != origin for one in table.tasks.values())
    for task in tasks:
        there = table.tasks.get(task.id)
        known = there is not None and there.task == task
        why = "" if known else problem(task)
        if task.id in wanted:
            why = "another task has this id"
        elif there is not None and there.task.origin != origin:
            why = f"the id belongs to a task of {_FILES[there.task.origin]}"
        elif count + len(wanted) >= MAX_TASKS:
            why = f"there are {MAX_TASKS} tasks already"
        if why:
            problems.append(f"{task.id or task.title!r}: {why}")
            continue
        wanted[task.id] = replace(task, origin=origin)
    for id_, one in table.tasks.items():
        if one.task.origin == origin and id_ not in wanted and not one.removed:
            entries += _removed(one, now, f"it is gone from {_FILES[origin]}", cancelled=True)
    for id_, task in wanted.items():
        entries += _taken(table.tasks.get(id_), task, now)
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
    """
    one = table.tasks.get(id_)
    if one is None or (one.removed and verb != "stop"):
        return Decision(words=f"There is no task {id_!r}; /tasks lists them.", ok=False)
    match verb:
        case "stop":
            return _stop(one)
        case "pause" if one.paused:
            return Decision(words=f"It is paused already: {one.paused}.")
        case "pause":
            entries = (*close_times(one, now, PAUSED), TaskPaused(id_, f"paused by {by}"))
            return Decision(entries, f"Paused.{_goes_on(one)}")
        case "resume":
            return _resume(one, now)
        case "cancel":
            return _cancel(one, by, now, stop=stop, own=own)
        case "run":
            if one.run is not None or one.requested is not None:
                return Decision(words="It runs already.", ok=False)
            return Decision((_requested(one, now),), "It runs now.")


def restored(table: Timetable, at: float, zone: str) -> list[TimetableEntry]:
    """Close all that was planned before *at*, when this state was taken from a backup."""
    found: list[TimetableEntry] = []
    for one in table.tasks.values():
        begun = [] if one.run is None else [one.run.planned]
        if one.run is None and one.requested is not None:
            begun.append(PlannedRun(one.task.id, one.requested, 0, one.series))
        if one.retry is not None:
            begun.append(one.retry.planned)
        for run in begun:
            if run.due <= at:
                line = texts.missed(one.task, run.due, run.due, 1, RESTORED, zone)
                tell = line if is_news(one.task) else ""
                found.append(RunFinished(run, "missed", RESTORED, tell=tell))
        if not one.removed and not one.paused:
            found += close_times(one, at, RESTORED, zone)
    return found


def problem(task: Task) -> str:
    """Say what is wrong with *task* and what to write instead; "" if it is fine."""
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
    return when.check(task.when) or (check_hours(task.hours) if task.hours else "")


def _taken(one: TaskState | None, task: Task, now: float) -> tuple[TimetableEntry, ...]:
    if one is None:
        return (TaskScheduled(task, now),)
    old = one.task
    if one.removed or (old.when, old.zone) != (task.when, task.zone):
        close = [] if one.paused or one.removed else close_times(one, now, CHANGED)
        return (*close, TaskScheduled(task, now))
    return () if old == task else (TaskScheduled(task),)


def _removed(one: TaskState, now: float, why: str, *, cancelled: bool) -> list[TimetableEntry]:
    close = [] if one.paused else close_times(one, now, CANCELLED)
    return [*close, TaskRemoved(one.task.id, why, cancelled)]


def _cancel(one: TaskState, by: str, now: float, *, stop: bool, own: bool) -> Decision:
    origin = one.task.origin
    if origin == "house":
        return Decision(words="Elwood does it by itself: it can be paused.", ok=False)
    if origin != "talk":
        words = f"It stands in {_FILES[origin]}: take it out there, or pause it."
        return Decision(words=words, ok=False)
    entries = tuple(_removed(one, now, f"cancelled by {by}", cancelled=not own))
    if stop and (one.run is not None or one.result == "waiting"):
        stopped = _stop(one)
        return Decision(entries, f"Cancelled. {stopped.words}", stop=stopped.stop)
    return Decision(entries, f"Cancelled.{_goes_on(one)}")


def _goes_on(one: TaskState) -> str:
    if one.run is None:
        return ""
    return f" The run that is under way goes on to its end; /tasks stop {one.task.id} stops it."


def _stop(one: TaskState) -> Decision:
    """Stop what works in the task's own conversation; others are stopped where they are read."""
    if one.run is None:
        if one.result == "waiting" and not one.task.session:
            return Decision(words="What you allowed of it stops, if it is at work.", stop=True)
        return Decision(words="Nothing of it is running.", ok=False)
    task = one.run.task
    if task.session:
        words = f"It runs in the conversation {task.session}: /stop there stops it."
        return Decision(words=words, ok=False)
    if task.message:
        return Decision(words="It is being said: that cannot be stopped.", ok=False)
    if task.chore:
        words = "What Elwood does itself goes on to its end; a model that works on it stops."
        return Decision(words=words, stop=True)
    return Decision(words="Stopped.", stop=True)


def _resume(one: TaskState, now: float) -> Decision:
    entries: tuple[TimetableEntry, ...] = (TaskResumed(one.task.id, now),)
    if not one.paused:
        if one.mark - now > FAR_BEHIND:
            return Decision(entries, "It goes on, by what the clock shows now.")
        return Decision(words="It is not paused.")
    task = one.task
    after = max(now, one.mark)
    is_over = upcoming(task.when, after, task.zone, task.id, task.ends) is None and one.run is None
    if is_over and one.failures:
        return Decision((*entries, _requested(one, now)), "It is tried once more, now.")
    if is_over and one.requested is None:
        words = f"/tasks run {task.id} does it now, /tasks cancel {task.id} takes it away."
        return Decision(words=f"Its last time passed while it was paused: {words}", ok=False)
    return Decision(entries, "It goes on.")


def _requested(one: TaskState, now: float) -> RunRequested:
    return RunRequested(one.task.id, max(now, (one.last or 0.0) + APART))


def _free_id(table: Timetable, key: str) -> str:
    key = key[: MAX_ID - 4].strip("-") or "task"
    key = f"my-{key}"[: MAX_ID - 4].strip("-") if bad_id(key) else key
    names = [key, *(f"{key}-{number}" for number in range(2, MAX_TASKS + 2))]
    return next(name for name in names if name not in table.tasks)


def _is_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no file, no name, or a folder
        return False
    return True


# --- what has passed -----------------------------------------------------------------------------


def clock_behind(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """Find that the clock is far behind what it has shown; it is told once."""
    latest = table.latest
    if latest - now > FAR_BEHIND and latest > table.behind_told:
        return [ClockBehind(now, texts.clock_behind(latest, now, zone))]
    return []


def missed_runs(table: Timetable, now: float, zone: str) -> list[TimetableEntry]:
    """List the planned times that can never run any more."""
    found: list[TimetableEntry] = []
    for one in table.tasks.values():
        if one.run is None and not one.removed and not one.paused:
            found += _told(one, _passed(one, now), now, zone)
    return found


def close_times(one: TaskState, now: float, why: str, zone: str = "") -> list[TimetableEntry]:
    """Close all planned times up to *now*, *why*; the owner is told if there is a *zone*."""
    return _told(one, _passed(one, now, why), now, zone)


def is_news(task: Task) -> bool:
    """Tell whether the owner hears of it when *task* is missed.

    What looks at something can as well do so the next time.
    """
    return task.watch is None and not task.chore and task.origin != "heartbeat"


def _passed(one: TaskState, now: float, why: str = "") -> Iterator[RunsMissed]:
    """Find what has passed by; with *why* nothing may run any more, else the newest perhaps."""
    task = one.task
    until = now if task.ends is None else min(now, task.ends)
    first = following(one)
    if first is None or first > until:
        return
    times, count = when.planned(task.when, one.mark, until, task.zone, task.id, LOOKED)
    if (hidden := count - len(times)) > 0:
        (last,), _ = when.planned(task.when, one.mark, times[0] - 1, task.zone, task.id, 1)
        yield RunsMissed(task.id, first, last, hidden, "missed", why or OFF)
    awake = [at for at in times if is_awake(task, at)]
    if awake and not why and now - awake[-1] <= task.catch_up:
        times = times[: times.index(awake[-1])]

    def came(at: float) -> tuple[Literal["missed", "asleep"], str]:
        if not is_awake(task, at):
            return "asleep", ""
        return "missed", why or (LONG if one.last is not None and at <= one.last else OFF)

    for (result, reason), group in groupby(times, came):
        part = list(group)
        yield RunsMissed(task.id, part[0], part[-1], len(part), result, reason)


def _told(
    one: TaskState, passed: Iterable[RunsMissed], now: float, zone: str
) -> list[TimetableEntry]:
    """Have the last of the entries tell about all that was missed, in one line.

    Of runs that outlast their interval the owner hears once a day: there may be one each minute.
    """
    entries = list(passed)
    missed = [entry for entry in entries if entry.result == "missed"]
    if not (zone and missed and is_news(one.task)):
        return list(entries)
    is_slow = all(entry.why == LONG for entry in missed)
    if is_slow and one.slow_told is not None and 0 <= now - one.slow_told < TELL_LONG:
        return list(entries)
    first, last, count = missed[0].first, missed[-1].last, sum(entry.count for entry in missed)
    line = texts.missed(one.task, first, last, count, missed[-1].why, zone)
    telling = replace(missed[-1], tell=f"{line}{ONCE_A_DAY}" if is_slow else line)
    return [telling if entry is missed[-1] else entry for entry in entries]


# --- what is due ---------------------------------------------------------------------------------


def agenda(table: Timetable, now: float) -> Agenda:
    """Say what is to be done, oldest first, when all that was missed is written down."""
    runs, times = [], []
    for one in table.tasks.values():
        run, at = _look(one, now)
        if run is not None:
            runs.append(run)
        if at is not None:
            times.append(at)
    runs.sort(key=lambda run: (not run.begun, run.planned.attempt > 0, run.planned.due))
    let_go = sessions_to_tell(table.cancelled, now)
    return Agenda(tuple(runs), min(times, default=None), telling(table), let_go)


def may_begin(one: TaskState, run: PlannedRun, now: float) -> bool:
    """Tell whether *run* may begin now; meanwhile the clock may have been set."""
    found, _ = _look(one, now)
    in_time = run.is_requested or now - run.due <= one.task.catch_up
    return found is not None and found.planned == run and in_time


def finished(table: Timetable, now: float) -> list[TimetableEntry]:
    """List the tasks made in conversations for which nothing is left to do."""
    return [
        TaskRemoved(one.task.id, FINISHED)
        for one in table.tasks.values()
        if one.task.origin == "talk"
        and not (one.paused or one.run is not None or one.requested is not None)
        and not _may_retry(one, now)
        and following(one) is None
    ]


def following(one: TaskState) -> float | None:
    """Return the first planned time that is not dealt with."""
    return upcoming(one.task.when, one.mark, one.task.zone, one.task.id, one.task.ends)


@lru_cache(maxsize=4 * MAX_TASKS)
def upcoming(when_: When, after: float, zone: str, key: str, ends: float | None) -> float | None:
    """Return the first planned time after *after*, up to *ends*."""
    # Asked each minute with the same arguments, until that time has come.
    at = when.next_at(when_, after, zone, key)
    return None if at is None or (ends is not None and at > ends) else at


def is_awake(task: Task, at: float) -> bool:
    """Tell whether a run of *task* may begin at *at*; the time of a reminder was chosen."""
    return isinstance(task.when, Once) or is_active(task.hours, at, task.zone)


def _may_retry(one: TaskState, now: float) -> bool:
    return one.retry is not None and now - one.retry.planned.due <= one.task.catch_up


def _look(one: TaskState, now: float) -> tuple[DueRun | None, float | None]:
    """Return what may run now of a task of which nothing is missed, and when to look again."""
    task = one.task
    if one.run is not None:
        return DueRun(one.run.task, one.run.planned, True, good=one.good), None
    if one.removed:
        return None, None
    if one.requested is not None:
        return _due(one, PlannedRun(task.id, one.requested, 0, one.series)), None
    if one.paused:
        return None, None
    coming = following(one)
    if coming is not None and coming <= now:
        planned, at = PlannedRun(task.id, coming, 1, one.series), now
    elif one.retry is not None and _may_retry(one, now):
        planned, at = one.retry.planned, one.retry.at
        if at - now > BACKOFF[-1]:  # the clock was put back meanwhile
            at = now
    else:
        return None, coming
    if not isinstance(task.when, Once):
        at = next_active(task.hours, max(at, now), task.zone)
    if at <= now:
        return _due(one, planned), None
    late = planned.due + task.catch_up + 1
    return None, min(time for time in (at, late, coming) if time is not None and time > now)


def _due(one: TaskState, planned: PlannedRun) -> DueRun:
    trouble = one.words if one.failures and one.result == "failed" else ""
    return DueRun(one.task, planned, False, one.seen, one.good, trouble)


# --- the end of a run ----------------------------------------------------------------------------


def on_run_finished(
    one: TaskState,
    run: PlannedRun,
    result: Result,
    words: str,
    now: float,
    zone: str,
    *,
    acted: bool,
    told: bool = False,
) -> list[TimetableEntry]:
    """Say what follows from the end of a run: a further try, a word to the owner, a pause.

    What *acted* is not tried again; of a failure that the owner is *told* of by its conversation
    there is no further word.
    """
    words = texts.brief(words)
    if result != "failed":
        tell = result == "spent" and not told and (acted or one.result != "spent")
        line = texts.not_done(one.task, words, acted=acted) if tell else ""
        return [RunFinished(run, result, words, tell=line)]
    owns = run.series == one.series
    count = one.failures + 1 if owns else 1
    if count >= PAUSE_AFTER and not one.paused and not one.removed:
        why = f"it failed {count} times in a row: {words}"
        halted = TaskPaused(one.task.id, why, texts.paused(one.task, count, words))
        return [RunFinished(run, result, words), *close_times(one, now, why), halted]
    again = None
    if owns and not (acted or run.is_requested or one.paused or one.removed):
        again = now + BACKOFF[min(run.attempt, len(BACKOFF)) - 1]
        task = one.task
        then = upcoming(task.when, run.due, task.zone, task.id, task.ends)
        if (then is not None and then <= again) or again - run.due > task.catch_up:
            again = None
    last = again is None and following(one) in (None, run.due)
    # What it did nobody has seen: the answer of a failed run is not sent.
    tell = not told and (count == TELL_AFTER or run.is_requested or last or acted)
    line = texts.failed(one.task, count, words, again, zone, acted=acted) if tell else ""
    return [RunFinished(run, result, words, again, line)]


# --- what people see -----------------------------------------------------------------------------


def task_status(one: TaskState, now: float) -> TaskStatus:
    """Show a task as people see it."""
    return TaskStatus(
        one.task,
        None if one.paused else _coming(one, now),
        None if one.run is None else one.run.at,
        one.last,
        one.result,
        one.words,
        one.paused,
        one.failures,
    )


def _coming(one: TaskState, now: float) -> float | None:
    if one.requested is not None:
        return now
    if one.retry is not None and _may_retry(one, now):
        return one.retry.at
    if isinstance(one.task.when, Once):
        at = following(one)
    else:
        at = next(iter(texts.next_runs(one.task, one.mark, 1)), None)
    return None if at is None else max(at, now)


def telling(table: Timetable) -> Telling | None:
    """Say what the owner must be told next, as much as one message holds."""
    lines, buttons, upto, size = [], [], 0, 0
    again = bool(table.news) and table.news[0].seq <= table.shown
    if table.lost:
        lines.append(f"({table.lost} older lines found no room; /tasks shows how things stand.)")
    for news in table.news:
        size += len(news.text)
        if (news.seq <= table.shown) != again or (upto and size > MAX_TELL):
            break
        lines.append(news.text)
        upto = news.seq
        if news.button:
            buttons.append(news.button)
    return Telling("\n".join(lines), upto, tuple(buttons), again) if upto else None
