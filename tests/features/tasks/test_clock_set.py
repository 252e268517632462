"""A clock far behind its latest reading: tasks rest, the owner is notified, none runs twice."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.features.health.actor import MAX_LINE
from elwood.features.tasks.rules import clock_behind
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every, Once
from tests.features.tasks.book import Book

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
HOURLY = Task("t", "title", Every(HOUR), prompt="p")


def lived(book: Book, since: float, until: float) -> list[float]:
    """Check every ten minutes, and run the due tasks; return the planned times that ran."""
    ran, now = [], since
    while now <= until:
        while runs := book.at(now)[1]:
            ran += [run.planned.due for run in runs]
            for run in runs:
                book.end(run)
        now += 600.0
    return ran


def test_tasks_rest_and_the_owner_is_told() -> None:
    book = Book(HOURLY)
    lived(book, YEAR, YEAR + 2.5 * HOUR)
    said = clock_behind(book.table, 5 * HOUR, "UTC")
    assert said.startswith("My clock was set back: it has already shown Fri 1971-01-01 02:00 UTC")
    assert len(said) <= MAX_LINE
    assert book.at(5 * HOUR) == ([], [])
    assert lived(book, 6 * HOUR, 9 * HOUR) == []
    assert lived(book, YEAR + 2.5 * HOUR, YEAR + 3.5 * HOUR) == [YEAR + 3 * HOUR]
    assert clock_behind(book.table, YEAR + 3.5 * HOUR, "UTC") == ""


def test_a_resumed_task_follows_the_present_clock() -> None:
    book = Book(HOURLY)
    book.at(YEAR)
    book.at(5 * HOUR)
    assert book.change("resume").words == "Resumed."
    assert lived(book, 5 * HOUR, 7 * HOUR) == [6 * HOUR, 7 * HOUR]
    assert book.change("resume").words == "It is not paused."


def test_a_task_made_with_a_wrong_clock_follows_it() -> None:
    book = Book(HOURLY)
    book.at(YEAR)
    book.at(5 * HOUR)
    book.make(Task("once", "Call mum", Once(6 * HOUR), message="m"))
    assert lived(book, 5 * HOUR, 7 * HOUR) == [6 * HOUR]


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
