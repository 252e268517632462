"""A brute-force oracle: the expected outcome of every planned time, computed from the log.

If the clock was put far back, a time that was skipped before may have one more outcome, which
replaces the first; a time that has run may not. The oracle shares `next_at`, `is_active` and
`next_active` with Elwood, and none of its rules.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import attrs

from elwood.agent.conversation.settings import is_active, next_active
from elwood.agent.session.log.entries import Received, Replied
from elwood.features.tasks import when as timing
from elwood.features.tasks.actor import message_of
from elwood.features.tasks.state import (
    LONG,
    PlannedRun,
    RunFinished,
    RunRequested,
    RunsMissed,
    RunStarted,
    TaskPaused,
    TaskRemoved,
    TaskResumed,
    TaskScheduled,
    TimetableEntry,
)
from elwood.features.tasks.task import Task
from tests.journeys.judging import AGAIN, Journals

Log = Sequence[tuple[int, float, TimetableEntry]]
# Suffixes of ids that belong to a run but are not runs: its note, and follow-ups.
BESIDE = (":note", ":then")
# Prefixes of texts about tasks that no conversation sent.
NEWS = ("Failed", "Missed: ", "Paused: ")


def wrong_outcomes(log: Log, end: float, texts: Iterable[str], journals: Journals) -> list[str]:
    """List errors in the outcomes and reports of planned times until *end*."""
    judge = Judge(log, end)
    bare = [(text.removeprefix(AGAIN), text.startswith(AGAIN)) for text in texts]
    judge.judge_news(log, [one for one in bare if one[0].startswith(NEWS)])
    return [*judge.broken, *_runs(log, journals)]


def _runs(log: Log, journals: Journals) -> Iterator[str]:
    """Check that each started run is one message of one session, and ended as the session says."""
    entries = [entry for each in journals.values() for entry in each]
    asked = {e.id for e in entries if isinstance(e, Received) and e.bounds}
    replies = {id_: e for e in entries if isinstance(e, Replied) for id_ in e.inputs}
    chores = {e.task.id for _, _, e in log if isinstance(e, TaskScheduled) and e.task.chore}
    runs = [e.run for _, _, e in log if isinstance(e, RunStarted) and e.run.task not in chores]
    begun = {message_of(run) for run in runs}
    yield from (f"{id_} began without a question" for id_ in begun - asked)
    yield from (f"{id_} never began" for id_ in asked - begun if not id_.endswith(BESIDE))
    for _, _, entry in log:
        if not isinstance(entry, RunFinished):
            continue
        told = replies.get(message_of(entry.run))
        if told and (entry.result == "failed") != told.failed:
            yield f"{entry} in the timetable, {told} in the session"
        if told and told.failed and not told.quiet and entry.tell:
            yield f"its conversation has told of it already: {entry.tell}"
    # The result of a yes goes only to the owner who gave it.
    for reply in (entry for entry in entries if isinstance(entry, Replied)):
        if not reply.inputs and reply.failed and reply.quiet:
            yield f"the owner allowed it, and never heard: {reply}"


@attrs.define
class Series:
    """The times of a task planned by entry *number*, until the task changed.

    Times in (*since*, *must*] need an outcome. Times up to *may* can have one, because the clock
    once showed more; so can times in *pauses*, and times in *taken*, run by an earlier series.
    """

    number: int
    task: Task
    since: float
    must: float = math.inf
    may: float = math.inf
    pauses: list[tuple[float, float]] = attrs.field(factory=list)
    attempts: dict[float, list[RunFinished]] = attrs.field(factory=lambda: defaultdict(list))
    passed: list[RunsMissed] = attrs.field(factory=list)
    begun: set[float] = attrs.field(factory=set)
    exempt: float = 0.0
    taken: tuple[float, float] = (0.0, 0.0)
    # Each time before it was moved to the beginning of its hours.
    named: dict[float, float] = attrs.field(factory=dict)

    def times(self, end: float, since: float | None = None) -> Iterator[float]:
        """List the planned times in order; times outside the hours move to their beginning."""
        task, at = self.task, self.since if since is None else since
        while True:
            found = timing.next_at(task.when, at, task.zone, task.id)
            if found is None:
                return
            at = found if self._is_chosen else next_active(task.hours, found, task.zone)
            self.named[at] = found
            if at > end or (task.ends is not None and at > task.ends):
                return
            yield at

    def is_awake(self, at: float) -> bool:
        """Return True if something planned for *at* can run then."""
        return self._is_chosen or is_active(self.task.hours, at, self.task.zone)

    @property
    def _is_chosen(self) -> bool:
        return isinstance(self.task.when, timing.Once)


class Judge:
    """Read a log, and find broken promises."""

    def __init__(self, log: Log, end: float) -> None:
        self.broken: list[str] = []
        self.begun: Counter[PlannedRun] = Counter()
        self._end = end
        self._series: dict[str, Series] = {}
        self._all: list[Series] = []
        self._running: dict[str, PlannedRun] = {}
        self._wanted: dict[tuple[str, float], int] = {}
        self._granted: Counter[tuple[str, float]] = Counter()
        self._left: Counter[str] = Counter()
        highest = 0.0
        for number, at, entry in log:
            highest = max(highest, at)
            self._read(number, at, highest, entry)
        for series in self._all:
            self._judge(series)
        self._judge_wanted()

    def _read(self, number: int, at: float, highest: float, entry: TimetableEntry) -> None:
        match entry:
            case TaskScheduled(task, since):
                old = self._series.get(task.id)
                if since is None:
                    assert old is not None
                    old.task = task
                    return
                if old is not None:
                    old.must, old.may = min(old.must, since), min(old.may, max(highest, since))
                new = Series(number, task, since)
                if old is not None:
                    # Times that the clock showed before are handled, and a pause continues.
                    new.exempt = highest
                    new.taken = old.taken
                    if old.begun:
                        new.taken = min(old.begun), max(old.begun)
                    if old.pauses and old.pauses[-1][1] == math.inf:
                        new.pauses.append((0.0, math.inf))
                self._series[task.id] = new
                self._all.append(new)
            case TaskRemoved(task=id_):
                series = self._series[id_]
                series.must, series.may = min(at, series.must), min(highest, series.may)
                self._left[id_] = number
            case TaskPaused(task=id_):
                self._series[id_].pauses.append((at, math.inf))
            case TaskResumed(task=id_, since=since):
                pauses = self._series[id_].pauses
                pauses[-1] = (pauses[-1][0], max(since, highest))
            case RunRequested(task=id_, due=due):
                self._wanted[id_, due] = number
            case RunStarted(run=run):
                self._begin(run, at)
            case RunFinished(run=run):
                self._running.pop(run.task, None)
                series = self._of(run)
                if run.attempt:
                    series.attempts[run.due].append(entry)
                    series.begun.add(run.due)
                else:
                    self._granted[run.task, run.due] += 1
            case RunsMissed(task=id_):
                self._series[id_].passed.append(entry)

    def _of(self, run: PlannedRun) -> Series:
        return next(one for one in reversed(self._all) if one.number == run.series)

    def _begin(self, run: PlannedRun, at: float) -> None:
        self.begun[run] += 1
        series = self._of(run)
        task = series.task
        if self.begun[run] > 1:
            self.broken.append(f"{run} was begun twice")
        if run.task in self._running:
            self.broken.append(f"{run} was begun beside {self._running[run.task]}")
        self._running[run.task] = run
        if run.attempt == 0:
            return
        series.begun.add(run.due)
        if at - run.due > task.catch_up + 5:
            self.broken.append(f"{run} was begun {at - run.due:.0f} s late")
        if not series.is_awake(at):
            self.broken.append(f"{run} was begun outside of its hours")

    def _judge(self, series: Series) -> None:
        task = series.task
        end = min(series.may, self._end)
        seen = [*series.begun, *(passed.last for passed in series.passed)]
        since = min([series.since, *(at - 1 for at in series.begun)])
        since = min([since, *(passed.first - 1 for passed in series.passed)])
        known = list(series.times(max([end, *seen]), since))
        planned = set(known)
        outcomes: Counter[float] = Counter(series.begun)
        for passed in series.passed:
            inside = known[bisect_left(known, passed.first) : bisect_right(known, passed.last)]
            outcomes.update(inside)
            if len(inside) != passed.count or passed.first not in inside:
                self.broken.append(f"{passed} counts wrong: {len(inside)}")
        for due, tries in series.attempts.items():
            if due not in planned:
                self.broken.append(f"{tries[0].run} was not planned")
            if [one.run.attempt for one in tries] != list(range(1, len(tries) + 1)):
                self.broken.append(f"{task.id} {due}: attempts {tries}")
            if any(one.result != "failed" or one.again is None for one in tries[:-1]):
                self.broken.append(f"{task.id} {due}: went on after {tries}")
        for at in series.times(end):
            # An unchanged look is in no log.
            free = task.watch is not None or at > series.must or at <= series.exempt
            named = series.named[at]
            free = free or any(begin < at and named <= until for begin, until in series.pauses)
            free = free or series.taken[0] <= at <= series.taken[1]
            if not outcomes[at] and not free:
                self.broken.append(f"{task.id} {at}: no outcome")
            if outcomes[at] > 1:
                self.broken.append(f"{task.id} {at}: {outcomes[at]} outcomes")

    def _judge_wanted(self) -> None:
        """Find requested runs that never ran or ran twice; times may have changed since."""
        for key, number in self._wanted.items():
            if self._granted[key] > 1 or (not self._granted[key] and number > self._left[key[0]]):
                self.broken.append(f"{key}: wanted, {self._granted[key]} outcomes")
        self.broken += [f"{key}: not wanted" for key in self._granted if key not in self._wanted]

    def judge_news(self, log: Log, told: Iterable[tuple[str, bool]]) -> None:
        """Find news that were not reported, or reported twice without a mark."""
        due = Counter(
            entry.tell
            for _, _, entry in log
            if isinstance(entry, RunFinished | RunsMissed | TaskPaused) and entry.tell
        )
        first, all_ = Counter[str](), Counter[str]()
        for text, again in told:
            lines = text.split("\n")
            all_.update(lines)
            first.update([] if again else lines)
        for line, count in due.items():
            if not all_[line]:
                self.broken.append(f"never told: {line}")
            if first[line] > count:
                self.broken.append(f"told {first[line]} times: {line}")
        for line in all_:
            if line not in due:
                self.broken.append(f"told for nothing: {line}")
        silent: dict[str, tuple[float, RunsMissed]] = {}
        for _, at, entry in log:
            if isinstance(entry, RunsMissed):
                before = silent.pop(entry.task, None)
                # One line can report several results.
                if before is not None and before[0] != at:
                    self.broken.append(f"not told: {before[1]}")
                task = self._series[entry.task].task
                quiet = task.watch is not None or bool(task.chore)
                closed = entry.why.startswith(("it was", "the task was", "it failed"))
                slow = entry.why == LONG
                if entry.tell and (quiet or closed or slow):
                    self.broken.append(f"told: {entry}")
                if not entry.tell and not (quiet or closed or slow):
                    silent[entry.task] = at, entry
        self.broken += [f"not told: {entry}" for _, entry in silent.values()]
