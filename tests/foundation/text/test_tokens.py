"""Estimates of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.text.tokens import estimate, fit

PROSE = "The quick brown fox jumps over the lazy dog, and no one knows why it did that. "
LOG = "2026-11-21T10:00:01Z INFO server started port=8080 pid=4711\n"
JSON = '{"id": "a1", "value": 12.5, "names": ["x", "y"]}\n'
CODE = "def f(x: int) -> int:\n    return x + 1\n"
HEX = "deadbeef01234567" * 8
CHINESE = "今天天气很好"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [  # characters per token of tokenizers from 2024 to 2026 for such text
        (PROSE * 20, 3.9, 5.2),
        (LOG * 20, 2.4, 3.6),
        (JSON * 20, 1.7, 2.4),
        (CODE * 20, 2.3, 3.3),
        (HEX, 1.5, 1.9),
        (CHINESE * 20, 1.0, 1.5),
        ("🎉" * 20, 0.5, 1.0),
    ],
    ids=["prose", "log", "json", "code", "hex", "chinese", "emoji"],
)
def test_characters_per_token(text: str, low: float, high: float) -> None:
    assert low < len(text) / estimate(text) < high


@given(st.text("ab1.é今🎉 \n\t\xa0", max_size=80))
def test_an_estimate_is_consistent_with_the_limit(text: str) -> None:
    """`estimate` counts word by word, and `fit` piece by piece."""
    tokens = estimate(text)
    assert fit(text, tokens + 1e-6) == text
    assert tokens < 1 or fit(text, tokens - 1 - 1e-6) != text


def test_long_pieces_are_cut_near_the_limit() -> None:
    for text in (CHINESE * 5000, "a" * 50_000, "7" * 50_000, " " * 50_000, HEX * 1000):
        assert 450 <= estimate(fit(text, 500)) <= 500
