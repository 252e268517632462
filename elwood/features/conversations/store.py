"""Finds what was said in the logs of conversations: they are the truth, and there is no index.

What is read leaves nothing behind, for a crash to hurt or for what was forgotten to stay in; 50 MB
of logs take about a second (decision 33).  All of it blocks.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Session
from elwood.features.conversations.said import SaidTurn, said_in
from elwood.foundation.storage.journal import HistoryGone, JournalDamaged, read_since, segments
from elwood.foundation.text.words import asked

# Closed parts of one log that are read, of 512 kB each; seconds after which no other log is begun.
MAX_SEGMENTS, PATIENCE = 200, 20.0


class SearchOutcome(msgspec.Struct, frozen=True):
    """The turns that were found, the best first; and what was not looked at, in sentences."""

    chosen: tuple[str, ...]
    found: tuple[SaidTurn, ...]
    left_out: tuple[str, ...]


def find(state: Path, query: str, limit: int, belongs: Callable[[SaidTurn], bool]) -> SearchOutcome:
    """Find the best *limit* turns by the words of *query*, among those that *belong* to who asks.

    The conversations that were active last are read first.
    """
    chosen, until = asked(query), time.monotonic() + PATIENCE
    logs = sorted((state / "sessions").glob("*.jsonl"), key=_written, reverse=True)
    found: list[SaidTurn] = []
    left_out: list[str] = []
    for number, path in enumerate(logs):
        if time.monotonic() > until:
            left_out.append(f"{len(logs) - number} older conversations were not looked at")
            break
        firsts = list(segments(path))
        since = firsts[-MAX_SEGMENTS] if len(firsts) > MAX_SEGMENTS else 0
        if since:
            left_out.append(f"the oldest part of {path.stem} was not looked at")
        try:
            before, log = read_since(path, Entry, Session, since)
            found += filter(belongs, said_in(path.stem, before, log, chosen))
        except (JournalDamaged, HistoryGone, OSError) as error:
            left_out.append(f"{path.stem} could not be read: {type(error).__name__}")
        found = sorted(found, key=lambda one: (-one.words, -one.at))[:limit]
    return SearchOutcome(chosen, tuple(found), tuple(left_out))


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # it was old, and is gone
        return 0.0
