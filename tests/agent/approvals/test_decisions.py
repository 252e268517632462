"""Decisions about a call from the recorded state: pure functions."""

from elwood.agent.approvals.decisions import find_decision, look_up
from elwood.agent.approvals.messages import Pending, Verdict
from elwood.agent.approvals.state import ApprovalDecided, ApprovalState
from tests.agent.approvals.test_state import make_request, question

# The timeout of `make_request`, in seconds.
LASTS = 300.0


def make_state(*entries: ApprovalDecided) -> ApprovalState:
    """Return the state after a question at time 0 and *entries* at time 1."""
    made = ApprovalState()
    made.apply(0.0, make_request("1"))
    for entry in entries:
        made.apply(1.0, entry)
    return made


def test_an_expired_question_is_closed_by_the_next_request() -> None:
    """A request may arrive before the timer has closed the question."""
    asked = question("call 1")
    assert find_decision(make_state(), asked, LASTS - 1).answer == Pending()
    over = find_decision(make_state(), asked, LASTS)
    assert over.answer == Verdict("expired", "")
    assert over.entries == (ApprovalDecided("1", "expired", "", "plan call 1"),)


def test_a_changed_call_closes_its_question() -> None:
    changed = question("call 1", plan="another")
    for now, ruling in ((1.0, "withdrawn"), (LASTS, "expired")):
        step = find_decision(make_state(), changed, now)
        assert step.answer is None
        assert [entry.ruling for entry in step.entries if isinstance(entry, ApprovalDecided)] == [
            ruling
        ]


def test_only_the_shown_plan_is_looked_up() -> None:
    yes = ApprovalDecided("1", "once", "tg:1", "plan call 1")
    for plan, found in (
        ("plan call 1", Verdict("once", "tg:1")),
        ("other", Verdict("expired", "")),
    ):
        assert look_up(make_state(yes), "s", "call 1", plan, 2.0) == found
    assert look_up(make_state(), "s", "call 1", "plan call 1", 2.0) == Pending()
    assert look_up(make_state(), "s", "call 1", "plan call 1", LASTS) == Verdict("expired", "")
    assert look_up(make_state(), "s", "never asked", "plan call 1", 2.0) == Verdict("expired", "")
