"""A timetable as its actor keeps it, with a clock that a test turns."""

from elwood.features.tasks import changes as scheduling
from elwood.features.tasks import due_runs as planning
from elwood.features.tasks import missed_runs as passing
from elwood.features.tasks import on_run_finished as ending
from elwood.features.tasks.due_runs import Run
from elwood.features.tasks.entries import Begun, TimetableEntry
from elwood.features.tasks.state import Timetable
from elwood.features.tasks.task import Result, Task

ZONE = "UTC"


class Book:
    """Keeps what is written, entry by entry."""

    def __init__(self, *tasks: Task, now: float = 0.0) -> None:
        self.table, self.now, self._number = Timetable(), now, 0
        decision, problems = scheduling.adopt(self.table, "config", tasks, now)
        assert not problems
        self.write(*decision.entries)

    def write(self, *entries: TimetableEntry) -> list[TimetableEntry]:
        for entry in entries:
            self._number += 1
            self.table.apply(self._number, self.now, entry)
        return list(entries)

    def at(self, now: float) -> tuple[list[TimetableEntry], list[Run]]:
        """Consult."""
        self.now = now
        settled = self.write(*passing.turned(self.table, now, ZONE))
        settled += self.write(*passing.settle(self.table, now, ZONE))
        self.write(*planning.finished(self.table, now))
        return settled, list(planning.agenda(self.table, now).runs)

    def next(self) -> float | None:
        return planning.agenda(self.table, self.now).next

    def end(self, run: Run, result: Result = "done", acted: bool = False) -> list[TimetableEntry]:
        """Begin a run, and end it at once."""
        row = self.table.rows[run.task.id]
        if not run.begun:
            self.write(Begun(run.planned))
        entries = ending.ended(row, run.planned, result, "why", acted, self.now, ZONE)
        return self.write(*entries)

    def change(self, verb: scheduling.Verb, id_: str = "t") -> scheduling.Decision:
        decision = scheduling.change(self.table, id_, verb, "me", self.now)
        self.write(*decision.entries)
        return decision

    def make(self, task: Task) -> None:
        """Take a task as a conversation makes it."""
        _, decision = scheduling.schedule(self.table, task, self.now)
        assert decision.ok, decision.words
        self.write(*decision.entries)
