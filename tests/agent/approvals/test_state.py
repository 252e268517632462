"""The fold of people, questions and permissions."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.approvals.state import (
    CODE_LASTS,
    GIST,
    MAX_DENIED,
    MAX_KEPT,
    MAX_OPEN_CODES,
    AccessDecided,
    AccessRequested,
    ApprovalBook,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalState,
    DomainTrusted,
    People,
    PeopleEntry,
    PermissionEntry,
    PermissionRevoked,
    Question,
)
from elwood.agent.conversation.calls import Ruling
from elwood.agent.conversation.route import Route

ROUTE = Route("telegram", 7)
RULINGS: tuple[Ruling, ...] = (
    "once",
    "conversation",
    "always",
    "source",
    "standing",
    "denied",
    "expired",
    "withdrawn",
)


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
        host=more.get("host"),
    )


def sought(id: str, **more: str) -> ApprovalRequested:
    return ApprovalRequested(id, f"C{id}", question(f"call {id}", **more), 300.0)


IDS = st.sampled_from(["a", "b", "c"])
ENTRIES = st.lists(
    st.one_of(
        st.builds(sought, IDS),
        st.builds(
            ApprovalDecided,
            IDS,
            st.sampled_from(RULINGS),
            st.just("tg:1"),
            st.just(""),
            st.integers(0, 4),
            st.just(50.0),
        ),
        st.builds(
            DomainTrusted, st.integers(1, 4), st.just("example.org"), st.just("tg:1"), st.just(9.0)
        ),
        st.builds(PermissionRevoked, st.integers(0, 4), st.just("tg:1")),
    ),
    max_size=25,
)


@given(ENTRIES)
def test_the_first_decision_about_a_question_stands(entries: list[PermissionEntry]) -> None:
    """In whatever order answers and expiry come (AP-05)."""
    calls, first = ApprovalState(), dict[str, Ruling | None]()
    for seq, entry in enumerate(entries):
        if isinstance(entry, ApprovalRequested) and entry.id in first:
            continue  # ids are random: none comes twice
        calls.apply(float(seq), entry)
        if isinstance(entry, ApprovalRequested):
            first[entry.id] = None
        elif isinstance(entry, ApprovalDecided) and entry.id in first and first[entry.id] is None:
            first[entry.id] = entry.ruling
        assert {one.id: one.ruling for one in calls.requests.values()} == first


@given(ENTRIES)
def test_a_permission_stands_for_a_yes_and_its_time_only(entries: list[PermissionEntry]) -> None:
    calls = ApprovalState()
    for seq, entry in enumerate(entries):
        calls.apply(float(seq), entry)
    now = float(len(entries))
    for permission in calls.standing(now):
        assert now - permission.at < permission.lasts
        given_by = entries[int(permission.at)]
        assert isinstance(given_by, DomainTrusted) or (
            isinstance(given_by, ApprovalDecided) and given_by.ruling in ("conversation", "always")
        )
    assert not calls.standing(now + 50.0)
    assert not calls.standing(now - 1000.0)  # a clock set back far


@given(ENTRIES)
def test_the_fold_survives_a_snapshot(entries: list[PermissionEntry]) -> None:
    book = ApprovalBook()
    for seq, entry in enumerate(entries):
        book.apply(seq, float(seq), entry)
    assert msgspec.json.decode(msgspec.json.encode(book), type=ApprovalBook) == book


def test_what_is_remembered_is_bounded() -> None:
    calls = ApprovalState()
    calls.apply(0.0, sought("open"))
    for number in range(MAX_KEPT + 10):
        calls.apply(0.0, sought(str(number)))
        calls.apply(0.0, ApprovalDecided(str(number), "once", "tg:1", ""))
    assert len(calls.requests) == MAX_KEPT + 1
    assert [one.id for one in calls.open()] == ["open"]
    assert len(calls.requests["100"].question.subject) == GIST
    assert len(calls.requests["open"].question.subject) == 1000


# --- people --------------------------------------------------------------------------------------


def asked(code: str, principal: str = "tg:7") -> AccessRequested:
    return AccessRequested(code, principal, "Eve", ROUTE)


PEOPLE = st.lists(
    st.one_of(
        st.builds(asked, st.sampled_from(["A", "B", "C"]), st.sampled_from(["tg:7", "tg:8"])),
        st.builds(AccessDecided, st.sampled_from(["A", "B", "C"]), st.booleans(), st.just("tg:1")),
    ),
    max_size=20,
)


@given(PEOPLE, st.lists(st.floats(0, 2 * CODE_LASTS), min_size=20, max_size=20))
def test_nobody_is_known_who_was_not_approved(
    entries: list[PeopleEntry], gaps: list[float]
) -> None:
    people, now = People(), 0.0
    approvals = 0
    for entry, gap in zip(entries, gaps, strict=False):
        now += gap
        people.apply(now, entry)
        approvals += isinstance(entry, AccessDecided) and entry.approved
    assert len(people.known) <= approvals
    assert all(people.find(request.code, now) for request in people.open(now))


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
