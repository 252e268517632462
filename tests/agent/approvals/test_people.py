from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.approvals.people import (
    CODE_LASTS,
    MAX_DENIED,
    MAX_OPEN,
    AccessDecided,
    AccessRequested,
    People,
    PeopleEntry,
    access_button,
    access_pressed,
)
from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import CODE_ALPHABET

ROUTE = Route("telegram", 7)
CODES = st.text(CODE_ALPHABET, min_size=8, max_size=8)


def asked(code: str, principal: str = "tg:7") -> AccessRequested:
    return AccessRequested(code, principal, "Eve", ROUTE)


@given(CODES, st.sampled_from(["y", "n"]))
def test_a_button_reads_back_as_it_was_written(code: str, verdict: str) -> None:
    data = access_button(code, "y" if verdict == "y" else "n")
    assert len(data.encode()) <= 64
    assert access_pressed(data) == (code, verdict == "y")


@given(st.text(max_size=64))
def test_any_button_can_be_read(data: str) -> None:
    found = access_pressed(data)
    assert found is None or data.startswith("p:")


def test_the_alphabet_has_no_characters_taken_for_one_another() -> None:
    assert not set("01OIL") & set(CODE_ALPHABET)


ENTRIES = st.lists(
    st.one_of(
        st.builds(asked, st.sampled_from(["A", "B", "C"]), st.sampled_from(["tg:7", "tg:8"])),
        st.builds(AccessDecided, st.sampled_from(["A", "B", "C"]), st.booleans(), st.just("tg:1")),
    ),
    max_size=20,
)


@given(ENTRIES, st.lists(st.floats(0, 2 * CODE_LASTS), min_size=20, max_size=20))
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
    for number in range(MAX_OPEN):
        people.apply(0.0, asked(str(number), f"tg:{number}"))
    assert not people.may_ask("tg:new", 1.0)
    assert people.may_ask("tg:new", CODE_LASTS)
    people.apply(CODE_LASTS, asked("new"))
    assert list(people.requests) == ["new"]
