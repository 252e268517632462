"""What stands in schedule.jsonl: which tasks there are and what came of them; and its fold.

A planned time is *dealt with* when its run, or its outcome, stands in the log.  `TaskState.mark`
only grows, so a clock that is put back plans nothing twice: what is dealt with rests until the
clock has made that up, or the owner resumes it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from elwood.features.tasks.task import Result, Task, placed

# The journal, in the state folder.
SCHEDULE = "schedule.jsonl"
# Why planned times pass while a task is at work.
LONG = "the run before took so long"
# Lines that wait to be told: two of each task; of more the oldest are left out.
MAX_NEWS = 400
# Cancelled tasks that are remembered: nobody cancels more in the day that a question is open.
MAX_CANCELLED = 1_000
# Seconds by which a clock must be behind what is dealt with for the owner to be told, and to have
# a task go on: an hour set wrong, or a zone taken for another, is made up by itself.
FAR_BEHIND = 86_400.0


class PlannedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The *attempt*-th try at a run of *task* that was planned for Unix time *due*.

    The attempt 0 is one that somebody asked for at *due*; it is not tried again.  *series* is the
    entry from which the task is planned: it tells this task from an earlier one of the same name.
    """

    task: str
    due: float
    attempt: int = 1
    series: int = 0

    @property
    def is_requested(self) -> bool:
        """Whether somebody asked for it, so that it is none of the task's own times."""
        return self.attempt == 0


class TaskScheduled(msgspec.Struct, frozen=True, tag="made"):
    """*task* is to be done; its times count from *since* on.

    Without *since* only other things about it have changed, and its times go on.
    """

    task: Task
    since: float | None = None


class TaskRemoved(msgspec.Struct, frozen=True, tag="left"):
    """The task is no more: *why*; if *cancelled*, nor is what waits for a yes.  A run may end."""

    task: str
    why: str
    cancelled: bool = False


class TaskPaused(msgspec.Struct, frozen=True, tag="halted"):
    """The task was paused, *why* in words; *tell* is what the owner is told of it."""

    task: str
    why: str
    tell: str = ""


class TaskResumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The task goes on; its times count from *since* on."""

    task: str
    since: float


class RunRequested(msgspec.Struct, frozen=True, tag="wanted"):
    """Somebody wants a run now; *due* names it like a planned time."""

    task: str
    due: float


class RunStarted(msgspec.Struct, frozen=True, tag="begun"):
    """A run begins; *seen* is the fingerprint of what the task watches.

    *session* is the conversation where it runs, if the task leaves that open.
    """

    run: PlannedRun
    seen: str = ""
    session: str = ""


class RunFinished(msgspec.Struct, frozen=True, tag="ended"):
    """What came of a run, in *words*; with *again* it is tried once more at that Unix time.

    *tell* is what the owner is told of it; *said* what its answer told them, unless strangers may
    have steered it.
    """

    run: PlannedRun
    result: Result
    words: str = ""
    again: float | None = None
    tell: str = ""
    said: str = ""


class RunsMissed(msgspec.Struct, frozen=True, tag="passed"):
    """Nothing ran at *count* planned times in a row, from *first* to *last*, *why* in words."""

    task: str
    first: float
    last: float
    count: int
    result: Literal["missed"]
    why: str = ""
    tell: str = ""


class NewsPosting(msgspec.Struct, frozen=True, tag="shown"):
    """All news up to the entry *upto* are about to be told; what is told again is a repeat."""

    upto: int


class NewsTold(msgspec.Struct, frozen=True, tag="told"):
    """All news up to the entry *upto* have been told."""

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
"""What the owner may have to be told of."""


class RunningTask(msgspec.Struct, frozen=True):
    """A run under way since Unix time *at*: of *task* as it was then."""

    planned: PlannedRun
    task: Task
    at: float
    seen: str = ""


class Retry(msgspec.Struct, frozen=True):
    """What is to be tried again, at Unix time *at*."""

    planned: PlannedRun
    at: float


class News(msgspec.Struct, frozen=True):
    """A line for the owner, from the entry *seq*; *button* types what stands on it."""

    seq: int
    text: str
    button: str = ""


class TaskState(msgspec.Struct):
    """A task and how far it is.  Times are Unix seconds.

    It is planned from the entry *series* on, and all planned times up to *mark* are dealt with.
    *requested* names a run that somebody asked for.  *failures* tries in a row have failed.
    *last* is when it ran last, *result* and *words* what came of that or of what was missed since,
    *good* when it was last done well, and *seen* what it watched then; *unchanged* counts the looks
    since that found the same, as long as nothing is written.  *said* is what it told last,
    at *said_at*.  A task that is *removed* only waits for the end of its run; one that was made in
    its place waits too.
    """

    task: Task
    series: int
    mark: float
    run: RunningTask | None = None
    retry: Retry | None = None
    requested: float | None = None
    paused: str = ""
    removed: bool = False
    failures: int = 0
    last: float | None = None
    result: Result | None = None
    words: str = ""
    good: float = 0.0
    seen: str = ""
    said: str = ""
    said_at: float = 0.0
    unchanged: int = 0

    def start(self, run: PlannedRun, at: float, seen: str, session: str = "") -> None:
        """Take a run as under way."""
        self.run = RunningTask(run, placed(self.task, session), at, seen)
        self.retry = None
        if run.is_requested:
            self.requested = None
        else:
            self.mark = max(self.mark, run.due)

    def finish(self, finished: RunFinished, at: float) -> None:
        """Take the outcome of the run that is under way; of an earlier task's there is no more."""
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
        """Take it that planned times have passed."""
        self.mark, self.retry = max(self.mark, missed.last), None
        if missed.result == "missed":
            self.result, self.words = "missed", missed.why

    def resume(self, since: float) -> None:
        """Go on; what is not paused, and rests far ahead of the clock, goes on at *since*."""
        rests = not self.paused and self.mark - since > FAR_BEHIND
        self.mark = since if rests else max(self.mark, since)
        self.paused, self.failures = "", 0


class Timetable(msgspec.Struct):
    """The fold of schedule.jsonl: one state per task, and what the owner has not been told.

    *shown* is up to which entry news may have been told.  *cancelled* has the tasks that were taken
    away, by their ids, with the entry that did it.
    """

    tasks: dict[str, TaskState] = {}
    news: list[News] = []
    shown: int = 0
    cancelled: dict[str, int] = {}

    def apply(self, seq: int, at: float, entry: TimetableEntry) -> None:
        """Take one entry into account; called by the journal, in order."""
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
    """Tell whether *task* was cancelled after the entry *series*, from which a run was planned.

    What its runs had asked the owner for is then not to be done any more.  A task that came to its
    end by itself is none of them: what it has asked for last may still be allowed.
    """
    return series < known.get(task, 0)
