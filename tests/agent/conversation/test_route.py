"""The address of an answer, as journals of all versions store it."""

import msgspec
import pytest

from elwood.agent.conversation.route import Route

OLD = [
    (
        '{"channel":"telegram","chat":7,"topic":null,"private":true,"reply_to":null}',
        Route("telegram", "7"),
    ),
    (
        '{"channel":"telegram","chat":-5,"topic":3,"private":false,"reply_to":12}',
        Route("telegram", "-5", "3", private=False, reply_to="12"),
    ),
    (
        '{"channel":"console","chat":0,"topic":123,"private":true,"reply_to":null}',
        Route("console", thread="123"),
    ),
    ('{"channel":"nowhere"}', Route("nowhere")),
]


@pytest.mark.parametrize(("line", "route"), OLD)
def test_integer_routes_of_old_journals_are_read(line: str, route: Route) -> None:
    assert msgspec.json.decode(line, type=Route) == route
    assert msgspec.convert(msgspec.json.decode(line), Route) == route


@pytest.mark.parametrize("route", [route for _, route in OLD])
def test_a_route_survives_a_round_trip(route: Route) -> None:
    line = msgspec.json.encode(route)
    assert msgspec.json.decode(line, type=Route) == route
    assert b'"topic":"' in line  # journals have used this key from the start
