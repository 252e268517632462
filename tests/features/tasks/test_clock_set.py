"""A clock far behind what it has shown: tasks rest, that is told once, nothing runs twice."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.features.tasks.state import ClockBehind, RunsMissed, TimetableEntry
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
    return [e.tell for e in entries if isinstance(e, ClockBehind | RunsMissed) and e.tell]


def test_it_rests_and_says_so_once() -> None:
    book = Book(HOURLY)
    lived(book, YEAR, YEAR + 2.5 * HOUR)
    ((said,), runs) = book.at(5 * HOUR)
    assert isinstance(said, ClockBehind)
    assert said.tell.startswith("My clock was put back: it has shown Fri 1971-01-01 02:00 UTC")
    assert (runs, book.at(5 * HOUR)) == ([], ([], []))
    assert lived(book, 6 * HOUR, 9 * HOUR) == []
    assert lived(book, YEAR + 2.5 * HOUR, YEAR + 3.5 * HOUR) == [YEAR + 3 * HOUR]


def test_who_resumes_a_task_has_it_go_on_by_what_the_clock_shows_now() -> None:
    book = Book(HOURLY)
    book.at(YEAR)
    book.at(5 * HOUR)
    assert book.change("resume").words == "It goes on, by what the clock shows now."
    assert lived(book, 5 * HOUR, 7 * HOUR) == [6 * HOUR, 7 * HOUR]
    assert book.change("resume").words == "It is not paused."


def test_what_is_made_while_the_clock_is_wrong_runs_by_it() -> None:
    book = Book(HOURLY)
    book.at(YEAR)
    book.at(5 * HOUR)
    book.make(Task("once", "Call mum", Once(6 * HOUR), message="m"))
    assert lived(book, 5 * HOUR, 7 * HOUR) == [6 * HOUR]


def test_a_clock_that_is_behind_for_a_while_tells_nothing_twice() -> None:
    """As one does that begins in 1970 until it has asked what time it is."""
    book = Book(HOURLY, now=YEAR)
    lived(book, YEAR + 20 * DAY, YEAR + 21 * DAY)
    assert [type(one) for one in book.at(60.0)[0]] == [ClockBehind]
    settled, runs = book.at(YEAR + 21 * DAY + 1.5 * HOUR)
    assert told(settled) == []
    assert [run.planned.due for run in runs] == [YEAR + 21 * DAY + HOUR]
    assert len(told(book.at(60.0)[0])) == 0, "it has shown no more since"


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
