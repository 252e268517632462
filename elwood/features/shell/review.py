"""Show the owner how an instruction file would change."""

from itertools import takewhile

from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import cut

# Lines of a change that are shown, and characters of each.
MAX_LINES, MAX_LINE = 80, 300


def describe_change(old: str, new: str) -> str:
    r"""Return the lines that differ, from the first to the last one; in time linear in both.

    >>> print(describe_change("a\nb\nc\n", "a\nx\nc\n"))
     a
    -b
    +x
     c
    """
    before, after = old.splitlines(), new.splitlines()
    start = _count_same(before, after)
    end = _count_same(before[start:][::-1], after[start:][::-1])
    lines = [
        *(f" {line}" for line in before[max(0, start - 1) : start]),
        *(f"-{line}" for line in before[start : len(before) - end]),
        *(f"+{line}" for line in after[start : len(after) - end]),
        *(f" {line}" for line in after[len(after) - end :][:1]),
    ]
    shown = [escape_invisible(cut(line, MAX_LINE)) for line in lines[:MAX_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, *([f"[{more} more lines]"] if more else [])])


def _count_same(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
