"""What ``elwood receipts`` does: shows what tools did, from the journals alone.

Works while a house runs, and when none can: nothing is opened for writing.
"""

import heapq
import sys
from collections.abc import Iterator
from datetime import tzinfo
from operator import attrgetter
from pathlib import Path

import msgspec

from elwood.agent.session.log.entries import Entry
from elwood.agent.session.reading.audit import Row, rows, table
from elwood.foundation.storage.chain import (
    Place,
    Unsound,
    decoder,
    follow,
)

# Calls that are shown when nobody says how many: they are held, to be put in order.
SHOWN = 100


def receipts(
    state: Path,
    zone: tzinfo,
    *,
    since: float = 0.0,
    session: str | None = None,
    limit: int = SHOWN,
    as_json: bool = False,
) -> int:
    """Print the newest *limit* calls, oldest first; return the exit code.

    *since* is a Unix time; *session* is the name of a conversation, of which alone they are.
    """
    damaged: list[str] = []
    paths = [
        path
        for path in sorted((state / "sessions").glob("*.jsonl"))
        if session is None or path.stem == session
    ]
    if not paths:
        which = "no conversation" if session is None else f"no conversation called {session}"
        print(f"there is {which} in {state}", file=sys.stderr)
        return 1
    found = (row for path in paths for row in _rows(path, since, damaged))
    newest = heapq.nlargest(limit, found, key=attrgetter("at"))
    newest.sort(key=attrgetter("at"))
    if as_json:
        for row in newest:
            print(msgspec.json.encode(row).decode())
    elif newest:
        for line in table(newest, zone):
            print(line)
    else:
        print("no tool was called", file=sys.stderr)
    for line in damaged:
        print(line, file=sys.stderr)
    return 1 if damaged else 0


def _rows(path: Path, since: float, damaged: list[str]) -> Iterator[Row]:
    """Yield the calls in one journal, up to where it is damaged."""
    try:
        if path.stat().st_mtime < since:
            return  # nothing was written there since
        with path.open("rb", buffering=1 << 20) as file:
            lines = follow(file, Place(), decoder(Entry).decode)
            log = ((line.at, entry) for line in lines for entry in line.entries)
            yield from (row for row in rows(path.stem, log) if row.at >= since)
    except Unsound as error:
        damaged.append(f"{path}: DAMAGED: {error}; what stands behind it is not shown")
    except OSError as error:
        damaged.append(f"{path}: cannot be read: {error.strerror}")
