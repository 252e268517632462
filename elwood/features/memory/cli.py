"""What ``elwood memory`` does: shows, finds and forgets notes, beside a running house or without.

Reading goes by the files and the index, and changes nothing.  What changes something is the
house's to do while one runs; else it is done here, under the lock of the state folder.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from elwood.features.control import client
from elwood.features.control import protocol as wire
from elwood.features.daily_notes import index as pages
from elwood.features.daily_notes.index import Pages
from elwood.features.memory.note import Note
from elwood.features.memory.results import Forgotten, in_words
from elwood.features.memory.store import Memory
from elwood.foundation.runtime import inline
from elwood.foundation.settings import Paths
from elwood.foundation.storage.disk import Disk, DiskFull, JournalBroken
from elwood.foundation.storage.lock import AlreadyRunning, holding
from elwood.foundation.storage.search_index import SearchQuery
from elwood.foundation.storage.sqlite import CancelToken, DatabaseUnusable

Act = Callable[[Memory], Forgotten | int]

# Characters of a note in a list.
GLIMPSE = 80


def show_list(state: Path, limit: int) -> int:
    """Print the newest notes, those that wait for the owner first; return the exit code."""
    memory = _memory(state)
    notes = [*memory.newest(limit, pending=True), *memory.newest(limit)][:limit]
    if not notes:
        print("there are no notes", file=sys.stderr)
    for note in notes:
        print(_line(note))
    for name in memory.shelf.files.passed_over():
        print(f"{name}: not read, as its name is no key (a-z, 0-9, -)", file=sys.stderr)
    return 0


def search(paths: Paths, query: str, limit: int) -> int:
    """Print the notes, and lines of daily notes, that have the words of *query*.

    Returns the exit code.
    """
    asked = SearchQuery(query=query, now=time.time())
    notes = pages.search(
        _memory(paths.state), Pages(paths.state, paths.workspace), asked, limit, CancelToken()
    )
    for note in notes:
        print(_line(note))
    if not notes:
        print("no note has any of these words", file=sys.stderr)
    return 0 if notes else 1


def show(state: Path, key: str) -> int:
    """Print one note as its file is; return the exit code."""
    filed = _memory(state).shelf.files.read(key)
    if filed is None:
        print(f"there is no note called {key}", file=sys.stderr)
        return 1
    sys.stdout.write(filed.data.decode("utf-8", "replace"))
    return 0


def forget(paths: Paths, keys: tuple[str, ...]) -> int:
    """Forget notes for good; return the exit code."""
    if _is_answered(paths.runtime):
        return client.settle(paths.runtime, wire.Forget(keys))
    days = Pages(paths.state, paths.workspace)
    return _alone(paths.state, lambda memory: pages.forget(memory, days, keys))


def rebuild(paths: Paths) -> int:
    """Make the indexes anew; return the exit code."""
    if _is_answered(paths.runtime):
        return client.settle(paths.runtime, wire.Rebuild())

    def act(memory: Memory) -> int:
        threads = Pages(paths.state, paths.workspace)
        try:
            threads.rebuild()
        finally:
            threads.close()
        return memory.shelf.rebuild()

    return _alone(paths.state, act)


def _alone(state: Path, act: Act) -> int:
    """Change something while no house runs, and no other command does."""
    try:
        with holding(state):
            memory = _memory(state)
            try:
                done = act(memory)
            finally:
                memory.shelf.close()
    except (AlreadyRunning, DiskFull, JournalBroken, DatabaseUnusable) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.strerror}: {error.filename or state}", file=sys.stderr)
        return 1
    if isinstance(done, int):
        print(f"The index has {done:,} notes.")
        return 0
    ok = bool(done.keys) and not done.why
    print(in_words(done), file=sys.stdout if ok else sys.stderr)
    return 0 if ok else 1


def _is_answered(runtime_dir: Path) -> bool:
    """Tell whether a house runs; one that hangs does, too, and its word is waited for."""
    return client.is_reachable(runtime_dir)


def _memory(state: Path) -> Memory:
    # Whoever looks after the memory has set how many notes there may be; here none are added.
    return Memory(state, Disk(blocking=inline, clock=time.time), max_notes=0)


def _line(note: Note) -> str:
    marks = ["pending"] if note.status == "pending" else []
    marks += ["untrusted"] if note.untrusted else []
    said = f" [{', '.join(marks)}]" if marks else ""
    text = " ".join(note.text.split())
    cut = "…" if len(text) > GLIMPSE else ""
    return f"{note.updated[:10]:10}  {note.key}{said}: {text[:GLIMPSE]}{cut}"
