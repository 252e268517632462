"""The fold of schedule.jsonl: what counts, what goes, and that it stays small."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.tasks.changes import MAX_TEXT
from elwood.features.tasks.entries import (
    Begun,
    Ended,
    Halted,
    Left,
    Made,
    Passed,
    Planned,
    Resumed,
    Shown,
    TimetableEntry,
    Told,
    Wanted,
)
from elwood.features.tasks.state import MAX_NEWS, Timetable
from elwood.features.tasks.task import Result, Task
from elwood.features.tasks.when import Every

TASK = Task("t", "title", Every(3600.0), prompt="p")
RUN = Planned("t", 3600.0, series=1)


def folded(*entries: TimetableEntry) -> Timetable:
    table = Timetable()
    for number, entry in enumerate(entries, 1):
        table.apply(number, 10_000.0 + number, entry)
    return table


def test_what_is_dealt_with_stays_so() -> None:
    entries = (Made(TASK, 0.0), Begun(RUN), Ended(RUN, "done"))
    row = folded(*entries, Made(TASK, 100.0), Resumed("t", 200.0)).rows["t"]
    assert row.mark == 3600.0
    assert not row.knows(Planned("t", 3600.0, series=row.series))


def test_a_changed_task_gives_its_run_under_way_to_its_end() -> None:
    other = Task("t", "other", Every(7200.0), prompt="q", session="s")
    row = folded(Made(TASK, 0.0), Begun(RUN), Made(other, 4000.0)).rows["t"]
    assert row.run is not None
    assert (row.run.task, row.task) == (TASK, other)


def test_a_task_that_is_cancelled_while_it_runs_leaves_at_its_end() -> None:
    entries = (Made(TASK, 0.0), Begun(RUN), Left("t", "cancelled"))
    assert folded(*entries).rows["t"].gone
    assert folded(*entries, Ended(RUN, "done")).rows == {}


def test_a_task_that_is_made_anew_while_the_old_one_runs_stays() -> None:
    entries = (Made(TASK, 0.0), Begun(RUN), Left("t", "cancelled"), Made(TASK, 5000.0))
    row = folded(*entries, Ended(RUN, "failed", "no", again=9.0)).rows["t"]
    assert (row.series, row.mark) == (4, 5000.0)
    assert (row.run, row.again, row.gone) == (None, None, False)


@pytest.mark.parametrize("result", ["done", "failed"])
def test_what_came_of_an_earlier_task_is_no_matter_of_the_new_one(result: Result) -> None:
    made = (Made(TASK, 0.0), Begun(RUN, "x"), Left("t", "cancelled"), Made(TASK, 5000.0))
    row = folded(*made, Ended(RUN, result, "no")).rows["t"]
    told = (row.failed, row.trouble, row.result, row.words, row.seen, row.good, row.last)
    assert told == (0, "", None, "", "", 0.0, None)
    assert row.free, "it waited for that run"
    own = Planned("t", 7200.0, series=4)
    row = folded(*made, Ended(RUN, result), Begun(own), Ended(own, "failed", "no")).rows["t"]
    assert (row.failed, row.trouble) == (1, "no")


def test_a_success_makes_failures_forgotten() -> None:
    second = Planned("t", 3600.0, 2, 1)
    entries = (Made(TASK, 0.0), Begun(RUN), Ended(RUN, "failed", "no", again=3700.0))
    row = folded(*entries).rows["t"]
    assert (row.failed, row.trouble) == (1, "no")
    assert row.again is not None
    assert row.again.planned == second
    row = folded(*entries, Begun(second, "x"), Ended(second, "done")).rows["t"]
    assert (row.failed, row.trouble, row.again, row.seen) == (0, "", None, "x")


def test_news_wait_until_they_are_told() -> None:
    missed = Passed("t", 3600.0, 3600.0, 1, "missed", "off", tell="line")
    halted = Halted("t", "failing", tell="paused")
    table = folded(Made(TASK, 0.0), missed, Shown(2), halted)
    assert [(news.seq, news.button) for news in table.news] == [
        (2, ""),
        (4, "/tasks resume t"),
    ]
    assert table.shown == 2
    table.apply(5, 0.0, Told(2))
    assert [news.text for news in table.news] == ["paused"]


def test_news_are_bounded() -> None:
    missed = Passed("t", 3600.0, 3600.0, 1, "missed", "off", tell="line")
    table = folded(Made(TASK, 0.0), *[missed] * (MAX_NEWS + 7))
    assert (len(table.news), table.lost) == (MAX_NEWS, 7)


def test_a_task_takes_a_bounded_place() -> None:
    """However often it runs, it holds its record, one of each thing, and some stretches."""
    task = msgspec.structs.replace(TASK, prompt="p" * MAX_TEXT)
    entries: list[TimetableEntry] = [Made(task, 0.0)]
    for number in range(1, 500):
        run = Planned("t", number * 3600.0, series=1)
        entries += [Begun(run, "f" * 64), Ended(run, "failed", "w" * 300)]
    size = len(msgspec.json.encode(folded(*entries)))
    assert size < MAX_TEXT + 3_000


RUNS = st.builds(
    Planned,
    st.just("t"),
    st.integers(0, 5).map(lambda hour: hour * 3600.0),
    st.integers(0, 3),
    st.integers(1, 3),
)
ENTRIES = st.one_of(
    st.builds(Made, st.just(TASK), st.none() | st.floats(0, 20_000)),
    st.builds(Left, st.just("t"), st.just("")),
    st.builds(Halted, st.just("t"), st.just("why"), st.sampled_from(["", "line"])),
    st.builds(Resumed, st.just("t"), st.floats(0, 20_000)),
    st.builds(Wanted, st.just("t"), st.floats(0, 20_000)),
    st.builds(Begun, RUNS),
    st.builds(Ended, RUNS, st.sampled_from(["done", "failed", "missed"])),
    st.builds(
        Passed, st.just("t"), st.floats(0, 9), st.floats(9, 20_000), st.just(2), st.just("missed")
    ),
)


@given(st.lists(ENTRIES, max_size=30))
def test_marks_only_grow_and_any_state_can_be_kept(entries: list[TimetableEntry]) -> None:
    """Whatever stands in a log, the fold takes it; a snapshot of it is the same again."""
    table, mark, series = Timetable(), 0.0, -1
    for number, entry in enumerate(entries, 1):
        table.apply(number, float(number), entry)
        row = table.rows.get("t")
        if row is not None and row.series == series:
            assert row.mark >= mark
        mark, series = (row.mark, row.series) if row else (0.0, -1)
    raw = msgspec.json.encode(table)
    assert msgspec.json.decode(raw, type=Timetable) == table
