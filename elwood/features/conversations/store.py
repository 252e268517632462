"""Search the logs of conversations.

There is no index, which a crash could damage and which could hold forgotten text; 50 MB of logs
take about a second (decision 33).  All functions block.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Session
from elwood.features.conversations.turns import MatchingTurn, matching_turns
from elwood.foundation.storage.journal import HistoryGone, JournalDamaged, read_since, segments
from elwood.foundation.text.words import parse_query

# Closed segments to read of one log, 128 kB each; seconds after which no further log is opened.
MAX_SEGMENTS, PATIENCE = 800, 20.0


class SearchOutcome(msgspec.Struct, frozen=True):
    """The result of a search."""

    # The words of the query.
    words: tuple[str, ...]
    # The best match first.
    turns: tuple[MatchingTurn, ...]
    # Sentences on the logs that were not searched.
    left_out: tuple[str, ...]


def find(
    state: Path, query: str, limit: int, belongs: Callable[[MatchingTurn], bool]
) -> SearchOutcome:
    """Return the best *limit* turns for *query*, of those for which *belongs* is true.

    The latest active conversations are read first.
    """
    words, until = parse_query(query), time.monotonic() + PATIENCE
    logs = sorted((state / "sessions").glob("*.jsonl"), key=_modified_at, reverse=True)
    turns: list[MatchingTurn] = []
    left_out: list[str] = []
    for number, path in enumerate(logs):
        if time.monotonic() > until:
            left_out.append(f"{len(logs) - number} older conversations were not searched")
            break
        firsts = list(segments(path))
        since = firsts[-MAX_SEGMENTS] if len(firsts) > MAX_SEGMENTS else 0
        if since:
            left_out.append(f"the oldest part of {path.stem} was not searched")
        try:
            before, log = read_since(path, Entry, Session, since)
            turns += filter(belongs, matching_turns(path.stem, before, log, words))
        except (JournalDamaged, HistoryGone, OSError) as error:
            left_out.append(f"{path.stem} could not be read: {_explain(error)}")
        turns = sorted(turns, key=lambda turn: (-turn.words, -turn.at))[:limit]
    return SearchOutcome(words, tuple(turns), tuple(left_out))


def _explain(error: Exception) -> str:
    match error:
        case JournalDamaged():
            return "its log is damaged"
        case HistoryGone():
            return "part of its log was removed"
        case _:
            return "its log cannot be opened"


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # an expired log was deleted
        return 0.0
