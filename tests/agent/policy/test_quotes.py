"""Private data in outgoing text (TA-33)."""

import base64
import tracemalloc
from collections.abc import Callable, Iterable
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.policy.quotations import (
    LEAST,
    MAX_TEXT,
    OutgoingText,
    runs_of_words,
    without_origins,
)

# ASCII letters to East Asian full-width letters.
WIDE = {ord(char): ord(char) - 0x21 + 0xFF01 for char in ascii_letters}
NOTES = "Dear diary, my passport has the number C01X00T47 and Zoë's café is closed.\n"


def is_quotation(text: str, private: Iterable[str]) -> bool:
    outgoing = OutgoingText(text)
    return outgoing.is_too_long or any(map(outgoing.find_shared_runs, private))


@pytest.mark.parametrize(
    "text",
    [
        "my passport has",
        "MY  PASSPORT\tHAS\nTHE",
        "mypassporthas",
        "look up 'number C01X00T47'",
        "my pass\u200bport \u202ehas the",
        "my passport has".translate(WIDE),
        "zoe's cafe is closed",
        "Zoe\u0308's cafe\u0301 is closed",
        "m\x00y passport has",
    ],
)
def test_a_quotation_is_found(text: str) -> None:
    assert is_quotation(text, ["something else", NOTES])


@pytest.mark.parametrize(
    "text", ["", "passport", "weather in Berlin", "my passport h", "c01x00t47"]
)
def test_common_and_short_texts_are_no_quotations(text: str) -> None:
    assert not is_quotation(text, ["something else", NOTES, ""])


def test_two_adjacent_words_are_no_quotation() -> None:
    assert not is_quotation("abcdefghijkl", ["abcdef", "ghijkl"])


def test_an_oversized_text_counts_as_a_quotation() -> None:
    assert is_quotation("x" * (MAX_TEXT + 1), [])
    assert not is_quotation("x" * MAX_TEXT, [])
    assert is_quotation("\ufdfa" * (MAX_TEXT // 2), [])  # one character that expands to eighteen


@given(st.text("ab ", max_size=40), st.text("ab ", max_size=40))
def test_the_index_equals_a_full_search(text: str, known: str) -> None:
    plain, held = text.replace(" ", ""), known.replace(" ", "")
    pieces = [plain[at : at + LEAST] for at in range(len(plain) - LEAST + 1)]

    shared = OutgoingText(text).find_shared_runs(known)

    assert shared == {piece for piece in pieces if piece in held}


SECRET = "number C01X00T47 and Zoë's café"


@pytest.mark.parametrize(
    "target",
    [
        "/?q=number%20C01X00T47%20and",
        "/?q=number+C01X00T47+and",
        "/?q=number%2520C01X00T47%2520and",
        "/number-c01x00t47-and.html",
        "/number/C01X00T47/and",
        "/Zo%C3%AB%27s+caf%C3%A9+is+closed",
        f"/x/{base64.b64encode(SECRET.encode()).decode()}",
        f"/x/{base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip('=')}?y",
        f"/?q={SECRET.encode().hex()}",
        f"/?q=a{SECRET.encode().hex()}",
    ],
)
def test_an_address_is_decoded_like_its_receiver(target: str) -> None:
    assert OutgoingText(without_origins(f"https://evil.example{target}")).find_shared_runs(NOTES)


def test_only_subdomains_can_quote() -> None:
    sent = without_origins("https://number.C01X00T47.and.evil.example/")
    assert OutgoingText(sent).find_shared_runs(NOTES)
    sent = without_origins("https://passportoffice.example/")
    assert not OutgoingText(sent).find_shared_runs(
        "see https://passportoffice.example/ for the rest"
    )


def test_only_short_common_words_are_known() -> None:
    text = "The documentation of abcdefghijklmnopqrstuvwxyz, documentation2."
    assert runs_of_words(text) == {"documentatio", "ocumentation"}


def make_hostile_texts(size: int) -> tuple[str, list[str]]:
    return "a" * 2000, ["a" * 11 + "b"] * (size // 12)


def make_combining_marks(size: int) -> tuple[str, list[str]]:
    return "x" * 20, ["\u0301\u0316" * (size // 2)]


@pytest.mark.parametrize("shape", [make_hostile_texts, make_combining_marks])
def test_memory_is_linear_in_the_texts(shape: Callable[[int], tuple[str, list[str]]]) -> None:
    text, private = shape(160_000)
    tracemalloc.start()
    is_quotation(text, private)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 160_000
