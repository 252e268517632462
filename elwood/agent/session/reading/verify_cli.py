"""What ``elwood receipts verify`` does: proves journals from the files alone."""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from elwood.foundation.storage.journal import Damage, Verified
from elwood.foundation.storage.journal import verify as verify_journal


def verify(paths: Iterable[Path]) -> int:
    """Verify each journal of *paths*, or in it if it is a folder; return the exit code."""
    failed = found = 0
    for path in journals(paths):
        found += 1
        try:
            result = verify_journal(path)
        except OSError as error:
            print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
            failed += 1
            continue
        if isinstance(result, Damage):
            print(f"{path}: DAMAGED: {described(result)}", file=sys.stderr)
            failed += 1
        else:
            print(f"{path}: {described(result)}")
    if not found:
        print("there are no journals", file=sys.stderr)
    return 1 if failed else 0


def journals(paths: Iterable[Path]) -> Iterator[Path]:
    """List the journals named by *paths*; in folders, those of the folders inside too."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def described(result: Verified | Damage) -> str:
    """Say in one line what a verification has shown."""
    if isinstance(result, Damage):
        return f"line {result.line} {result.why}"
    text = f"{result.entries} entries in {result.lines} lines"
    if result.first is not None and result.last is not None:
        text += f" from {_day(result.first)} to {_day(result.last)}"
    if result.torn:
        text += f", and {result.torn} bytes at the end that were never acknowledged"
    return f"{text}; head {result.head}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
