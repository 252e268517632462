"""Retry-After and its relatives."""

import pytest

from elwood.agent.models.client import retry_after, should_retry

DATE = "Sat, 21 Nov 2026 12:00:30 GMT"
AT = 1795262430.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after-ms": "250", "retry-after": "60"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "60"}, 60.0),
        ({"retry-after": DATE}, 20.0),
        ({"retry-after": DATE, "date": "Sat, 21 Nov 2026 12:00:00 GMT"}, 30.0),
        ({"retry-after": DATE, "date": "Sat, 21 Nov 2026 13:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 99 Nov 2026 12:00:30 GMT"}, None),
    ],
)
def test_all_forms_of_retry_after_are_understood(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after(headers, now=AT - 20) == expected


def test_the_servers_word_on_retrying_is_a_yes_a_no_or_nothing() -> None:
    words = ["true", "False", "", "maybe"]
    assert [should_retry({"x-should-retry": w}) for w in words] == [True, False, None, None]
