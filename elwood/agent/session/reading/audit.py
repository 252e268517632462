"""What tools did in a conversation, call by call: read from its log, for `elwood receipts`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Entry,
)
from elwood.agent.session.log.turns import call_key
from elwood.agent.session.reading.receipts import allowed_by, one_line

# Characters of a target in the table, and of other cells.
TARGET, CELL = 60, 24
HEADINGS = ("time", "session", "tool", "target", "outcome", "allowed by", "took", "label")
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Row(msgspec.Struct):
    """One call with all its steps; times are Unix seconds, None for a step that was not taken.

    *outcome* is that of `CallEnded`, or "under way" while there is none.  *plan* is the hash of
    what ran, *by* who decided, *turn* where the call was first made.
    """

    session: str
    turn: str
    call: str
    tool: str
    outcome: str = "under way"
    target: str = ""
    effect: str = ""
    plan: str = ""
    ruling: str = ""
    by: str = ""
    pending_at: float | None = None
    decided_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    label: Label = CLEAN
    origin: str = ""

    @property
    def at(self) -> float:
        """When the newest step was taken."""
        steps = (self.pending_at, self.decided_at, self.started_at, self.ended_at)
        return max(step for step in steps if step is not None)


def rows(session: str, log: Iterable[tuple[float, Entry]]) -> Iterator[Row]:
    """Yield the calls in *log*, entries with their Unix times, as each is settled.

    What waits or is under way at the end comes last.  No more is held than what is open; a call
    that was not asked about because its like waits already is settled.

    >>> log = [
    ...     (1.0, CallStarted("t1", "c1", "read_file", "pure", "a.md")),
    ...     (3.0, CallEnded("t1", "c1", "read_file", "ok", "...", "a.md")),
    ... ]
    >>> [(row.tool, row.outcome, row.ended_at - row.started_at) for row in rows("s", log)]
    [('read_file', 'ok', 2.0)]
    """
    open_: dict[str, Row] = {}

    def row_of(entry: CallPending | CallStarted | CallEnded) -> tuple[str, Row]:
        # A call that waited for the owner goes on under its key in a later turn.
        key = entry.call if entry.call in open_ else call_key(entry.turn, entry.call)
        row = open_.setdefault(key, Row(session, entry.turn, entry.call, entry.tool))
        row.target = entry.target or row.target
        return key, row

    for at, entry in log:
        match entry:
            case CallPending(plan=plan):
                _, row = row_of(entry)
                row.plan, row.pending_at = plan, at
            case CallDecided(turn, call, ruling=ruling, by=by):
                key = call_key(turn, call)
                if key not in open_:
                    continue
                row = open_[key]
                row.ruling, row.by, row.decided_at = ruling, by, at
                if row.outcome == "waiting" and not entry.allowed:
                    row.outcome = "denied"
                    yield open_.pop(key)
            case CallStarted(effect=effect, plan=plan, ruling=ruling):
                _, row = row_of(entry)
                row.effect, row.started_at = effect, at
                row.plan, row.ruling = plan or row.plan, ruling or row.ruling
            case CallEnded(outcome=outcome, ruling=ruling, label=label, origin=origin):
                key, row = row_of(entry)
                row.outcome, row.ended_at = outcome, at
                row.ruling, row.label, row.origin = ruling or row.ruling, label, origin
                if outcome != "waiting" or row.pending_at is None:
                    yield open_.pop(key)
            case _:
                pass
    yield from open_.values()


def since(text: str, now: float, zone: tzinfo) -> float | None:
    """Read a time: ``2h`` ago, or a date and time in *zone*; None if it is neither.

    >>> from datetime import UTC
    >>> since("2h", 10_000.0, UTC), since("1970-01-02", 0.0, UTC), since("soon", 0.0, UTC)
    (2800.0, 86400.0, None)
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}).total_seconds()
    try:
        then = datetime.fromisoformat(text)
        return (then if then.tzinfo else then.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def table(found: Iterable[Row], zone: tzinfo) -> Iterator[str]:
    """Draw rows for people, in columns that fit."""
    yield from columns([HEADINGS, *(_cells(row, zone) for row in found)])


def columns(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Draw lines of *cells* below one another.

    >>> list(columns([("a", "b"), ("long", "c")]))
    ['a     b', 'long  c']
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        drawn = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(drawn).rstrip()


def _cells(row: Row, zone: tzinfo) -> tuple[str, ...]:
    took = ""
    if row.started_at is not None and row.ended_at is not None:
        took = f"{row.ended_at - row.started_at:.1f} s"
    label = [name for name in ("untrusted", "private") if getattr(row.label, name)]
    return (
        f"{datetime.fromtimestamp(row.at, zone):%Y-%m-%d %H:%M:%S}",
        one_line(row.session, CELL),
        printable(one_line(row.tool, CELL)),
        printable(one_line(row.target, TARGET)),
        row.outcome,
        allowed_by(row.ruling),
        took,
        " ".join(label),
    )


def printable(text: str) -> str:
    """Leave out what steers a terminal: the model chose these words."""
    return "".join(char for char in text if char.isprintable())
