"""The arithmetic of restarting: intensity and delay."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.runtime import Again, RestartPolicy, after_crash

policies = st.builds(
    RestartPolicy,
    first_delay=st.floats(0, 100),
    max_delay=st.floats(0, 1000),
    max_crashes=st.none() | st.integers(0, 200),
    within=st.floats(0.001, 10_000),
)
steps = st.lists(st.floats(0, 1000), min_size=1, max_size=300)


def live(policy: RestartPolicy, waits: list[float]) -> Iterator[tuple[float, Again | None]]:
    """Crash after each of *waits* (seconds from the crash before), until it is over."""
    now = 0.0
    crashes: tuple[float, ...] = ()
    for wait in waits:
        now += wait
        again = after_crash(policy, crashes, now)
        yield now, again
        if again is None:
            break
        crashes = again.crashes


@given(policies, steps)
def test_it_gives_up_exactly_when_more_than_the_limit_fell_within_the_time(
    policy: RestartPolicy, waits: list[float]
) -> None:
    times = list[float]()
    for now, again in live(policy, waits):
        times.append(now)
        counting = [at for at in times[:-1] if now - at < policy.within] + [now]
        limit = policy.max_crashes
        assert (again is None) == (limit is not None and len(counting) > limit)
        if again is not None:
            assert again.crashes == tuple(counting)
            assert 0 <= again.delay <= policy.max_delay


def test_delays_double_from_half_a_second_to_a_minute() -> None:
    found = live(RestartPolicy(max_crashes=None), [0.0] * 2000)
    delays = [again.delay for _, again in found if again is not None]
    assert delays[:9] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert delays[-1] == 60
