"""Retention of logs: remove old segments, and logs of inactive conversations."""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path

import msgspec

from elwood.agent.conversation.run import is_unattended
from elwood.agent.session.core import Core
from elwood.agent.session.settings import SessionSettings
from elwood.foundation.storage.anchors import ReleaseAnchors
from elwood.foundation.storage.journal import list_closed


class OldLog(msgspec.Struct, frozen=True):
    """The *paths* of *journal*, all (*whole*) or the oldest, which end with the entry *upto*."""

    journal: Path
    paths: tuple[Path, ...]
    upto: int
    whole: bool


async def remove_old(core: Core, now: float, timetable: str) -> int:
    """Remove logs that are older than the retention time; return the number of removed files.

    Conversations of runs and the journal *timetable* have a shorter time. A conversation that is in
    memory, or has work left, keeps its log. The anchors are released first, or the files would be
    reported as missing.
    """
    state, removed, kept = core.paths.state, 0, core.config.get(SessionSettings)
    before = now - (kept.keep or inf)
    of_runs = max(before, now - (kept.keep_runs or inf))

    def since(journal: Path) -> float:
        is_run = journal.name.startswith(timetable) or is_unattended(journal.name)
        return of_runs if is_run else before

    for old in await core.disk.blocking(lambda: list(_find(state, since))):
        name, upto = old.journal.relative_to(state).as_posix(), 0 if old.whole else old.upto
        if not await core.anchoring.ask(ReleaseAnchors(journal=name, upto=upto)):
            continue
        for path in old.paths:
            if old.whole and old.journal.stem in core.live.states:
                break
            await core.disk.blocking(partial(core.disk.remove, path, durably=True))
            removed += 1
    return removed


def _find(state: Path, since: Callable[[Path], float]) -> Iterator[OldLog]:
    sessions = state / "sessions"
    for journal in sorted((*state.glob("*.jsonl"), *sessions.glob("*.jsonl"))):
        before = since(journal)
        closed, upto = list_closed(journal, before)
        whole = journal.parent == sessions and journal.stat().st_mtime < before
        if whole and not (sessions / "open" / journal.stem).exists():
            yield OldLog(journal, (*closed, journal), upto, whole=True)
        elif closed:
            yield OldLog(journal, tuple(closed), upto, whole=False)
