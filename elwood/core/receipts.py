"""What really happened in a turn, read from its receipts and never from the model's words."""

from collections.abc import Sequence

from elwood.core.session import CallEnded

MARKS = {"ok": "✓", "failed": "✗", "denied": "⛔", "unknown": "?", "dry run": "○", "waiting": "⏳"}
WORDS = {
    "failed": "failed",
    "denied": "not allowed",
    "unknown": "may or may not have happened; not repeated",
    "dry run": "dry run, nothing was done",
    "waiting": "waits for your approval",
}
# Lines of a footer; the rest is counted.
MAX_LINES = 12


def activity(receipts: Sequence[CallEnded]) -> str:
    """List the calls of a turn, one line each, for the foot of the reply.

    >>> print(activity([CallEnded("t", "c", "read_file", "ok", "...", "notes.txt")]))
    ✓ read_file notes.txt
    >>> activity([])
    ''
    """
    counted: dict[str, int] = {}
    for receipt in receipts:
        line = f"{MARKS[receipt.outcome]} {receipt.tool} {_one_line(receipt.target)}".rstrip()
        if receipt.outcome != "ok":
            line += f" ({WORDS[receipt.outcome]})"
        counted[line] = counted.get(line, 0) + 1
    lines = [line if n == 1 else f"{line} ({n} times)" for line, n in counted.items()]
    # What is uncertain is never cut off (reliability.md, P3).
    lines.sort(key=lambda line: not line.startswith(MARKS["unknown"]))
    shown = max(MAX_LINES, sum(line.startswith(MARKS["unknown"]) for line in lines))
    if len(lines) > shown:
        lines[shown:] = [f"… and {len(lines) - shown} more"]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 80 else flat[:79] + "…"
