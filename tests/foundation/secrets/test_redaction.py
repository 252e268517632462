import base64
import copy
import json
import pickle
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.secrets.redaction import MASK, Secret, redact

# Put together here, so that no file of ours holds anything that looks like a token.
URLSAFE = (string.ascii_letters + string.digits + "_-") * 3
TELEGRAM = "7123456789" + ":A" + "A" + URLSAFE[:33]
ANTHROPIC = "sk" + "-ant-" + "api03-" + URLSAFE[:93] + "AA"
OPENAI = "sk" + "-proj-" + URLSAFE[:74] + "7" + URLSAFE[:74]
AWKWARD = 'pa"ss/wörd\\+ &x'
values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40)
around = st.text(string.ascii_lowercase + " ", max_size=30)


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter2")
    assert f"{secret} {secret!r} {secret!s} %s" % secret == "*** *** *** ***"
    assert str([secret]) == "[***]"
    assert secret.reveal() == "hunter2"


def test_secrets_are_equal_by_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret("hunter2"), protocol)


def test_a_secret_is_not_copied() -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(Secret("hunter2"))


@pytest.mark.parametrize(
    "spelled",
    [
        AWKWARD,
        json.dumps(AWKWARD)[1:-1],
        json.dumps(AWKWARD, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(AWKWARD))[3:-3],
        json.dumps(AWKWARD)[1:-1].replace("/", "\\/"),
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote(AWKWARD, safe="").replace("%C3", "%c3").replace("%B6", "%b6").replace("%2B", "%2b")
        .replace("%2F", "%2f").replace("%5C", "%5c"),
        base64.b64encode(AWKWARD.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(AWKWARD.encode()).decode().rstrip("="),
    ],
)  # fmt: skip
def test_a_known_value_is_found_in_each_spelling(spelled: str) -> None:
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
def test_a_known_value_never_comes_through(value: str, before: str, after: str) -> None:
    line = json.dumps({"event": before + value + after})
    redacted = redact(line, [Secret(value)])
    assert json.dumps(value)[1:-1] not in redacted.replace(MASK, "")
    assert isinstance(json.loads(redact(json.dumps({"e": "a" + value}), [Secret(value)])), dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcdefgh", "***"),  # two that overlap leave nothing of either
        ("xabcdex", "x***x"),
        ("xefghx", "x***x"),
        ("abcdeefgh", "******"),
        ("abcd", "abcd"),
    ],
)
def test_overlapping_secrets_leave_nothing(text: str, expected: str) -> None:
    secrets = [Secret("abcdef"), Secret("defgh"), Secret("abcde"), Secret("efgh")]
    assert redact(text, secrets) == expected


def test_copies_that_overlap_themselves_leave_nothing() -> None:
    assert redact("abababa b", [Secret("ababa")]) == "*** b"


@pytest.mark.parametrize("value", ["", "a", "abc"])
def test_values_too_short_to_be_secret_do_no_damage(value: str) -> None:
    assert redact("abc and a cab", [Secret(value)]) == "abc and a cab"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"https://api.telegram.org/bot{TELEGRAM}/getMe", "https://api.telegram.org/bot***/getMe"),
        (f"x-api-key: {ANTHROPIC}", "x-api-key: ***"),
        (f"({OPENAI})", "(***)"),
        ("authorization: bearer q8Zr1vX0c2N4m6B8", "authorization: bearer ***"),
    ],
)
def test_tokens_are_known_by_their_form(text: str, expected: str) -> None:
    assert redact(text, []) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-api03-...",
        "Authorization: Bearer <token>",
        "Bearer token missing",
        "task-ant-api03-runner",
        "risk-proj-2026-final-report-version-two-with-appendix",
        "disk-ant-mount-error-unrecoverable-sector-reallocation",
        "sk-learn-pipelines-are-not-keys",
        "toolu_01A09q90qw90lq917835lq9",
        "at 1712345678:30 of 2026-11-21T10:00:00",
        "commit 50bd291d1e4f6a7b8c9d0e1f2a3b4c5d6e7f8a9b",
    ],
)
def test_harmless_texts_stay_as_they_are(text: str) -> None:
    assert redact(text, [Secret("hunter2")]) == text
