"""What really happened in a turn, read from its receipts and never from the model's words."""

from collections.abc import Sequence

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.reading.records import CallRecord
from elwood.foundation.text.lines import one_line

# Stands above the block, and nowhere else: `unsupported_claims` takes it out of the model's text.
HEAD = "— from the records —"
NOTHING = "nothing was done for this answer"
# Below the calls that only looked, failed or wait.
NOTHING_ELSE = "nothing else was done for this answer"
MARKS = {"ok": "✓", "failed": "✗", "denied": "⛔", "unknown": "?", "dry run": "○", "waiting": "⏳"}
UNDER_WAY = "…"
WORDS = {
    "failed": "failed",
    "denied": "not allowed",
    "unknown": "may or may not have happened; not repeated",
    "dry run": "dry run, nothing was done",
    "waiting": "waits for your approval",
}
# Who allowed or refused a call; nobody had to when there is no ruling.
RULINGS = {
    "once": "allowed once by you",
    "conversation": "allowed for this conversation",
    "always": "allowed for good by you",
    "source": "its source is trusted by you",
    "standing": "standing permission",
    "denied": "denied by you",
    "expired": "you did not answer in time",
    "withdrawn": "withdrawn",
}
# Parts a ruling from what the model chose, which may not hold it.
DOT = "·"
# Lines of a footer; the rest is counted.
MAX_LINES = 12
# Characters of a tool's name and of a target.
MAX_TOOL, MAX_TARGET = 64, 80


def activity(
    receipts: Sequence[CallEnded | CallRecord], *, unsupported: bool = False, left_out: int = 0
) -> str:
    """List the calls of a turn, one line each, for the foot of the reply.

    *unsupported* says that the reply speaks of something done, and no tool that acts succeeded:
    that is told as a fact; so is that *left_out* calls were too many to be run.  The names of
    unknown tools and the targets are the model's words: neither can begin a line of its own, nor
    say who allowed it.

    >>> paid = CallEnded("t", "c", "pay", "failed", "", "rent", ruling="once")
    >>> print(activity([paid], left_out=9))
    — from the records —
    ✗ pay rent (failed) · allowed once by you
    ⛔ 9 more calls (too many, not run)
    """
    if not receipts:
        return f"{HEAD}\n{NOTHING}" if unsupported else ""
    counted: dict[str, int] = {}
    for receipt in receipts:
        what = what_was_called(receipt.tool, receipt.target)
        if receipt.done:
            what = one_line(receipt.done, MAX_TOOL + MAX_TARGET)
        line = outcome_line(receipt.outcome, what, receipt.ruling)
        counted[line] = counted.get(line, 0) + 1
    lines = [line if n == 1 else f"{line} ({n} times)" for line, n in counted.items()]
    # What is uncertain or still to come is never cut off.
    open_ = (MARKS["unknown"], MARKS["waiting"])
    lines.sort(key=lambda line: not line.startswith(open_))
    shown = max(MAX_LINES, sum(line.startswith(open_) for line in lines))
    if len(lines) > shown:
        lines[shown:] = [f"… and {len(lines) - shown} more"]
    if left_out:
        lines.append(f"{MARKS['denied']} {left_out} more calls (too many, not run)")
    if unsupported:
        lines.append(NOTHING_ELSE)
    return "\n".join([HEAD, *lines])


def allowed_by(ruling: str) -> str:
    """Say in words who allowed or refused a call; *ruling* is how, and then by whom.

    >>> allowed_by("standing permission 3 of tg:1"), allowed_by("once tg:1"), allowed_by("")
    ('standing permission', 'allowed once by you', '')
    """
    return RULINGS.get(ruling.partition(" ")[0], ruling)


def what_was_called(tool: str, target: str) -> str:
    """Name a call in one line: both may be the model's words."""
    return f"{one_line(tool, MAX_TOOL)} {one_line(target, MAX_TARGET)}".rstrip()


def outcome_line(outcome: str, what: str, ruling: str) -> str:
    line = f"{MARKS.get(outcome, UNDER_WAY)} {what.replace(DOT, '.')}"
    if outcome != "ok":
        line += f" ({WORDS.get(outcome, outcome)})"
    return f"{line} {DOT} {allowed_by(ruling)}" if ruling else line
