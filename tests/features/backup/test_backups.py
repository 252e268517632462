"""Which backups are kept, for any times at which they were taken."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from elwood.features.backup.rules import WEEKS, file_name, parse_time, surplus

# Seconds from 2001 to 2100.
TIMES = st.integers(1_000_000_000, 4_100_000_000).map(float)


def week(at: float) -> tuple[int, int]:
    return datetime.fromtimestamp(at, UTC).isocalendar()[:2]


@given(st.lists(TIMES, unique=True), st.integers(1, 10))
def test_the_newest_and_one_of_each_of_the_last_weeks_stay(taken: list[float], keep: int) -> None:
    going = surplus(taken, keep)
    kept = sorted(set(taken) - set(going), reverse=True)
    newest = sorted(taken, reverse=True)
    assert kept[:keep] == newest[:keep]
    weeks = list(dict.fromkeys(map(week, newest)))[:WEEKS]
    for one in weeks:
        assert max(at for at in taken if week(at) == one) in kept
    assert len(kept) <= keep + WEEKS
    assert going == sorted(going)
    assert surplus(kept, keep) == []


@given(TIMES)
def test_names_contain_the_time(at: float) -> None:
    assert parse_time(file_name(at + 0.5)) == at
    for other in ("elwood-now.tar.gz", f".{file_name(at)}", f"{file_name(at)}.tmp", "notes.tar.gz"):
        assert parse_time(other) is None
