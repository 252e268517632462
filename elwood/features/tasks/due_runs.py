"""What is to be done now about the tasks of the timetable.

The timetable first writes down what `passing.settle` finds, so that of the times up to now at most
the newest that can still run is left; then `agenda` says what to do.
"""

from functools import lru_cache

import attrs

from elwood.features.tasks import time_ranges as stretches
from elwood.features.tasks import when as timing
from elwood.features.tasks.cancelled import to_tell
from elwood.features.tasks.entries import Left, Planned, TimetableEntry
from elwood.features.tasks.state import Row, Timetable
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Once, When

# Tasks at once; a person has dozens.  All are looked at each minute, and all may be told about.
MAX_TASKS = 200
# Seconds after a failed try until the next; a task that fails for longer is paused.
BACKOFF = (60.0, 300.0, 900.0, 3600.0)
# Characters of news in one message; channels take some 4,000.
MAX_TELL = 3_000
FINISHED = "its last time has passed"


@attrs.frozen
class Run:
    """A run to begin, or to go on with if it has *begun*.

    *seen* is the fingerprint of what the task watched when it was last done well, at Unix time
    *good* (0: never); *trouble* why the last try failed.
    """

    task: Task
    planned: Planned
    begun: bool = False
    seen: str = ""
    good: float = 0.0
    trouble: str = ""


@attrs.frozen
class Telling:
    """News for the owner, which stand in the timetable up to its entry *upto*.

    They may have been told before if *again*.  *buttons* type what stands on them.
    """

    text: str
    upto: int
    buttons: tuple[str, ...] = ()
    again: bool = False


@attrs.frozen
class Agenda:
    """What is to be done; *next* is when to ask again.  Tasks of the sessions *let_go* are gone."""

    runs: tuple[Run, ...] = ()
    next: float | None = None
    tell: Telling | None = None
    let_go: tuple[str, ...] = ()


def following(row: Row) -> float | None:
    """Return the first planned time that is not dealt with.

    >>> following(Row(Task("t", "t", timing.Every(60.0)), series=1, mark=60.0))
    120.0
    """
    after = row.mark
    while True:
        at = upcoming(row.task.when, after, row.task.zone, row.task.id, row.task.ends)
        ran = None if at is None else stretches.holding(row.ran, at)
        if ran is None:
            return at
        after = ran.last


def is_awake(task: Task, at: float) -> bool:
    """Tell whether a run of *task* may begin at *at*; the time of a reminder was chosen.

    >>> hours = timing.Hours("08:00", "22:00")
    >>> is_awake(Task("t", "t", timing.Cron("@hourly"), hours=hours), 0.0)
    False
    >>> is_awake(Task("t", "t", Once(0.0), hours=hours), 0.0)
    True
    """
    return isinstance(task.when, Once) or timing.is_active(task.hours, at, task.zone)


def is_news(task: Task) -> bool:
    """Tell whether the owner hears of it when *task* is missed.

    What looks at something can as well do so the next time.

    >>> is_news(Task("t", "t", Once(0.0))), is_news(Task("t", "t", Once(0.0), chore="backup"))
    (True, False)
    """
    return task.watch is None and not task.chore and task.origin != "heartbeat"


def may_try(row: Row, now: float) -> bool:
    """Tell whether what failed is to be tried again, be it now or later.

    >>> may_try(Row(Task("t", "t", Once(60.0)), 1, 60.0), 61.0)
    False
    """
    return row.again is not None and now - row.again.planned.due <= row.task.catch_up


def may_begin(row: Row, run: Planned, now: float) -> bool:
    """Tell whether *run* may begin now; meanwhile the clock may have been set.

    >>> row = Row(Task("t", "t", Once(60.0)), series=1, mark=0.0)
    >>> [may_begin(row, Planned("t", 60.0, series=1), now) for now in (60.0, 59.0)]
    [True, False]
    """
    found, _ = _look(row, now)
    in_time = run.is_wanted or now - run.due <= row.task.catch_up
    return found is not None and found.planned == run and in_time


def is_over(row: Row, now: float) -> bool:
    """Tell whether nothing is left to do for a task.

    >>> is_over(Row(Task("t", "t", Once(60.0)), series=1, mark=60.0), 61.0)
    True
    """
    busy = row.run is not None or row.wanted is not None
    return not busy and not may_try(row, now) and following(row) is None


def finished(table: Timetable, now: float) -> list[TimetableEntry]:
    """List the tasks made in conversations for which nothing is left to do.

    >>> row = Row(Task("t", "t", Once(60.0)), series=1, mark=60.0)
    >>> [one.why for one in finished(Timetable({"t": row}), 61.0)]
    ['its last time has passed']
    """
    return [
        Left(row.task.id, FINISHED)
        for row in table.rows.values()
        if row.task.origin == "talk" and not row.paused and row.unsaid is None and is_over(row, now)
    ]


def agenda(table: Timetable, now: float) -> Agenda:
    """Say what is to be done, when all that has passed by is settled; oldest first.

    >>> table = Timetable({"t": Row(Task("t", "t", Once(60.0)), series=1, mark=0.0)})
    >>> agenda(table, 0.0).next, agenda(table, 60.0).runs[0].planned.due
    (60.0, 60.0)
    """
    runs, times = [], []
    for row in table.rows.values():
        run, at = _look(row, now)
        if run is not None:
            runs.append(run)
        if at is not None:
            times.append(at)
    runs.sort(key=lambda run: (not run.begun, run.planned.attempt > 0, run.planned.due))
    next_, let_go = min(times, default=None), to_tell(table.cancelled, now)
    return Agenda(tuple(runs), next_, telling(table), let_go)


@lru_cache(maxsize=4 * MAX_TASKS)
def upcoming(when: When, after: float, zone: str, key: str, ends: float | None) -> float | None:
    """Return the first planned time after *after*, up to *ends*.

    >>> upcoming(timing.Every(60.0), 90.0, "UTC", "t", None)
    120.0
    """
    # Asked each minute with the same arguments, until that time has come.
    at = timing.next_at(when, after, zone, key)
    return None if at is None or (ends is not None and at > ends) else at


def _look(row: Row, now: float) -> tuple[Run | None, float | None]:
    """Return what may run now of a row that is settled, and when to look at it again."""
    task = row.task
    if row.run is not None:
        running = row.run
        return Run(running.task, running.planned, True, good=row.good), None
    if row.gone:
        return None, None
    if row.wanted is not None:
        return _run(row, Planned(task.id, row.wanted, 0, row.series)), None
    if row.paused:
        return None, None
    coming = following(row)
    if coming is not None and coming <= now:
        planned, at = Planned(task.id, coming, 1, row.series), now
    elif row.again is not None and may_try(row, now):
        planned, at = row.again.planned, row.again.at
        if at - now > BACKOFF[-1]:  # the clock was put back meanwhile
            at = now
    else:
        return None, coming
    if not isinstance(task.when, Once):
        at = timing.next_active(task.hours, max(at, now), task.zone)
    if at <= now:
        return _run(row, planned), None
    late = planned.due + task.catch_up + 1
    return None, min(time for time in (at, late, coming) if time is not None and time > now)


def _run(row: Row, planned: Planned) -> Run:
    return Run(row.task, planned, False, row.seen, row.good, row.trouble)


def telling(table: Timetable) -> Telling | None:
    """Say what the owner must be told next, as much as one message holds.

    >>> from elwood.features.tasks.state import News
    >>> telling(Timetable(news=[News(7, "It failed.")]))
    Telling(text='It failed.', upto=7, buttons=(), again=False)
    """
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
