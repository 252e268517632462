"""Journal entries of schedule.jsonl, and the state of tasks that they build.

A planned time is *handled* when its run or outcome is in the journal.  `TaskState.mark` only grows,
so a clock that is set back repeats no run: a handled task rests until the clock has caught up, or
the owner resumes it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from elwood.features.tasks.task import Result, Task, with_session

# The journal, in the state folder.
SCHEDULE = "schedule.jsonl"
# Reason for times that were missed during a run.
LONG = "the previous run took too long"
# Lines of pending news: two per task; the oldest are dropped.
MAX_NEWS = 400
# Remembered cancelled tasks: more than are cancelled in the day that an approval is open.
MAX_CANCELLED = 1_000
# Seconds that a clock must be behind the handled times before the owner is notified and may resume
# a task: a wrong hour or zone corrects itself sooner.
FAR_BEHIND = 86_400.0


class PlannedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One try of a run of *task*."""

    task: str
    due: float  # Unix time
    attempt: int = 1  # 0: requested at *due*, and not retried
    series: int = 0  # entry that planned the task; it differs for an earlier task of the same id

    @property
    def is_requested(self) -> bool:
        """Return True if it was requested, so *due* is not one of the task's planned times."""
        return self.attempt == 0


class TaskScheduled(msgspec.Struct, frozen=True, tag="made"):
    """*task* was added or changed; its times count from *since*.

    Without *since* its times did not change.
    """

    task: Task
    since: float | None = None


class TaskRemoved(msgspec.Struct, frozen=True, tag="left"):
    """The task was removed.  If *cancelled*, its approvals are void.  A run may finish."""

    task: str
    why: str
    cancelled: bool = False


class TaskPaused(msgspec.Struct, frozen=True, tag="halted"):
    """The task was paused; *tell* is the news for the owner."""

    task: str
    why: str
    tell: str = ""


class TaskResumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The task was resumed; its times count from *since*."""

    task: str
    since: float


class RunRequested(msgspec.Struct, frozen=True, tag="wanted"):
    """A run was requested now; *due* identifies it like a planned time."""

    task: str
    due: float


class RunStarted(msgspec.Struct, frozen=True, tag="begun"):
    """A run started; *seen* is the fingerprint of its watch.

    *session* is its session, if the task left it open.
    """

    run: PlannedRun
    seen: str = ""
    session: str = ""


class RunFinished(msgspec.Struct, frozen=True, tag="ended"):
    """A run ended; *again* is the Unix time of the next try, if any.

    *tell* is the news for the owner; *said* the answer that they got, unless strangers may have
    steered it.
    """

    run: PlannedRun
    result: Result
    words: str = ""
    again: float | None = None
    tell: str = ""
    said: str = ""


class RunsMissed(msgspec.Struct, frozen=True, tag="passed"):
    """*count* planned times in a row, from *first* to *last*, were missed."""

    task: str
    first: float
    last: float
    count: int
    result: Literal["missed"]
    why: str = ""
    tell: str = ""


class NewsPosting(msgspec.Struct, frozen=True, tag="shown"):
    """All news up to the entry *upto* will be sent now; sending them again is a repeat."""

    upto: int


class NewsTold(msgspec.Struct, frozen=True, tag="told"):
    """All news up to the entry *upto* were delivered."""

    upto: int


TimetableEntry = (
    TaskScheduled
    | TaskRemoved
    | TaskPaused
    | TaskResumed
    | RunRequested
    | RunStarted
    | RunFinished
    | RunsMissed
    | NewsPosting
    | NewsTold
)

NEWS = TaskPaused | RunFinished | RunsMissed
"""Entries that may have news for the owner."""


class RunningTask(msgspec.Struct, frozen=True):
    """A run in progress since Unix time *at*, with *task* as it was then."""

    planned: PlannedRun
    task: Task
    at: float
    seen: str = ""


class Retry(msgspec.Struct, frozen=True):
    """The next try of a failed run, at Unix time *at*."""

    planned: PlannedRun
    at: float


class News(msgspec.Struct, frozen=True):
    """A line for the owner, from the entry *seq*; *button* is a command."""

    seq: int
    text: str
    button: str = ""


class TaskState(msgspec.Struct):
    """A task and its progress.  Times are Unix seconds."""

    task: Task
    series: int  # entry that planned it
    mark: float  # all planned times up to it are handled
    run: RunningTask | None = None
    retry: Retry | None = None
    requested: float | None = None  # `PlannedRun.due` of a requested run
    paused: str = ""  # the reason
    removed: bool = False  # it waits for the end of its run, as does a new task of its id
    failures: int = 0  # in a row
    last: float | None = None  # end of the last run
    result: Result | None = None  # of the last run, or "missed" since
    words: str = ""  # of the result
    good: float = 0.0  # end of the last success
    seen: str = ""  # fingerprint of the watch then
    said: str = ""  # last answer
    said_at: float = 0.0
    unchanged: int = 0  # looks in a row without a change; not journaled

    def start(self, run: PlannedRun, at: float, seen: str, session: str = "") -> None:
        """Apply the start of a run."""
        self.run = RunningTask(run, with_session(self.task, session), at, seen)
        self.retry = None
        if run.is_requested:
            self.requested = None
        else:
            self.mark = max(self.mark, run.due)

    def finish(self, finished: RunFinished, at: float) -> None:
        """Apply the end of the current run; a run of an earlier series changes nothing else."""
        run, result = self.run, finished.result
        assert run is not None
        self.run = None
        if run.planned.series != self.series:
            return
        self.last, self.result, self.words = at, result, finished.words
        self.unchanged = self.unchanged + 1 if result == "unchanged" else 0
        if result == "failed":
            self.failures += 1
        elif result in ("done", "waiting"):
            self.failures, self.good, self.seen = 0, at, run.seen
        if finished.said:
            self.said, self.said_at = finished.said, at
        self.retry = None
        if finished.again is not None:
            tried = run.planned
            following = PlannedRun(tried.task, tried.due, tried.attempt + 1, tried.series)
            self.retry = Retry(following, finished.again)

    def miss(self, missed: RunsMissed) -> None:
        """Apply missed times."""
        self.mark, self.retry = max(self.mark, missed.last), None
        if missed.result == "missed":
            self.result, self.words = "missed", missed.why

    def resume(self, since: float) -> None:
        """Resume.  A task that rests far ahead of the clock also counts from *since* again."""
        rests = not self.paused and self.mark - since > FAR_BEHIND
        self.mark = since if rests else max(self.mark, since)
        self.paused, self.failures = "", 0


class Timetable(msgspec.Struct):
    """The state that schedule.jsonl builds."""

    tasks: dict[str, TaskState] = {}
    news: list[News] = []  # not delivered yet
    shown: int = 0  # last entry whose news may have been sent
    cancelled: dict[str, int] = {}  # entry that cancelled a task, by the task's id

    def apply(self, seq: int, at: float, entry: TimetableEntry) -> None:
        """Apply one entry; called by the journal, in order."""
        match entry:
            case NewsPosting(upto):
                self.shown = max(self.shown, upto)
            case NewsTold(upto):
                self.news = [news for news in self.news if news.seq > upto]
            case TaskScheduled(task, since):
                self._schedule(seq, task, since)
            case RunStarted(run) | RunFinished(run):
                if (one := self.tasks.get(run.task)) is not None:
                    self._run(one, entry, at)
            case _:
                if (one := self.tasks.get(entry.task)) is not None:
                    self._change(one, entry, seq)
        if isinstance(entry, NEWS) and entry.tell:
            button = f"/tasks resume {entry.task}" if isinstance(entry, TaskPaused) else ""
            self.news = [*self.news, News(seq, entry.tell, button)][-MAX_NEWS:]

    def _schedule(self, seq: int, task: Task, since: float | None) -> None:
        one = self.tasks.get(task.id)
        if one is None or one.removed:
            mark, run = (one.mark, one.run) if one else (0.0, None)
            self.tasks[task.id] = TaskState(task, seq, max(mark, since or 0.0), run)
            return
        one.task, one.failures = task, 0
        if since is not None:
            one.series, one.mark, one.retry = seq, max(one.mark, since), None

    def _run(self, one: TaskState, entry: RunStarted | RunFinished, at: float) -> None:
        if isinstance(entry, RunStarted):
            one.start(entry.run, at, entry.seen, entry.session)
            return
        if one.run is None:
            one.start(entry.run, at, one.seen)
        one.finish(entry, at)
        if one.removed:
            del self.tasks[one.task.id]

    def _change(
        self,
        one: TaskState,
        entry: TaskRemoved | TaskPaused | TaskResumed | RunRequested | RunsMissed,
        seq: int,
    ) -> None:
        match entry:
            case TaskRemoved(cancelled=cancelled):
                if cancelled and (one.run or one.last):
                    self.cancelled.pop(one.task.id, None)
                    self.cancelled[one.task.id] = seq
                    self.cancelled = dict([*self.cancelled.items()][-MAX_CANCELLED:])
                if one.run is not None:
                    one.removed = True
                else:
                    del self.tasks[one.task.id]
            case TaskPaused(why=why):
                one.paused, one.retry = why, None
            case TaskResumed(since=since):
                one.resume(since)
            case RunRequested(due=due):
                one.requested = due
            case RunsMissed():
                one.miss(entry)


def is_cancelled(known: Mapping[str, int], task: str, series: int) -> bool:
    """Return True if *task* was cancelled after the entry *series* that planned a run.

    Approvals of such a run are void.  A task that just ran out of times is not cancelled: its last
    approvals stay valid.
    """
    return series < known.get(task, 0)
