"""What ``elwood memory`` does: shows, finds and forgets notes, while Elwood runs or not.

Reading goes by the files and the index, which is brought up to them first unless Elwood keeps it.
What changes something is Elwood's to do while it runs; else it is done here, under the lock of
the state folder.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from elwood.agent.tools.tool import SearchResult, TextSearch
from elwood.features.memory.actor import forgotten_elsewhere
from elwood.features.memory.note import Note
from elwood.features.memory.store import NoteStore
from elwood.features.memory.tools import joined, results
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import AlreadyRunning, Disk, DiskFull, JournalBroken, holding
from elwood.foundation.storage.search_index import DatabaseUnusable, SearchQuery
from elwood.foundation.text.words import asked

# Characters of a note in a list.
GLIMPSE = 80


def show_list(state: Path, limit: int) -> int:
    """Print the newest notes, those that wait for the owner first; return the exit code."""
    store = _store(state)
    notes = _read(
        store,
        state,
        lambda: [*store.newest(limit, pending=True), *store.newest(limit)][:limit],
    )
    if notes is None:
        return 1
    if not notes:
        print("there are no notes", file=sys.stderr)
    for note in notes:
        marks = ["pending"] if note.status == "pending" else []
        print(_line(note.updated, note.key, note.text, note.untrusted, marks))
    for name in store.files.passed_over():
        print(f"{name}: not read, as its name is no key (a-z, 0-9, -)", file=sys.stderr)
    return 0


def search(state: Path, query: str, limit: int, others: Sequence[TextSearch]) -> int:
    """Print the notes, and what *others* find, that have the words of *query*.

    Returns the exit code.
    """
    store = _store(state)
    wanted = SearchQuery(query=query, now=time.time())
    notes = _read(store, state, lambda: store.search(wanted, limit))
    if notes is None:
        return 1

    async def found_elsewhere() -> list[SearchResult]:
        return [found for one in others for found in await one.search(query, limit)]

    found = joined(results(notes, query), trio.run(found_elsewhere), asked(query))[:limit]
    for one in found:
        print(_line(one.updated, one.origin, one.text, one.label.untrusted))
    if not found:
        print("no note has any of these words", file=sys.stderr)
    return 0 if found else 1


def show(state: Path, key: str) -> int:
    """Print one note as its file is; return the exit code."""
    filed = _store(state).files.read(key)
    if filed is None:
        print(f"there is no note called {key}", file=sys.stderr)
        return 1
    sys.stdout.write(filed.data.decode("utf-8", "replace"))
    return 0


def forget(state: Path, keys: tuple[str, ...], others: Sequence[TextSearch]) -> int:
    """Forget notes for good, while Elwood is not running; return the exit code."""

    def act(store: NoteStore) -> int:
        notes = store.read(keys)
        forgotten = store.forget(keys)
        forgotten = trio.run(forgotten_elsewhere, forgotten, notes, others)
        print(forgotten.text, file=sys.stdout if forgotten.ok else sys.stderr)
        return 0 if forgotten.ok else 1

    return _alone(state, act)


def _read(store: NoteStore, state: Path, fn: Callable[[], list[Note]]) -> list[Note] | None:
    """Read by the index, made anew if it may and must be; None if it cannot be."""
    try:
        try:
            with holding(state):
                return store.indexed.look_up(lambda _: fn())
        except AlreadyRunning:
            return fn()
        finally:
            store.indexed.close()
    except (DatabaseUnusable, OSError) as error:
        print(f"the index of the notes cannot be used: {error}", file=sys.stderr)
        return None


def _alone(state: Path, act: Callable[[NoteStore], int]) -> int:
    """Change something while Elwood is not running, and no other command does."""
    try:
        with holding(state):
            store = _store(state)
            try:
                return act(store)
            finally:
                store.indexed.close()
    except (AlreadyRunning, DiskFull, JournalBroken, DatabaseUnusable) as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.strerror}: {error.filename or state}", file=sys.stderr)
    return 1


def _store(state: Path) -> NoteStore:
    # Whoever looks after the memory has set how many notes there may be; here none are added.
    return NoteStore(state, Disk(blocking=inline, clock=time.time), max_notes=0)


def _line(updated: str, name: str, text: str, untrusted: bool, marks: Sequence[str] = ()) -> str:
    marks = [*marks, "untrusted"] if untrusted else marks
    said = f" [{', '.join(marks)}]" if marks else ""
    text = " ".join(text.split())
    cut = "…" if len(text) > GLIMPSE else ""
    return f"{updated[:10]:10}  {name}{said}: {text[:GLIMPSE]}{cut}"
