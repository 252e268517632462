"""A clock that was far ahead and is put right, or far behind: nothing runs twice, nothing rests."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.features.tasks.due_runs import following
from elwood.features.tasks.entries import (
    Begun,
    ClockSet,
    Passed,
    TimetableEntry,
)
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every, Once
from tests.features.tasks.book import Book

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
HOURLY = Task("t", "title", Every(HOUR), prompt="p")


def lived(book: Book, since: float, until: float) -> list[float]:
    """Look each ten minutes, and do what is to be done; say which planned times ran."""
    ran, now = [], since
    while now <= until:
        while runs := book.at(now)[1]:
            ran += [run.planned.due for run in runs]
            for run in runs:
                book.end(run)
        now += 600.0
    return ran


def told(entries: list[TimetableEntry]) -> list[str]:
    return [entry.tell for entry in entries if isinstance(entry, ClockSet | Passed) and entry.tell]


def test_what_a_clock_far_ahead_passed_over_runs_when_it_comes() -> None:
    book = Book(HOURLY)
    assert lived(book, 0.0, 2.5 * HOUR) == [HOUR, 2 * HOUR]
    assert lived(book, YEAR, YEAR + 2.5 * HOUR) == [YEAR, YEAR + HOUR, YEAR + 2 * HOUR]
    (set_back,), _ = book.at(5 * HOUR)
    assert isinstance(set_back, ClockSet)
    assert "My clock was put back" in set_back.tell
    assert book.at(5 * HOUR) == ([], []), "it is told once"
    assert lived(book, 5 * HOUR, 8.5 * HOUR) == [6 * HOUR, 7 * HOUR, 8 * HOUR]


def test_what_it_did_run_is_not_run_when_it_comes() -> None:
    book = Book(HOURLY)
    lived(book, 40 * DAY, 40 * DAY + 2.5 * HOUR)
    ran = lived(book, 39 * DAY - HOUR, 41 * DAY)
    assert ran[0] == 39 * DAY
    assert len(ran) == len(set(ran)) == 49 - 3
    assert not {40 * DAY, 40 * DAY + HOUR, 40 * DAY + 2 * HOUR} & set(ran)


def test_a_clock_that_is_behind_for_a_while_tells_nothing_twice() -> None:
    """As one does that begins in 1970 until it has asked what time it is."""
    book = Book(HOURLY, now=YEAR)
    lived(book, YEAR + 20 * DAY, YEAR + 21 * DAY)
    assert [type(one) for one in book.at(60.0)[0]] == [ClockSet]
    settled, runs = book.at(YEAR + 21 * DAY + 1.5 * HOUR)
    assert told(settled) == []
    assert [run.planned.due for run in runs] == [YEAR + 21 * DAY + HOUR]


def test_a_clock_that_is_ahead_twice_tells_of_what_it_passed_over_once() -> None:
    book = Book(HOURLY)
    assert len(told(book.at(YEAR)[0])) == 1
    book.at(HOUR / 2)
    settled, (run,) = book.at(YEAR + 60.0)
    assert told(settled) == []
    assert run.planned.due == YEAR, "the newest has no outcome yet"


def test_a_run_under_way_ends_without_a_second_word() -> None:
    book = Book(HOURLY)
    (run,) = book.at(YEAR)[1]
    book.write(Begun(run.planned))
    assert len(told(book.at(HOUR / 2)[0])) == 1
    book.end(attrs.evolve(run, begun=True))
    assert book.at(HOUR / 2 + 60.0) == ([], [])
    assert following(book.table.rows["t"]) == HOUR


def test_a_reminder_that_was_missed_by_such_a_clock_is_said_at_its_time() -> None:
    reminder = Task("once", "Call mum", Once(30 * DAY), message="m", catch_up=DAY)
    book = Book(HOURLY)
    book.make(reminder)
    assert "Call mum" in "".join(told(book.at(YEAR)[0]))
    assert "once" not in book.table.rows
    book.at(HOUR / 2)
    assert "once" in book.table.rows
    assert 30 * DAY in lived(book, 30 * DAY - HOUR, 30 * DAY + HOUR)
    assert "once" not in book.table.rows


def test_a_reminder_that_was_said_is_not_said_again() -> None:
    reminder = Task("once", "Call mum", Once(30 * DAY), message="m")
    book = Book(HOURLY)
    book.make(reminder)
    assert 30 * DAY in lived(book, 30 * DAY, 30 * DAY + HOUR)
    book.at(20 * DAY)
    assert "once" not in book.table.rows


def test_what_comes_while_the_machine_is_off_is_caught_up_or_missed_as_ever() -> None:
    """A clock that was ahead a year before told of it already, and was wrong."""
    book = Book(HOURLY)
    book.make(Task("once", "Call mum", Once(30 * DAY), message="m"))
    book.at(YEAR)
    book.at(HOUR / 2)
    settled, runs = book.at(30 * DAY + HOUR / 2)
    assert len(told(settled)) == 1
    assert [run.planned.due for run in runs] == [30 * DAY, 30 * DAY]


@pytest.mark.parametrize("back", [HOUR, DAY - 1])
def test_a_clock_that_is_put_back_a_little_plans_nothing_anew(back: float) -> None:
    book = Book(HOURLY)
    lived(book, 5 * DAY, 5 * DAY + HOUR)
    assert book.at(5 * DAY + HOUR - back) == ([], [])


def test_a_paused_task_is_put_right_too() -> None:
    book = Book(HOURLY)
    book.at(YEAR)
    book.change("pause")
    assert len(told(book.at(HOUR / 2)[0])) == 1
    book.change("resume")
    assert following(book.table.rows["t"]) == HOUR


@given(
    st.lists(st.tuples(st.floats(0, 30 * DAY), st.floats(HOUR, 2 * DAY)), min_size=1, max_size=8),
    st.sampled_from([HOUR, 7 * HOUR, DAY]),
)
def test_nothing_runs_twice_however_the_clock_jumps(
    jumps: list[tuple[float, float]], every: float
) -> None:
    book = Book(replace(HOURLY, when=Every(every)))
    ran: list[float] = []
    for begin, seconds in jumps:
        for step in range(6):
            now = begin + seconds * step / 5
            for run in book.at(now)[1]:
                ran.append(run.planned.due)
                book.end(run)
    assert len(ran) == len(set(ran))
    latest = max(one.mark for one in book.table.rows.values())
    assert latest - book.now <= DAY
