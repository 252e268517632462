from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.channels.pacing import Bucket, Budget, Pacing, Window

WINDOWS = st.lists(
    st.builds(Window, st.integers(1, 6), st.floats(0.1, 30.0)), min_size=1, max_size=3
).map(tuple)


@given(WINDOWS, st.lists(st.floats(0.0, 10.0), max_size=40))
def test_whoever_waits_as_told_never_exceeds_a_window(
    windows: tuple[Window, ...], gaps: list[float]
) -> None:
    budget, now, sent = Budget(windows), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        wait = budget.delay(now)
        now += wait
        assert budget.delay(now) <= 1e-6  # no second wait: the figure was exact
        budget = budget.spend(now)
        sent.append(now)
        assert len(budget.times) <= max(window.limit for window in windows) + 1
    for window in windows:
        for index, at in enumerate(sent):
            within = [t for t in sent[index:] if t - at < window.seconds - 1e-3]
            assert len(within) <= window.limit


@given(st.floats(0.5, 100.0), st.lists(st.floats(0.0, 3.0), max_size=60))
def test_a_bucket_lets_a_seconds_worth_go_at_once_and_no_more_than_its_rate_after_that(
    rate: float, gaps: list[float]
) -> None:
    bucket, now, sent = Bucket(rate), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        now += bucket.delay(now)
        assert bucket.delay(now) <= 1e-3
        bucket = bucket.spend(now)
        sent.append(now)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], 1):
            assert last <= max(1.0, rate) + (end - start) * rate + 1e-3


def test_fifty_at_once_wait_for_what_is_beyond_the_bucket_only() -> None:
    bucket, now = Bucket(30.0), 0.0
    for _ in range(50):
        now += bucket.delay(now)
        bucket = bucket.spend(now)
    assert 0.6 < now < 0.7


def test_room_can_be_left_for_others() -> None:
    half = Budget((Window(4, 1.0),), (0.0, 0.1))
    assert half.delay(0.2) == 0.0
    assert half.delay(0.2, leave=2) == 0.8
    assert Budget((Window(1, 1.0),)).delay(0.0, leave=5) == 0.0


def test_the_vendors_figures() -> None:
    pacing = Pacing()
    assert pacing.total == 30.0
    assert Window(20, 60.0) in pacing.group
    assert pacing.previews == (Window(20, 5.0), Window(40, 30.0))
