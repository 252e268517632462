"""How long text of a model is examined, as a ratio to a plain loop over the same text."""

from collections.abc import Callable

import pytest

from elwood.agent.session.turn.unsupported_claims import neutralise, speaks_of_deeds
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.text.characters import clean
from elwood.foundation.text.lines import wrap
from tests.hostile_text import SHAPES
from tests.test_linear_text import seconds

SIZE = 100_000
# Twice what is measured: wrap 5, redact 8, clean 11 (half characters only; else below 1),
# speaks_of_deeds 20, neutralise 29.  The loop takes 4 to 6 ms.
SOON = 16
# Done in a thread above 10,000 characters, by steps that let others run.
IN_A_THREAD = 60


def loop(text: str) -> object:
    count = 0
    for char in text:
        if char.isalnum():
            count += 1
    return count


@pytest.mark.bench
def test_text_of_a_model_is_examined_soon(capsys: pytest.CaptureFixture[str]) -> None:
    work: dict[str, tuple[Callable[[str], object], int]] = {
        "clean": (clean, 2 * SOON),
        "wrap": (lambda text: wrap(text, 80), SOON),
        "redact": (Redactor([Secret("correct-horse-battery")]), SOON),
        "neutralise": (neutralise, IN_A_THREAD),
        "speaks_of_deeds": (speaks_of_deeds, IN_A_THREAD),
    }
    slowest: dict[str, tuple[float, str]] = {}
    for shape, make in SHAPES.items():
        text = make(SIZE)
        floor = min(seconds(loop, text) for _ in range(3))
        for name, (call, _) in work.items():
            ratio = min(seconds(call, text) for _ in range(2)) / floor
            slowest[name] = max(slowest.get(name, (0.0, "")), (ratio, shape))
    with capsys.disabled():
        for name, (ratio, shape) in slowest.items():
            print(f"\n{name:16} {ratio:5.1f} of {work[name][1]:3}  ({shape})", end="")
    assert not {name for name, (ratio, _) in slowest.items() if ratio > work[name][1]}
