"""Redaction of prose and adversarial texts, compared with one pass of a pattern."""

import random
import re
import string

import pytest

from elwood.foundation.secrets.redaction import Secret, redact
from tests.bench.rig import fastest

SIZE = 500_000
# The time must grow like the text, not like its square.
GROWTH = 8
ROUNDS = 2
FLOOR = re.compile("(?<![A-Za-z0-9])[A-Za-z0-9]{40}")
LETTERS = string.ascii_letters + string.digits
PROSE = (
    "The quick brown fox jumps over the lazy dog, and then it says: it is a fine day. "
    "Another sentence (number 12345) has a link, https://example.org/a/b?c=d#e, and ends so.\n"
)
SHAPES = {
    "prose": PROSE,
    "one letter": "a",
    "blanks": " ",
    "dashes": "-",
    "heads of tokens": "sk-",
    "heads of JWTs": "eyJ-",
    "heads behind words": "tokenghp_Ab1Ab1Ab1Ab1 ",
    "hashes": "$6$aaaaaaaaaaaaaaaaaaaaaaaa ",
    "names": "password=",
    "URLs": "://a:",
    "passwords in URLs": "://:aa@@",
    "headings of keys": "-----BEGIN PRIVATE" + " KEY-----",
    "percent escapes": "%41",
    "nested escapes": "%25",
    "HTML escapes": "&amp;",
    "colours": "\x1b[0m",
    "quotes": "\"'\\",
    "escaped breaks": "\\n",
    "headers": "authorization: ",
    "cookies": "cookie:a=bbbbbbbbbbbbbbbbbbbb;",
    "commands": "mysql ",
}
SECRETS = [
    Secret("".join(random.Random(n).choices(LETTERS, k=20 + 8 * n))) for n in range(12)
]  # a usual number of secrets
LINE = (
    '{"at":"2026-11-22T10:00:00.000+00:00","level":"info","logger":"elwood.turns",'
    '"event":"turn ended","f":1}'
)


def text_of(shape: str, size: int) -> str:
    return (SHAPES[shape] * (size // len(SHAPES[shape]) + 1))[:size]


def seconds(shape: str, *sizes: int) -> list[float]:
    """Measure texts of each size in turn, because the load changes; return the best times."""
    texts = [text_of(shape, size) for size in sizes]
    rounds = [
        [fastest(lambda text=text: redact(text, SECRETS), 1) for text in texts]  # type: ignore[misc]
        for _ in range(ROUNDS)
    ]
    return [min(spent) for spent in zip(*rounds, strict=True)]


@pytest.mark.bench
def test_no_text_is_slow() -> None:
    prose = text_of("prose", SIZE)
    floor = fastest(lambda: FLOOR.sub("", prose))
    print(
        f"\n{'500,000 letters':>18}      MB/s   ratio to one pass   {GROWTH} times the size costs"
    )
    print(f"{'one pass':>18}   {SIZE / floor / 1e6:7.1f}")
    ratios, growths = {}, {}
    for shape in SHAPES:
        part, whole = seconds(shape, SIZE // GROWTH, SIZE)
        ratios[shape], growths[shape] = whole / floor, whole / part
        print(
            f"{shape:>18}   {SIZE / whole / 1e6:7.1f}   {ratios[shape]:17.1f}   "
            f"{growths[shape]:14.1f} times"
        )
    # With a margin for a busy machine: measured 12 on prose, 57 at worst, and growth of 14.
    assert ratios["prose"] < 40
    assert max(ratios.values()) < 120
    assert max(growths.values()) < 3 * GROWTH


@pytest.mark.bench
def test_a_log_line_is_cheap() -> None:
    floor = fastest(lambda: [FLOOR.sub("", LINE) for _ in range(1000)])
    spent = fastest(lambda: [redact(LINE, SECRETS) for _ in range(1000)])
    print(f"\n{len(LINE)} characters: {spent * 1000:.1f} µs, {spent / floor:.1f} times one pass")
    assert spent < 60 * floor  # measured 13 to 20
