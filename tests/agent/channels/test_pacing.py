from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.channels.pacing import Bucket, Pacing, per_second


@given(st.floats(0.1, 100.0), st.floats(1.0, 30.0), st.lists(st.floats(0.0, 3.0), max_size=60))
def test_whoever_waits_as_told_never_has_more_than_the_bucket_and_its_rate(
    rate: float, size: float, gaps: list[float]
) -> None:
    bucket, now, sent = Bucket(rate, size), 1000.0, list[float]()
    for gap in gaps:
        now += gap
        now += bucket.delay(now)
        assert bucket.delay(now) <= 1e-3  # no second wait: the figure was exact
        bucket = bucket.spend(now)
        sent.append(now)
    for first, start in enumerate(sent):
        for last, end in enumerate(sent[first:], 1):
            assert last <= size + (end - start) * rate + 1e-3


@given(st.integers(1, 1000))
def test_no_second_has_more_than_it_may_the_first_one_neither(most: int) -> None:
    bucket, now, sent = per_second(most), 5.0, list[float]()
    while now < 7.0:
        now += bucket.delay(now)
        bucket = bucket.spend(now)
        sent.append(now)
    for start in sent:
        assert sum(start <= at < start + 0.999 for at in sent) <= most


def test_room_can_be_left_for_others() -> None:
    half = Bucket(1.0, 4.0).spend(0.0).spend(0.0)
    assert half.delay(0.0) == 0.0
    assert half.delay(0.0, leave=2) == 1.0


def test_the_vendors_figures() -> None:
    """30 a second to all, one a second to a chat, 20 a minute to a group; drafts likewise."""
    pacing = Pacing()
    total = per_second(pacing.total)
    assert total.size + total.rate == 30.0
    assert pacing.chat.rate == 1.0
    for bucket, seconds, most in (
        (pacing.group, 60, 20), (pacing.previews, 5, 20), (pacing.previews, 30, 40),
    ):  # fmt: skip
        assert bucket.size + seconds * bucket.rate <= most
