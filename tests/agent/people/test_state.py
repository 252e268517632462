"""The fold of people has bounds."""

from elwood.agent.conversation.route import Route
from elwood.agent.people.state import (
    CODE_LASTS,
    MAX_BROUGHT,
    MAX_DENIED,
    MAX_OPEN_CODES,
    MAX_OPEN_GROUPS,
    AccessDecided,
    AccessRequested,
    People,
)

ROUTE = Route("telegram", "7")


def make_request(code: str, principal: str = "tg:7") -> AccessRequested:
    return AccessRequested(code, principal, "Eve", ROUTE)


def test_strangers_cannot_fill_the_memory() -> None:
    people = People()
    for number in range(MAX_DENIED + 50):
        people.apply(0.0, make_request(str(number), f"tg:{number}"))
        people.apply(0.0, AccessDecided(str(number), False, "tg:1"))
    assert len(people.denied) == MAX_DENIED
    for number in range(MAX_OPEN_CODES):
        assert people.may_ask(f"tg:{2000 + number}", 0.0)
        people.apply(0.0, make_request(str(number), f"tg:{2000 + number}"))
    assert not people.may_ask("tg:5000", CODE_LASTS - 1)
    assert people.may_ask("tg:-5000", 0.0, by="tg:5000"), "groups are counted by themselves"
    assert people.may_ask("tg:5000", CODE_LASTS)
    people.apply(CODE_LASTS, make_request("new"))
    assert list(people.requests) == ["new"]


def test_groups_and_people_have_separate_limits() -> None:
    people = People()
    people.apply(0.0, make_request("mine"))
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
