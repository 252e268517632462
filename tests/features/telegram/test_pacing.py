from hypothesis import given
from hypothesis import strategies as st

from elwood.features.telegram.pacing import Pacing, per_second


@given(st.integers(1, 1000))
def test_no_second_exceeds_the_limit_not_even_the_first(most: int) -> None:
    bucket, now, sent = per_second(most), 5.0, list[float]()
    while now < 7.0:
        now += bucket.delay(now)
        bucket = bucket.spend(now)
        sent.append(now)
    for start in sent:
        assert sum(start <= at < start + 0.999 for at in sent) <= most


def test_the_vendors_limits() -> None:
    """30 a second to all, one a second to a chat, 20 a minute to a group; also for drafts."""
    pacing = Pacing()
    total = per_second(pacing.total)
    assert total.size + total.rate == 30.0
    assert pacing.chat.rate == 1.0
    for bucket, seconds, most in (
        (pacing.group, 60, 20), (pacing.previews, 5, 20), (pacing.previews, 30, 40),
    ):  # fmt: skip
        assert bucket.size + seconds * bucket.rate <= most
