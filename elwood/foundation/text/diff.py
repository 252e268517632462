"""The difference between two texts, as lines for people."""

from difflib import SequenceMatcher

# Unchanged lines around a change.
CONTEXT = 2
# Maximum of lines compared one by one, since the time grows with their product; more of them are
# one change.
MAX_COMPARED = 200


def format_diff(before: str, after: str) -> str:
    r"""Format the changed lines like ``diff -u``, without the names; "" if the texts are equal.

    >>> print(format_diff("a\nb\nc\nd\n", "a\nb\nC\nd\n"))
    @@ -1,5 +1,5 @@
     a
     b
    -c
    +C
     d
    <BLANKLINE>
    """
    if before == after:
        return ""
    old, new = before.split("\n"), after.split("\n")
    short = min(len(old), len(new))
    head = next((n for n in range(short) if old[n] != new[n]), short)
    rest = short - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    start = max(0, head - CONTEXT)
    around = min(tail, CONTEXT)
    old, new = old[start : len(old) - tail + around], new[start : len(new) - tail + around]
    if max(len(old), len(new)) <= MAX_COMPARED:
        groups = list(SequenceMatcher(None, old, new, False).get_grouped_opcodes(CONTEXT))
    else:
        a, b, first = len(old) - around, len(new) - around, head - start
        equal = ("equal", a, len(old), b, len(new))
        groups = [[("equal", 0, first, 0, first), ("replace", first, a, first, b), equal]]
    lines: list[str] = []
    for group in groups:
        (_, a, _, b, _), (_, _, a_end, _, b_end) = group[0], group[-1]
        lines.append(f"@@ -{start + a + 1},{a_end - a} +{start + b + 1},{b_end - b} @@")
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[a:a_end]]
            else:
                lines += [f"-{line}" for line in old[a:a_end]]
                lines += [f"+{line}" for line in new[b:b_end]]
    return "\n".join(lines)
