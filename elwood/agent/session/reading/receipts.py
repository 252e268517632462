"""What really happened in a turn, read from its receipts and never from the model's words."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.log.turns import PastCall

# Stands above the block, and nowhere else: `turn.imitation` takes it out of the model's text.
HEAD = "— from the records —"
NOTHING = "nothing was done for this answer"
# Below the calls that only looked, failed or wait.
NOTHING_ELSE = "nothing else was done for this answer"
MARKS = {"ok": "✓", "failed": "✗", "denied": "⛔", "unknown": "?", "dry run": "○", "waiting": "⏳"}
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
# Tools whose result says in its first line what was done, better than what was asked for does.
TELLING = frozenset({"schedule"})
# Lines of a footer; the rest is counted.
MAX_LINES = 12
# Characters of a tool's name and of a target.
MAX_TOOL, MAX_TARGET = 64, 80
# Calls that /receipts lists when nobody says how many.
LISTED = 10


def activity(receipts: Sequence[CallEnded], *, unsupported: bool = False) -> str:
    """List the calls of a turn, one line each, for the foot of the reply.

    *unsupported* says that the reply speaks of something done, and no tool that acts succeeded:
    that is told as a fact.  The names of unknown tools and the targets are the model's words:
    neither can begin a line of its own, nor say who allowed it.

    >>> print(activity([CallEnded("t", "c", "read_file", "ok", "...", "notes.txt")]))
    — from the records —
    ✓ read_file notes.txt
    >>> print(activity([CallEnded("t", "c", "pay", "failed", "...", "rent", ruling="once")]))
    — from the records —
    ✗ pay rent (failed) · allowed once by you
    >>> print(activity([], unsupported=True))
    — from the records —
    nothing was done for this answer
    """
    if not receipts:
        return f"{HEAD}\n{NOTHING}" if unsupported else ""
    counted: dict[str, int] = {}
    for receipt in receipts:
        line = _line(receipt)
        counted[line] = counted.get(line, 0) + 1
    lines = [line if n == 1 else f"{line} ({n} times)" for line, n in counted.items()]
    # What is uncertain or still to come is never cut off (reliability.md, P3).
    open_ = (MARKS["unknown"], MARKS["waiting"])
    lines.sort(key=lambda line: not line.startswith(open_))
    shown = max(MAX_LINES, sum(line.startswith(open_) for line in lines))
    if len(lines) > shown:
        lines[shown:] = [f"… and {len(lines) - shown} more"]
    if unsupported:
        lines.append(NOTHING_ELSE)
    return "\n".join([HEAD, *lines])


def listing(past: Sequence[PastCall], given: str, zone: tzinfo) -> tuple[str, str]:
    """Answer ``/receipts`` with the newest of *past*: a text, and below it the calls.

    *given* is what was typed behind it: how many; no more are kept than *past* has.

    >>> from datetime import UTC
    >>> one = PastCall(0.0, CallEnded("t", "c", "read_file", "ok", "", "notes.txt"))
    >>> listing([one], "5", UTC)
    ('The last call of this conversation:', '1970-01-01 00:00 ✓ read_file notes.txt')
    >>> listing([one], "many", UTC)[0]
    'Say how many calls to list: /receipts 20'
    """
    count = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if given and not count:
        return "Say how many calls to list: /receipts 20", ""
    shown = past[-(count or LISTED) :]
    if not shown:
        return "No tool was called in this conversation.", ""
    lines = [
        f"{datetime.fromtimestamp(one.at, zone):%Y-%m-%d %H:%M} {_line(one.receipt)}"
        for one in shown
    ]
    many = "call" if len(lines) == 1 else f"{len(lines)} calls"
    return f"The last {many} of this conversation:", "\n".join(lines)


def allowed_by(ruling: str) -> str:
    """Say in words who allowed or refused a call; *ruling* is how, and then by whom.

    >>> allowed_by("standing permission 3 of tg:1"), allowed_by("once tg:1"), allowed_by("")
    ('standing permission', 'allowed once by you', '')
    """
    return RULINGS.get(ruling.partition(" ")[0], ruling)


def _line(receipt: CallEnded) -> str:
    tool, target = one_line(receipt.tool, MAX_TOOL), one_line(receipt.target, MAX_TARGET)
    what = f"{tool} {target}".rstrip()
    if receipt.tool in TELLING and receipt.outcome == "ok" and receipt.text:
        what = one_line(receipt.text.split("\n", 1)[0], MAX_TOOL + MAX_TARGET)
    what = what.replace(DOT, ".")
    line = f"{MARKS[receipt.outcome]} {what}"
    if receipt.outcome != "ok":
        line += f" ({WORDS[receipt.outcome]})"
    return f"{line} {DOT} {allowed_by(receipt.ruling)}" if receipt.ruling else line


def one_line(text: str, limit: int) -> str:
    """Cut *text* to one line of at most *limit* characters.

    >>> one_line("a\\nb   c", 4)
    'a b…'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}…"
