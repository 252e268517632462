from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.channels.pacing import Bucket

SENDS = st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 10)), max_size=60)


@given(st.floats(0.1, 100.0), st.floats(1.0, 30.0), SENDS)
def test_obedient_callers_never_exceed_the_rate(
    rate: float, size: float, sends: list[tuple[float, int]]
) -> None:
    bucket, now, sent = Bucket(rate, size), 1000.0, list[tuple[float, int]]()
    for gap, count in sends:
        now += gap
        now += bucket.delay(now, count=count)
        assert bucket.delay(now, count=count) <= 1e-3  # no second wait: the first was exact
        bucket = bucket.spend(now, count)
        sent.append((now, count))
    for first, (start, alone) in enumerate(sent):
        total = 0
        for end, count in sent[first:]:
            total += count
            assert total <= max(alone, size + (end - start) * rate) + 1e-3


def test_some_capacity_can_be_reserved() -> None:
    half = Bucket(1.0, 4.0).spend(0.0).spend(0.0)
    assert half.delay(0.0) == 0.0
    assert half.delay(0.0, leave=2) == 1.0
