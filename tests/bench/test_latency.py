"""The wait of other conversations: the longest call during which no other thread can run."""

import re
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from elwood.foundation.text.readable import readable
from elwood.foundation.text.words import fold

SIZE = 3 * 1024 * 1024
PAGES = {
    "words": "word ", "letters": "a ", "entities": "&x", "invisible": "\u200b",
    "soft hyphens": "a\u00ad", "controls": "a\x01", "code": "<pre>`````\n", "titles": "<title>x ",
}  # fmt: skip


def longest_call(act: Callable[[], object]) -> tuple[float, str]:
    """Return the longest CPU time of a call into compiled code that does not call Python."""
    worst = (0.0, "")
    calls: list[tuple[float, bool]] = []

    def watch(frame: FrameType, event: str, called: Any) -> None:
        nonlocal worst
        if event == "call" and calls:
            calls[-1] = (calls[-1][0], True)
        elif event == "c_call":
            calls.append((time.thread_time(), False))
        elif event in ("c_return", "c_exception") and calls:
            began, lets_others = calls.pop()
            if not lets_others:
                name = f"{called.__qualname__} in {frame.f_code.co_name}"
                worst = max(worst, (time.thread_time() - began, name))

    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
    return worst


@pytest.mark.bench
def test_no_page_blocks_the_loop() -> None:
    text = ("word " * SIZE)[:SIZE]
    readable(b"<p>x", "text/html", "http://a.example/")  # the first call imports
    floor, _ = longest_call(lambda: re.sub(r"\s+", " ", text))
    print(f"\n{'one pass':>14} {1000 * floor:7.1f} ms")
    for name, shape in PAGES.items():
        body = (shape * (SIZE // len(shape.encode()) + 1)).encode()[:SIZE]
        worst, what = longest_call(lambda: readable(body, "text/html", "http://a.example/"))  # noqa: B023
        print(f"{name:>14} {1000 * worst:7.1f} ms  {what}")
        assert worst < floor / 4, (name, what)  # measured a tenth


@pytest.mark.bench
def test_repeated_marks_take_linear_time() -> None:
    """Normalizing them in one call would not: it sorts them."""
    spent = []
    for size in (40_000, 160_000):
        marks = "a" + "\u0301\u0316" * (size // 2)
        began = time.process_time()
        fold(marks)
        spent.append(time.process_time() - began)
    assert spent[1] < 8 * spent[0]
