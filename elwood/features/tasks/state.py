"""What schedule.jsonl adds up to: which tasks there are, how far each is, what is to be told.

A planned time is *dealt with* when its outcome stands in the log.  `Row.mark` only grows, so a
clock that is put back plans nothing twice; only where it is put back far (`ClockSet`) the marks
go with it, and `Row.ran` alone says what is not to be done again.
"""

import msgspec

from elwood.features.tasks import time_ranges as stretches
from elwood.features.tasks.cancelled import Cancelled, note
from elwood.features.tasks.entries import (
    LONG,
    Begun,
    ClockSet,
    Ended,
    Halted,
    Left,
    Made,
    Passed,
    Planned,
    Resumed,
    Shown,
    Summed,
    TimetableEntry,
    Told,
    Wanted,
)
from elwood.features.tasks.task import Result, Task
from elwood.features.tasks.time_ranges import Stretch

# Lines that wait to be told: two of each task; of more the oldest are only counted.
MAX_NEWS = 400
# Tasks that came to their end, the newest: as many as there may be.
MAX_OVER = 200


class Running(msgspec.Struct, frozen=True):
    """A run under way since Unix time *at*: of *task* as it was then."""

    planned: Planned
    task: Task
    at: float
    seen: str = ""


class Again(msgspec.Struct, frozen=True):
    """What is to be tried again, at Unix time *at*."""

    planned: Planned
    at: float


class Unsaid(msgspec.Struct, frozen=True):
    """*count* missed times, from *first* to *last*, that the owner is to be told of."""

    first: float
    last: float
    count: int


class News(msgspec.Struct, frozen=True):
    """A line for the owner, from the entry *seq*; *button* types what stands on it."""

    seq: int
    text: str
    button: str = ""


class Row(msgspec.Struct):
    """A task and how far it is.  Times are Unix seconds.

    All planned times up to *mark* are dealt with, and all of *ran*; those up to *was* were once,
    before the clock was put back to *mark*.  *wanted* is a run somebody asked for.  *failed*
    tries in a row have failed, the last one for the reason *trouble*.  *last* is when it ran last,
    *result* and *words* what came of it, *good* when it was last done well, and *seen* what it
    watched then; *free* is when the last run ended, *newest* when one was wanted last.  A task
    that has *gone* only waits for the end of its run; one that was made in its place, by the entry
    *born*, waits too.
    """

    task: Task
    series: int
    mark: float
    run: Running | None = None
    again: Again | None = None
    wanted: float | None = None
    paused: str = ""
    gone: bool = False
    failed: int = 0
    trouble: str = ""
    last: float | None = None
    result: Result | None = None
    words: str = ""
    good: float = 0.0
    seen: str = ""
    free: float = 0.0
    newest: float = 0.0
    born: int = 0
    ran: list[Stretch] = []
    was: float = 0.0
    said: float | None = None
    unsaid: Unsaid | None = None

    def owns(self, run: Planned) -> bool:
        """Tell whether *run* is one of this task, and not of an earlier one of the same name."""
        return run.series >= self.born

    def knows(self, run: Planned) -> bool:
        """Tell whether *run* is one of these times that nothing came of yet, and does not run."""
        if self.gone or self.run is not None or run.series != self.series:
            return False
        if run.attempt == 0:
            return run.due == self.wanted
        if self.paused:
            return False
        if self.again is not None and run == self.again.planned:
            return True
        is_new = run.due > self.mark and stretches.holding(self.ran, run.due) is None
        return is_new and run.attempt == 1

    def begin(self, run: Planned, at: float, seen: str) -> None:
        """Take a run as under way."""
        self.run = Running(run, self.task, at, seen)
        self.again = None
        if run.is_wanted:
            self.wanted = None
        else:
            self.ran = stretches.add(self.ran, run.due, self.mark)

    def end(self, ended: Ended, at: float) -> None:
        """Take the outcome of the run that is under way."""
        run, result = self.run, ended.result
        assert run is not None
        self.run = None
        if not run.planned.is_wanted and run.planned.due <= at:  # else the clock was put back
            self.mark = max(self.mark, run.planned.due)
        if not self.owns(run.planned):
            self.free = at
            return
        self.last, self.result, self.words, self.free = at, result, ended.words, at
        if result == "failed":
            self.failed, self.trouble = self.failed + 1, ended.words
        elif result in ("done", "waiting"):
            self.failed, self.trouble, self.good, self.seen = 0, "", at, run.seen
        self.again = None
        if ended.again is not None:
            tried = run.planned
            following = Planned(tried.task, tried.due, tried.attempt + 1, tried.series)
            self.again = Again(following, ended.again)

    def miss(self, passed: Passed, at: float) -> None:
        """Take it that planned times were missed, and whether the owner hears of it, or will."""
        self.result, self.words = "missed", passed.why
        if passed.later:
            before = self.unsaid or Unsaid(passed.first, passed.last, 0)
            self.unsaid = Unsaid(before.first, passed.last, before.count + passed.count)
        elif passed.tell and passed.why == LONG:
            self.said = at

    def put_back(self, to: float) -> None:
        """Take it that the clock shows *to*, far before what is dealt with."""
        self.was, self.mark = max(self.was, self.mark), to
        self.free, self.good = min(self.free, to), min(self.good, to)


class Timetable(msgspec.Struct):
    """The fold of schedule.jsonl: one row per task, and what the owner has not been told.

    *shown* is up to which entry news may have been told; *lost* counts news that found no room.
    *cancelled* has the tasks that were taken away, by their ids, and *over* those for which nothing
    was left to do: perhaps by a clock that was ahead.  *was* is what it had shown when it was put
    back last; 0 if it has shown that again since.
    """

    rows: dict[str, Row] = {}
    news: list[News] = []
    shown: int = 0
    lost: int = 0
    cancelled: dict[str, Cancelled] = {}
    over: dict[str, Row] = {}
    was: float = 0.0

    def apply(self, seq: int, at: float, entry: TimetableEntry) -> None:
        """Take one entry into account; called by the journal, in order."""
        match entry:
            case Made(task, since):
                self._make(seq, task, since)
            case Shown(upto):
                self.shown = max(self.shown, upto)
            case Told(upto):
                self.news = [news for news in self.news if news.seq > upto]
                self.lost = 0
            case ClockSet(to):
                self._turn(to)
            case Begun(run) | Ended(run):
                if (row := self.rows.get(run.task)) is not None:
                    self._run(row, entry, at)
            case Left(id_) | Halted(id_) | Resumed(id_) | Wanted(id_) | Passed(id_) | Summed(id_):
                if (row := self.rows.get(id_)) is not None:
                    if isinstance(entry, Left) and entry.cancelled and (row.run or row.last):
                        note(self.cancelled, row.task, seq, at)
                    self._change(row, entry, at)
        if isinstance(entry, Halted | Ended | Passed | Summed | ClockSet) and entry.tell:
            button = f"/tasks resume {entry.task}" if isinstance(entry, Halted) else ""
            self.news.append(News(seq, entry.tell, button))
            if len(self.news) > MAX_NEWS:
                del self.news[0]
                self.lost += 1

    def _make(self, seq: int, task: Task, since: float | None) -> None:
        row = self.rows.get(task.id)
        self.over.pop(task.id, None)
        if row is None:
            self.rows[task.id] = Row(task, seq, since or 0.0)
        elif row.gone:
            mark = max(row.mark, since or 0.0)
            new = Row(task, seq, mark, row.run, newest=row.newest, born=seq, ran=row.ran)
            self.rows[task.id] = new
        else:
            row.task = task
            if since is not None:
                row.series, row.mark, row.again = seq, max(row.mark, since), None
                row.was = 0.0

    @property
    def latest(self) -> float:
        """The newest planned time that is dealt with: the clock has shown it already."""
        rows = [*self.rows.values(), *self.over.values()]
        return max((row.mark for row in rows), default=0.0)

    def _turn(self, to: float) -> None:
        if self.latest > to:
            self.was = max(self.was, self.latest)
            self.rows |= {id_: row for id_, row in self.over.items() if row.mark > to}
            for row in self.rows.values():
                self.over.pop(row.task.id, None)
                if row.mark > to:
                    row.put_back(to)
        else:  # it is where it was: what was dealt with then, is
            self.was = 0.0
            for row in self.rows.values():
                row.mark = max(row.mark, row.was)

    def _run(self, row: Row, entry: Begun | Ended, at: float) -> None:
        if isinstance(entry, Begun):
            row.begin(entry.run, at, entry.seen)
            return
        if row.run is None:
            row.begin(entry.run, at, row.seen)
        row.end(entry, at)
        if row.gone:
            del self.rows[row.task.id]

    def _change(
        self, row: Row, entry: Left | Halted | Resumed | Wanted | Passed | Summed, at: float
    ) -> None:
        match entry:
            case Left(cancelled=cancelled):
                if row.run is not None:
                    row.gone = True
                    return
                del self.rows[row.task.id]
                if not cancelled:
                    self.over[row.task.id] = row
                    if len(self.over) > MAX_OVER:
                        del self.over[next(iter(self.over))]
            case Halted():
                row.paused, row.again = entry.why, None
            case Resumed():
                row.paused, row.failed, row.mark = "", 0, max(row.mark, entry.since)
            case Wanted():
                row.wanted = row.newest = entry.due
            case Passed():
                row.mark, row.again = max(row.mark, entry.last), None
                if entry.result == "missed":
                    row.miss(entry, at)
            case Summed():
                row.said, row.unsaid = at, None
