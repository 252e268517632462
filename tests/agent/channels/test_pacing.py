from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.channels.pacing import Budget, Pacing, Window

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
    for window in windows:
        for index, at in enumerate(sent):
            within = [t for t in sent[index:] if t - at < window.seconds - 1e-3]
            assert len(within) <= window.limit


@given(WINDOWS, st.lists(st.floats(0.0, 1.0), max_size=200))
def test_a_budget_forgets_what_no_window_sees(
    windows: tuple[Window, ...], gaps: list[float]
) -> None:
    budget, now = Budget(windows), 0.0
    for gap in gaps:
        now += gap
        budget = budget.spend(now)
    horizon = max(window.seconds for window in windows)
    assert all(now - at < horizon or at == now for at in budget.times)


def test_room_can_be_left_for_others() -> None:
    half = Budget((Window(4, 1.0),), (0.0, 0.1))
    assert half.delay(0.2) == 0.0
    assert half.delay(0.2, leave=2) == 0.8
    assert Budget((Window(1, 1.0),)).delay(0.0, leave=5) == 0.0


def test_the_vendors_figures() -> None:
    pacing = Pacing()
    assert Window(20, 60.0) in pacing.group
    assert pacing.previews == (Window(20, 5.0), Window(40, 30.0))
