"""The fold of people, questions and permissions."""

import msgspec

from elwood.agent.approvals.state import (
    CODE_LASTS,
    GIST,
    MAX_BROUGHT,
    MAX_DENIED,
    MAX_KEPT,
    MAX_OPEN_CODES,
    MAX_OPEN_GROUPS,
    AccessDecided,
    AccessRequested,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
    ApprovalState,
    People,
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


def sought(id: str, **more: str) -> ApprovalRequested:
    return ApprovalRequested(id, f"C{id}", question(f"call {id}", **more), 300.0)


def test_what_is_remembered_is_bounded() -> None:
    calls = ApprovalState()
    calls.apply(0.0, sought("open"))
    for number in range(MAX_KEPT + 10):
        calls.apply(0.0, sought(str(number)))
        calls.apply(0.0, ApprovalDecided(str(number), "once", "tg:1", ""))
    assert len(calls.requests) == MAX_KEPT + 1
    assert [one.id for one in calls.open()] == ["open"]
    assert len(calls.requests["100"].question.subject) == GIST + 1  # an ellipsis
    assert len(calls.requests["open"].question.subject) == 1000


def test_a_permission_of_an_older_journal_covers_the_exact_thing_as_it_did() -> None:
    """Its question had no scope; that of the same call has one today."""
    entry = msgspec.json.encode(sought("1"))
    assert b'"scope":null' in entry
    old = msgspec.json.decode(entry.replace(b',"scope":null', b""), type=ApprovalEntry)
    assert isinstance(old, ApprovalRequested)
    calls = ApprovalState()
    calls.apply(0.0, old)
    calls.apply(0.0, ApprovalDecided("1", "always", "tg:1", "", 1, 100.0))
    scope = ApprovalScope(("key",), "words", "all")
    today = msgspec.structs.replace(question("call 1"), scope=scope)
    other = msgspec.structs.replace(question("call 2"), scope=scope)
    assert calls.covering(today, 1.0) is not None
    assert calls.covering(other, 1.0) is None


# --- people --------------------------------------------------------------------------------------


def asked(code: str, principal: str = "tg:7") -> AccessRequested:
    return AccessRequested(code, principal, "Eve", ROUTE)


def test_strangers_cannot_fill_the_memory() -> None:
    people = People()
    for number in range(MAX_DENIED + 50):
        people.apply(0.0, asked(str(number), f"tg:{number}"))
        people.apply(0.0, AccessDecided(str(number), False, "tg:1"))
    assert len(people.denied) == MAX_DENIED
    for number in range(MAX_OPEN_CODES + 1):
        people.apply(0.0, asked(str(number), f"tg:{number}"))
    assert len(people.requests) == MAX_OPEN_CODES
    assert people.may_ask("tg:0", 1.0), "its code has lapsed"
    assert not people.may_ask("tg:1", 1.0)
    people.apply(CODE_LASTS, asked("new"))
    assert list(people.requests) == ["new"]


def test_groups_take_no_place_of_people_and_one_person_brings_us_into_few() -> None:
    people = People()
    people.apply(0.0, asked("mine"))
    for number in range(MAX_OPEN_GROUPS + 1):
        by = f"Eve {number} (tg:{8 if number < MAX_BROUGHT else number + 100})"
        people.apply(0.0, AccessRequested(str(number), f"tg:-{number}", "Fun", ROUTE, by))
        if number == MAX_BROUGHT:
            assert not people.may_ask("tg:-999", 1.0, by="tg:8")
            assert people.may_ask("tg:-999", 1.0, by="tg:8", insists=True)
            assert people.may_ask("tg:-999", 1.0, by="tg:103")
    assert len(people.requests) == MAX_OPEN_GROUPS + 1
    assert "mine" in people.requests
    assert "0" not in people.requests, "the oldest group has lapsed"
