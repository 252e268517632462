from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.channels.pacing import Bucket


@given(st.floats(0.1, 100.0), st.floats(1.0, 30.0), st.lists(st.floats(0.0, 3.0), max_size=60))
def test_obedient_callers_never_exceed_the_rate(
    rate: float, size: float, gaps: list[float]
) -> None:
    bucket, now, sent = Bucket(rate, size), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        now += bucket.delay(now)
        assert bucket.delay(now) <= 1e-3  # no second wait: the first delay was exact
        bucket = bucket.spend(now)
        sent.append(now)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], 1):
            assert last <= size + (end - start) * rate + 1e-3


def test_some_capacity_can_be_reserved() -> None:
    half = Bucket(1.0, 4.0).spend(0.0).spend(0.0)
    assert half.delay(0.0) == 0.0
    assert half.delay(0.0, leave=2) == 1.0
