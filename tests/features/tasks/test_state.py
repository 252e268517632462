"""The fold of schedule.jsonl: rules, removal, and bounded size."""

import pytest

from elwood.features.tasks.state import (
    PlannedRun,
    RunFinished,
    RunStarted,
    TaskRemoved,
    TaskScheduled,
    Timetable,
    TimetableEntry,
)
from elwood.features.tasks.task import Result, Task
from elwood.features.tasks.when import Every

TASK = Task("t", "title", Every(3600.0), prompt="p")
RUN = PlannedRun("t", 3600.0, series=1)


def folded(*entries: TimetableEntry) -> Timetable:
    table = Timetable()
    for number, entry in enumerate(entries, 1):
        table.apply(number, 10_000.0 + number, entry)
    return table


@pytest.mark.parametrize("result", ["done", "failed"])
def test_a_new_task_ignores_results_of_an_old_one(result: Result) -> None:
    made = (
        TaskScheduled(TASK, 0.0),
        RunStarted(RUN, "x"),
        TaskRemoved("t", "cancelled"),
        TaskScheduled(TASK, 5000.0),
        RunFinished(RUN, result, "no", again=9.0),
    )
    row = folded(*made).tasks["t"]
    assert (row.series, row.mark, row.removed) == (4, 5000.0, False)
    assert (row.run, row.retry, row.failures, row.result, row.words) == (None, None, 0, None, "")
    assert (row.seen, row.good, row.last) == ("", 0.0, None)
    own = PlannedRun("t", 7200.0, series=4)
    row = folded(*made, RunStarted(own), RunFinished(own, "failed", "no")).tasks["t"]
    assert (row.failures, row.words) == (1, "no")
