"""What bounds a task that is made in a conversation."""

from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.task_run import Purse, TaskRun
from elwood.features.tasks.bounds import Bounds, Reach, bounded

NAMES = ("read_file", "schedule", "shell", "web_search")
names = st.lists(st.sampled_from((*NAMES, "fly")), max_size=5).map(tuple)
dollars = st.none() | st.floats(allow_nan=True, allow_infinity=True)
tokens = st.none() | st.integers(-5, 10**7)
limits = st.builds(
    Purse, tokens=st.none() | st.integers(0, 10**7), usd=st.none() | st.floats(0, 100)
)
errands = st.builds(TaskRun, job=st.just("t"), tools=st.none() | names, purse=st.none() | limits)


def fits(amount: float | None, most: float | None) -> bool:
    return most is None or (amount is not None and amount <= most)


@given(st.none() | errands, limits, st.none() | names, dollars, tokens)
def test_no_task_gets_more_than_its_conversation_has(
    errand: TaskRun | None,
    usual: Purse,
    wanted: tuple[str, ...] | None,
    usd: float | None,
    many: int | None,
) -> None:
    """Nor does a task that its runs make, and so on."""
    reach = Reach(NAMES, usual, errand)
    bounds = bounded(reach, tools=wanted, usd=usd, tokens=many)
    if isinstance(bounds, str):
        return
    made = Reach(NAMES, usual, TaskRun("made", tools=bounds.tools, purse=bounds.purse))
    assert set(made.usable) <= set(reach.usable)
    assert fits(made.purse.usd, reach.purse.usd)
    assert fits(made.purse.tokens, reach.purse.tokens)
    if usd is not None:
        assert bounds.purse is not None
        assert bounds.purse.usd == usd
    if wanted is not None:
        assert set(made.usable) == set(wanted)


def test_what_is_left_open_is_as_usual() -> None:
    reach = Reach(NAMES, Purse(2000, 1.0))
    assert bounded(reach, tools=None, usd=None, tokens=None) == Bounds()
    # Limits that are set otherwise later hold for it as well.
    part = Bounds(purse=Purse(usd=0.5))
    assert bounded(reach, tools=None, usd=0.5, tokens=None) == part
    run = Reach(NAMES, Purse(2000, 1.0), TaskRun("t", purse=Purse(usd=0.5)))
    assert bounded(run, tools=None, usd=None, tokens=None) == part


def test_a_job_may_be_left_without_tools() -> None:
    assert bounded(Reach(NAMES), tools=(), usd=None, tokens=None) == Bounds(tools=())


def test_where_no_limit_is_set_any_purse_is_a_bound() -> None:
    assert bounded(Reach(), tools=None, usd=50.0, tokens=None) == Bounds(purse=Purse(None, 50.0))
