"""The arithmetic of restarting: types, intensity, delay."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.runtime import Again, Finished, GaveUp, RestartPolicy, after_exit

Mode = Literal["permanent", "transient", "temporary"]
MODES: tuple[Mode, ...] = ("permanent", "transient", "temporary")

policies = st.builds(
    RestartPolicy,
    mode=st.sampled_from(MODES),
    first_delay=st.floats(0, 100),
    max_delay=st.floats(0, 1000),
    max_crashes=st.none() | st.integers(0, 200),
    within=st.floats(0.001, 10_000),
    exhausted=st.sampled_from(["escalate", "drop"]),
)
steps = st.lists(st.floats(0, 1000), min_size=1, max_size=300)


def live(policy: RestartPolicy, waits: list[float]) -> list[Again | Finished | GaveUp]:
    """Crash after each of *waits* (seconds from the crash before), until it is over."""
    now = 0.0
    crashes: tuple[float, ...] = ()
    verdicts: list[Again | Finished | GaveUp] = []
    for wait in waits:
        now += wait
        verdict = after_exit(policy, crashes, now, True)
        verdicts.append(verdict)
        if not isinstance(verdict, Again):
            break
        crashes = verdict.crashes
    return verdicts


@given(policies, steps)
def test_the_delay_is_within_its_bounds_and_the_memory_too(
    policy: RestartPolicy, waits: list[float]
) -> None:
    for verdict in live(policy, waits):
        if isinstance(verdict, Again):
            assert 0 <= verdict.delay <= policy.max_delay
            assert len(verdict.crashes) <= max(64, policy.max_crashes or 0)


@given(policies, st.integers(1, 200))
def test_in_a_row_of_crashes_the_delay_only_grows_up_to_its_maximum(
    policy: RestartPolicy, times: int
) -> None:
    delays = [v.delay for v in live(policy, [0.0] * times) if isinstance(v, Again)]
    assert delays == sorted(delays)
    if len(delays) > 40 and policy.first_delay > 1e-6:
        assert delays[-1] == policy.max_delay


@given(policies, steps)
def test_without_an_intensity_it_never_gives_up(policy: RestartPolicy, waits: list[float]) -> None:
    endless = RestartPolicy(mode="permanent", max_crashes=None, within=policy.within)
    assert all(isinstance(v, Again) for v in live(endless, waits))


@given(policies, steps)
def test_it_gives_up_exactly_when_more_than_the_limit_fell_within_the_time(
    policy: RestartPolicy, waits: list[float]
) -> None:
    if policy.mode == "temporary" or policy.max_crashes is None:
        return
    now, times = 0.0, list[float]()
    for wait, verdict in zip(waits, live(policy, waits), strict=False):
        now += wait
        times.append(now)
        counting = [at for at in times[:-1] if now - at < policy.within] + [now]
        assert isinstance(verdict, GaveUp) == (len(counting) > policy.max_crashes)


@given(policies, steps)
def test_a_quiet_time_forgets_old_crashes(policy: RestartPolicy, waits: list[float]) -> None:
    verdict = live(policy, waits)[-1]
    if isinstance(verdict, Again):
        later = verdict.crashes[-1] + 2 * policy.within
        fresh = after_exit(policy, (), later, True)
        assert after_exit(policy, verdict.crashes, later, True) == fresh


@given(policies, st.booleans())
def test_exhaustion_says_what_the_policy_says(policy: RestartPolicy, crashed: bool) -> None:
    verdict = after_exit(policy, (1.0,) * 300, 1.0, crashed)
    if isinstance(verdict, GaveUp):
        assert verdict.escalate == (policy.exhausted == "escalate")


@pytest.mark.parametrize("limit", [65, 100, 1000])
def test_a_generous_intensity_is_still_an_end(limit: int) -> None:
    verdicts = live(RestartPolicy(max_crashes=limit), [0.0] * (limit + 1))
    assert verdicts[-1] == GaveUp(escalate=True)
    assert len(verdicts) == limit + 1


def test_delays_double_from_half_a_second_to_a_minute() -> None:
    verdicts = live(RestartPolicy(max_crashes=None), [0.0] * 9)
    delays = [v.delay for v in verdicts if isinstance(v, Again)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
