"""The fold of questions and permissions."""

import msgspec

from elwood.agent.approvals.state import (
    GIST,
    MAX_KEPT,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
    ApprovalState,
    Question,
)
from elwood.agent.conversation.calls import ApprovalScope
from elwood.agent.conversation.route import Route

ROUTE = Route("telegram", "7")


def question(call: str, session: str = "s", **more: str) -> Question:
    return Question(
        session=session,
        call=call,
        tool="run",
        plan=more.get("plan", f"plan {call}"),
        exact=more.get("exact", f"exact {call}"),
        subject="x" * 1000,
        why="",
        route=ROUTE,
        principal="tg:7",
        offered=("conversation", "always"),
    )


def make_request(id: str, **more: str) -> ApprovalRequested:
    return ApprovalRequested(id, f"C{id}", question(f"call {id}", **more), 300.0)


def test_the_state_is_bounded() -> None:
    calls = ApprovalState()
    calls.apply(0.0, make_request("open"))
    for number in range(MAX_KEPT + 10):
        calls.apply(0.0, make_request(str(number)))
        calls.apply(0.0, ApprovalDecided(str(number), "once", "tg:1", ""))
    assert len(calls.requests) == MAX_KEPT + 1
    assert [one.id for one in calls.open()] == ["open"]
    assert len(calls.requests["100"].question.subject) == GIST + 1  # an ellipsis
    assert len(calls.requests["open"].question.subject) == 1000


def test_an_old_permission_covers_the_exact_call() -> None:
    """The old question had no scope; a question about the same call has one today."""
    entry = msgspec.json.encode(make_request("1"))
    assert b'"scope":null' in entry
    old = msgspec.json.decode(entry.replace(b',"scope":null', b""), type=ApprovalEntry)
    assert isinstance(old, ApprovalRequested)
    calls = ApprovalState()
    calls.apply(0.0, old)
    calls.apply(0.0, ApprovalDecided("1", "always", "tg:1", "", 1, 100.0))
    scope = ApprovalScope(("key",), "words", "all")
    today = msgspec.structs.replace(question("call 1"), scope=scope)
    other = msgspec.structs.replace(question("call 2"), scope=scope)
    assert calls.find_permission(today, 1.0) is not None
    assert calls.find_permission(other, 1.0) is None
