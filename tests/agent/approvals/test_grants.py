from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.approvals.grants import (
    CODE_ALPHABET,
    CODE_LASTS,
    MAX_DENIED,
    MAX_OPEN,
    Answered,
    Asked,
    GrantEntry,
    Grants,
    button,
    pressed,
)
from elwood.agent.conversation.route import Route

ROUTE = Route("telegram", 7)
CODES = st.text(CODE_ALPHABET, min_size=8, max_size=8)


def asked(code: str, principal: str = "tg:7") -> Asked:
    return Asked(code, principal, "Eve", ROUTE)


@given(CODES, st.sampled_from(["y", "n"]))
def test_a_button_reads_back_as_it_was_written(code: str, verdict: str) -> None:
    data = button(code, "y" if verdict == "y" else "n")
    assert len(data.encode()) <= 64
    assert pressed(data) == (code, verdict == "y")


@given(st.text(max_size=64))
def test_any_button_can_be_read(data: str) -> None:
    found = pressed(data)
    assert found is None or data.startswith("p:")


def test_the_alphabet_has_no_characters_taken_for_one_another() -> None:
    assert not set("01OIL") & set(CODE_ALPHABET)


ENTRIES = st.lists(
    st.one_of(
        st.builds(asked, st.sampled_from(["A", "B", "C"]), st.sampled_from(["tg:7", "tg:8"])),
        st.builds(Answered, st.sampled_from(["A", "B", "C"]), st.booleans(), st.just("tg:1")),
    ),
    max_size=20,
)


@given(ENTRIES, st.lists(st.floats(0, 2 * CODE_LASTS), min_size=20, max_size=20))
def test_nobody_is_known_who_was_not_approved(entries: list[GrantEntry], gaps: list[float]) -> None:
    grants, now = Grants(), 0.0
    approvals = 0
    for seq, (entry, gap) in enumerate(zip(entries, gaps, strict=False)):
        now += gap
        grants.apply(seq, now, entry)
        approvals += isinstance(entry, Answered) and entry.approved
    assert len(grants.known) <= approvals
    assert all(grants.find(request.code, now) for request in grants.open(now))


def test_strangers_cannot_fill_the_memory() -> None:
    grants = Grants()
    for number in range(MAX_DENIED + 50):
        grants.apply(0, 0.0, asked(str(number), f"tg:{number}"))
        grants.apply(0, 0.0, Answered(str(number), False, "tg:1"))
    assert len(grants.denied) == MAX_DENIED
    for number in range(MAX_OPEN):
        grants.apply(0, 0.0, asked(str(number), f"tg:{number}"))
    assert not grants.may_ask("tg:new", 1.0)
    assert grants.may_ask("tg:new", CODE_LASTS)
    grants.apply(0, CODE_LASTS, asked("new"))
    assert list(grants.requests) == ["new"]
