"""What ``elwood session`` does: lists conversations, or writes one into a file.

Works while a house runs, and when none can: no journal is opened for writing.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from pathlib import Path

from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.next_work import is_command
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.export import Format, written
from elwood.agent.session.reading.telling import telling
from elwood.agent.session.turn.inputs import age
from elwood.foundation.storage.chain import Unsound, entries_of

HEADINGS = ("conversation", "last active", "turns", "kB", "to do")


def export(
    state: Path,
    session: str,
    zone: tzinfo,
    format_: Format,
    output: Path | None,
    redact: Callable[[str], str],
) -> int:
    """Write the present line of *session* into *output*, or to stdout; return the exit code.

    *redact* takes secrets out.  The file can be read by nobody else.
    """
    path = state / "sessions" / f"{session}.jsonl"
    if path not in _journals(state):
        print(f"there is no conversation called {session} in {state}", file=sys.stderr)
        return 1
    try:
        items = telling(session, entries_of(path, Entry), redact)
    except Unsound as error:
        print(f"{path}: DAMAGED: {error}; nothing was exported", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise  # whoever read our output has gone; `cli` knows what that means
    except OSError as error:
        print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    content = written(session, items, zone, format_)
    if output is None:
        # A terminal or a pipe of another encoding must not break on what somebody said.
        sys.stdout.buffer.write(content.encode())
        sys.stdout.flush()
        return 0
    try:
        output.touch(mode=0o600)
        output.write_text(content, encoding="utf-8")
    except OSError as error:
        print(f"{output}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def sessions(state: Path, zone: tzinfo, now: float) -> int:
    """Print a line for each conversation, the one active last at the end; return the exit code."""
    damaged: list[str] = []
    found = [line for path in _journals(state) for line in _described(path, zone, now, damaged)]
    if not found and not damaged:
        print(f"there is no conversation in {state}", file=sys.stderr)
        return 1
    cells = [HEADINGS, *(line for _, line in sorted(found))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        drawn = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(drawn).rstrip())
    for problem in damaged:
        print(problem, file=sys.stderr)
    return 1 if damaged else 0


def _journals(state: Path) -> list[Path]:
    return sorted((state / "sessions").glob("*.jsonl"))


def _described(
    path: Path, zone: tzinfo, now: float, damaged: list[str]
) -> Iterator[tuple[float, tuple[str, ...]]]:
    session, last = Session(), 0.0
    try:
        for seq, at, entry in entries_of(path, Entry):
            session.apply(seq, at, entry)
            last = at
        size = path.stat().st_size
    except Unsound as error:
        damaged.append(f"{path}: DAMAGED: {error}")
        return
    except OSError as error:
        damaged.append(f"{path}: cannot be read: {error.strerror}")
        return
    when = f"{datetime.fromtimestamp(last, zone):%Y-%m-%d %H:%M} ({age(max(0.0, now - last))} ago)"
    to_do = "; ".join(_left(session)) or "-"
    yield last, (path.stem, when, str(session.turns), f"{size / 1000:.1f}", to_do)


def _left(session: Session) -> Iterator[str]:
    """Say what the session has left to do."""
    waiting = sum(not is_command(received) for received in session.waiting.values())
    if session.turn is not None:
        yield "a turn"
    if waiting:
        yield f"messages: {waiting}"
    if session.pending:
        yield f"approvals: {len(session.pending)}"
    if session.undelivered:
        yield f"deliveries: {len(session.undelivered)}"
