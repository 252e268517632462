import base64
import json
import pickle
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.secrets.redaction import MASK, Secret, redact

AWKWARD = 'pa"ss/wörd\\+ &x'
values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40)
around = st.text(string.ascii_lowercase + " ", max_size=30)


def test_a_secret_is_shown_only_on_request() -> None:
    secret = Secret("hunter2")
    assert f"{secret} {secret!r} {secret!s} %s" % secret == "*** *** *** ***"
    assert str([secret]) == "[***]"
    assert secret.reveal() == "hunter2"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_cannot_be_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret("hunter2"), protocol)


@pytest.mark.parametrize(
    "spelled",
    [
        AWKWARD,
        json.dumps(AWKWARD)[1:-1],
        json.dumps(AWKWARD, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(AWKWARD))[3:-3],
        json.dumps(AWKWARD)[1:-1].replace("/", "\\/"),
        AWKWARD.replace("s", "\\x73"),
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote(AWKWARD, safe="").replace("%C3", "%c3").replace("%B6", "%b6").replace("%2B", "%2b")
        .replace("%2F", "%2f").replace("%5C", "%5c"),
        base64.b64encode(AWKWARD.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(AWKWARD.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_a_known_value_is_found_in_each_encoding(spelled: str) -> None:
    redacted = redact(f"before {spelled} after", [Secret(AWKWARD)])
    assert redacted.startswith("before ***")
    assert redacted.endswith(" after")
    assert len(redacted) <= len("before ***== after")


@given(value=values, before=around, after=around)
def test_a_known_value_is_found_at_every_base64_alignment(
    value: str, before: str, after: str
) -> None:
    secret = value.encode()
    encoded = base64.b64encode(before.encode() + secret + after.encode()).decode()
    assert MASK in redact(encoded, [Secret(value)])


@given(value=values, before=around, after=around)
def test_a_known_value_never_passes(value: str, before: str, after: str) -> None:
    line = json.dumps({"event": before + value + after})
    redacted = redact(line, [Secret(value)])
    assert json.dumps(value)[1:-1] not in redacted.replace(MASK, "")
    assert isinstance(json.loads(redact(json.dumps({"e": "a" + value}), [Secret(value)])), dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcdefgh", "***"),  # two that overlap leave no part of either
        ("xabcdex", "x***x"),
        ("xefghx", "x***x"),
        ("abcdeefgh", "******"),
        ("abcd", "abcd"),
    ],
)
def test_overlapping_secrets_leave_nothing(text: str, expected: str) -> None:
    secrets = [Secret("abcdef"), Secret("defgh"), Secret("abcde"), Secret("efgh")]
    assert redact(text, secrets) == expected


def test_self_overlapping_copies_leave_nothing() -> None:
    assert redact("abababa b", [Secret("ababa")]) == "*** b"


@pytest.mark.parametrize("value", ["", "a", "abc"])
def test_short_values_are_not_redacted(value: str) -> None:
    assert redact("abc and a cab", [Secret(value)]) == "abc and a cab"
