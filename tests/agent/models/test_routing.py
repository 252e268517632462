"""Reactions to failures, by the ids of their rows."""

from typing import get_args

import pytest

from elwood.agent.models.client import should_retry
from elwood.agent.models.routing import FailureKind, Fault, give_up, patience, retry_in, split_name
from elwood.foundation.net.http import retry_after

SAME, OTHER = "a/small", "b/n"


def next_step(
    fault: Fault,
    *,
    rest: tuple[str, ...] = (),
    attempt: int = 1,
    elapsed: float = 0.0,
    jitter: float = 0.0,
) -> float | str:
    """Return the actor's next step: seconds to wait, the next model, or give up."""
    seconds = retry_in(fault, attempt, jitter)
    if seconds is not None and elapsed + seconds <= patience(fault.kind, "a/m", rest):
        return seconds
    given_up = give_up(fault, "a/m", rest)
    return given_up.rest[0] if given_up.rest else "give up"


@pytest.mark.parametrize(
    ("row", "fault", "given", "expected"),
    [
        ("LLM-01", Fault("rate_limit", retry_after=7.0), {}, 7.0),
        ("LLM-01", Fault("rate_limit", retry_after=7.0), {"jitter": 1.0}, 8.85),
        ("LLM-01", Fault("rate_limit", retry_after=600.0), {"elapsed": 301.0}, "give up"),
        ("LLM-01", Fault("rate_limit", retry_after=121.0), {"rest": (SAME,)}, SAME),
        ("LLM-02", "spend_limit", {}, "give up"),
        ("LLM-02", "spend_limit", {"rest": (SAME, OTHER)}, OTHER),
        ("LLM-04", "overloaded", {"attempt": 2}, 1.0),
        ("LLM-04", "overloaded", {"attempt": 5, "jitter": 1.0}, 6.0),
        ("LLM-04", "overloaded", {"attempt": 80}, 8.0),
        ("LLM-01", "rate_limit", {"attempt": 6}, 30.0),
        ("LLM-01", "rate_limit", {"attempt": 8}, 120.0),
        ("LLM-01", "rate_limit", {"attempt": 8, "jitter": 0.5}, 60.0),
        ("LLM-04", Fault("overloaded", retry_after=3.0), {"attempt": 8}, 3.0),
        ("LLM-04", "overloaded", {"attempt": 6, "elapsed": 112.0, "rest": (SAME,)}, 8.0),
        ("LLM-04", "overloaded", {"attempt": 6, "elapsed": 113.0, "rest": (SAME,)}, SAME),
        ("LLM-05", "server", {"attempt": 6, "elapsed": 292.0}, 8.0),
        ("LLM-05", "server", {"attempt": 6, "elapsed": 293.0}, "give up"),
        ("LLM-06", "conflict", {"attempt": 2}, 1.0),
        ("LLM-06", "conflict", {"attempt": 3}, "give up"),
        ("LLM-07", Fault("overloaded", should_retry=False), {}, "give up"),
        ("LLM-07", Fault("server", should_retry=False), {"rest": (SAME,)}, SAME),
        ("LLM-07", Fault("rejected", should_retry=True), {"attempt": 3}, "give up"),
        ("LLM-07", Fault("bad_key", should_retry=True), {}, "give up"),
        ("LLM-08", "offline", {"attempt": 20, "elapsed": 800.0}, 8.0),
        ("LLM-08", "offline", {"attempt": 20, "elapsed": 893.0}, "give up"),
        ("LLM-08", "offline", {"attempt": 6, "elapsed": 113.0, "rest": (SAME, OTHER)}, OTHER),
        ("LLM-10", "cut", {"attempt": 6}, "give up"),
        ("LLM-11", "stalled", {"attempt": 2, "elapsed": 180.0}, 1.0),
        ("LLM-11", "stalled", {"attempt": 3}, "give up"),
        ("LLM-25", "nonsense", {"attempt": 2}, "give up"),
        ("LLM-37", "bad_key", {"rest": (SAME, OTHER)}, OTHER),
        ("LLM-38", "forbidden", {}, "give up"),
        ("LLM-39", "no_model", {"rest": (SAME,)}, SAME),
        ("LLM-39", "no_model", {}, "give up"),
        ("400", "rejected", {}, "give up"),
    ],
)
def test_each_failure_has_its_reaction(
    row: str, fault: Fault | FailureKind, given: dict[str, object], expected: object
) -> None:
    fault = fault if isinstance(fault, Fault) else Fault(fault)
    assert next_step(fault, **given) == pytest.approx(expected), row  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_failure_ends(kind: FailureKind) -> None:
    elapsed, attempt = 0.0, 1
    while isinstance(wait := next_step(Fault(kind), attempt=attempt, elapsed=elapsed), float):
        assert wait >= 0.25
        elapsed, attempt = elapsed + wait, attempt + 1
    assert elapsed <= 900


NOON = "Sat, 21 Nov 2026 12:00:00 GMT"


def test_a_model_name_includes_the_provider() -> None:
    assert split_name("a/b/c") == ("a", "b/c")
    for name in ("", "a", "a/", "/b"):
        with pytest.raises(ValueError, match="provider/model"):
            split_name(name)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, None),  # the clock is unknown
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT", "date": NOON}, 30.0),
        ({"retry-after": "Saturday, 21-Nov-26 12:00:30 GMT", "date": NOON}, 30.0),
        ({"retry-after": "Sat Nov 21 12:00:30 2026", "date": NOON}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT", "date": NOON}, 0.0),
        ({"retry-after": "Sat, 99 Nov 99999 12:00:30 GMT", "date": NOON}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "9" * 1000}, None),
    ],
)
def test_every_form_of_retry_after_is_parsed(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after(headers) == expected


def test_should_retry_is_yes_no_or_missing() -> None:
    words = ["true", "False", "", "maybe"]
    assert [should_retry({"x-should-retry": w}) for w in words] == [True, False, None, None]
