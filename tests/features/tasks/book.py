"""A timetable as its actor has it, with a settable clock."""

from elwood.features.tasks import rules
from elwood.features.tasks.rules import DueRun, Outcome
from elwood.features.tasks.state import RunStarted, Timetable, TimetableEntry
from elwood.features.tasks.task import Result, Task

ZONE = "UTC"


class Book:
    """Store the entries written."""

    def __init__(self, *tasks: Task, now: float = 0.0) -> None:
        self.table, self.now, self._number = Timetable(), now, 0
        decision, problems = rules.adopt(self.table, "config", tasks, now)
        assert not problems
        self.write(*decision.entries)

    def write(self, *entries: TimetableEntry) -> list[TimetableEntry]:
        for entry in entries:
            self._number += 1
            self.table.apply(self._number, self.now, entry)
        return list(entries)

    def at(self, now: float) -> tuple[list[TimetableEntry], list[DueRun]]:
        """Return the agenda."""
        self.now = now
        settled = self.write(*rules.close_missed(self.table, now, ZONE))
        self.write(*rules.remove_finished(self.table, now))
        return settled, list(rules.agenda(self.table, now).runs)

    def next(self) -> float | None:
        return rules.agenda(self.table, self.now).next

    def end(
        self, run: DueRun, result: Result = "done", acted: bool = False
    ) -> list[TimetableEntry]:
        """Start a run, and end it immediately."""
        row = self.table.tasks[run.task.id]
        if not run.begun:
            self.write(RunStarted(run.planned))
        outcome = Outcome(result, "why", acted)
        entries = rules.on_run_finished(row, run.planned, outcome, self.now, ZONE)
        return self.write(*entries)

    def change(self, verb: rules.Verb, id_: str = "t") -> rules.Decision:
        decision = rules.change(self.table, id_, verb, "me", self.now)
        self.write(*decision.entries)
        return decision

    def make(self, task: Task) -> None:
        """Add a task as a conversation does."""
        _, decision = rules.schedule(self.table, task, self.now)
        assert decision.ok, decision.words
        self.write(*decision.entries)
