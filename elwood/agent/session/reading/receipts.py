"""The real effects of a turn, from its receipts and never from the model's words."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.reading.records import CallRecord
from elwood.foundation.text.lines import one_line

# Heading of the block. `unsupported_claims` removes it from the model's text.
HEAD = "— What I actually did —"
NOTHING = "No tools were used for this answer."
# Last line: clauses of the answer, in quotes, that claim an action without a receipt of its kind.
NOT_VERIFIED = "Not verified: no record of {}"
# Maximum number of these clauses; the rest is counted.
MAX_CLAIMS = 3
MARKS = {"ok": "✓", "failed": "✗", "denied": "⛔", "unknown": "?", "dry run": "○", "waiting": "⏳"}
UNDER_WAY = "…"
WORDS = {
    "failed": "failed",
    "denied": "not allowed",
    "unknown": "cut off: it may have done part of its work; I won't repeat it",
    "dry run": "dry run: not done",
    "waiting": "waits for your approval",
}
# Who allowed or refused a call. Without a ruling, no decision was necessary.
RULINGS = {
    "once": "allowed once by you",
    "conversation": "allowed for this conversation",
    "always": "always allowed by you",
    "source": "you trust its source",
    "standing": "standing permission",
    "denied": "denied by you",
    "expired": "you did not answer in time",
    "withdrawn": "I took the question back",
}
# Separates a ruling from text of the model, which may not contain it.
DOT = "·"
# Maximum lines of a footer; the rest is counted.
MAX_LINES = 12
# Characters of a tool's name, of a target, and of numbers.
MAX_TOOL, MAX_TARGET, MAX_NUMBERS = 64, 80, 24


def activity(
    receipts: Sequence[CallEnded | CallRecord],
    zone: tzinfo | None = None,
    *,
    numbered: bool = False,
    unsupported: Sequence[str] = (),
    left_out: int = 0,
) -> str:
    """List the calls of a turn for the footer of the reply: a line each, one for all reads.

    With a *zone* each line has its time; *numbered* calls can be opened in this chat.
    *unsupported* are clauses of the reply that claim an action without a receipt of its kind. The
    list also states that *left_out* calls were over the limit. The clauses, the names of unknown
    tools and the targets are the model's words: they can neither begin a line nor imitate a ruling.

    >>> paid = CallEnded("t", "c", "pay", "failed", "", "rent", ruling="once")
    >>> print(activity([paid], left_out=9))
    — What I actually did —
    ✗ pay rent (failed) · allowed once by you
    ⛔ 9 more calls (too many, not run)
    """
    if not (receipts or unsupported):
        return ""
    looks = {(one.looked, one.target) for one in receipts if one.looked and not one.ruling}
    looked = f"{MARKS['ok']} {_count_reads([kind for kind, _ in looks])}"
    alike: dict[str, list[CallEnded | CallRecord]] = {}
    for receipt in receipts:
        what = what_was_called(receipt.tool, receipt.target)
        if receipt.done:
            what = one_line(receipt.done, MAX_TOOL + MAX_TARGET)
        line = outcome_line(receipt.outcome, what, receipt.ruling)
        if len(looks) > 1 and receipt.looked and not receipt.ruling:
            line = looked
        alike.setdefault(line, []).append(receipt)
    lines = [] if receipts else [NOTHING]
    for line, found in alike.items():
        times = f" ({len(found)} times)" if len(found) > 1 and line != looked else ""
        at = found[-1].at if zone is not None else 0.0
        when = f"{datetime.fromtimestamp(at, zone):%H:%M}" if at else ""
        numbers = [one.number for one in found if one.number] if numbered else []
        where = " ".join(filter(None, (when, _numbers(numbers))))
        lines.append(f"{line}{times} {DOT} {where}" if where else f"{line}{times}")
    # Uncertain and waiting calls are never cut.
    open_ = (MARKS["unknown"], MARKS["waiting"])
    lines.sort(key=lambda line: not line.startswith(open_))
    shown = max(MAX_LINES, sum(line.startswith(open_) for line in lines))
    if len(lines) > shown:
        lines[shown:] = [f"… and {len(lines) - shown} more"]
    if left_out:
        lines.append(f"{MARKS['denied']} {left_out} more calls (too many, not run)")
    if unsupported:
        more = len(unsupported) - MAX_CLAIMS
        quoted = ", ".join(f"“{one.replace(DOT, '.')}”" for one in unsupported[:MAX_CLAIMS])
        lines.append(NOT_VERIFIED.format(quoted + f" and {more} more" * (more > 0)))
    return "\n".join([HEAD, *lines])


def _count_reads(kinds: Sequence[str]) -> str:
    """Count the reads of each kind.

    >>> _count_reads(["file", "page", "file"])
    'looked at 2 files, 1 page'
    """
    told = (f"{(n := kinds.count(kind))} {kind}{'s' * (n > 1)}" for kind in sorted({*kinds}))
    return f"looked at {', '.join(told)}"


def _numbers(numbers: Sequence[int]) -> str:
    """Format *numbers*, with ranges for consecutive ones.

    >>> _numbers([3, 4, 5, 7]), _numbers([])
    ('#3-5, 7', '')
    """
    rows: list[list[int]] = []
    for number in sorted(numbers):
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    told = (f"{row[0]}-{row[-1]}" if len(row) > 1 else str(row[0]) for row in rows)
    return one_line(f"#{', '.join(told)}", MAX_NUMBERS) if rows else ""


def describe_ruling(ruling: str) -> str:
    """Describe who allowed or refused a call; *ruling* is the way, then the name.

    >>> [describe_ruling(one) for one in ("standing permission 3 of tg:1", "once tg:1", "")]
    ['standing permission', 'allowed once by you', '']
    """
    return RULINGS.get(ruling.partition(" ")[0], ruling)


def what_was_called(tool: str, target: str) -> str:
    """Describe a call in one line: both parts may be the model's words."""
    return f"{one_line(tool, MAX_TOOL)} {one_line(target, MAX_TARGET)}".rstrip()


def outcome_line(outcome: str, what: str, ruling: str) -> str:
    line = f"{MARKS.get(outcome, UNDER_WAY)} {what.replace(DOT, '.')}"
    if outcome != "ok":
        line += f" ({WORDS.get(outcome, outcome)})"
    return f"{line} {DOT} {describe_ruling(ruling)}" if ruling else line
