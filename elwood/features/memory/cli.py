"""What ``elwood memory`` does: shows and finds notes, while Elwood runs or not.

Reading goes by the files and the index, which is brought up to them first unless Elwood keeps it.
What changes something is asked of the running Elwood: words are to go from more than the notes.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from elwood.features.memory.note import Note
from elwood.features.memory.store import NoteStore
from elwood.foundation.command_line import MOST
from elwood.foundation.net.control import settle
from elwood.foundation.runtime import inline
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import AlreadyRunning, Disk, holding
from elwood.foundation.storage.search_index import DatabaseUnusable, SearchQuery
from elwood.foundation.text.lines import cut

# Characters of a note in a list.
GLIMPSE = 80


def show_list(config: Config, given: Namespace) -> int:
    """Print the newest notes, those that wait for the owner first; return the exit code."""
    state, limit = config.of(Paths).state, given.limit
    store = _store(state)
    most = MOST if given.kind or given.status else limit
    notes = _read(store, state, lambda: [*store.newest(most, pending=True), *store.newest(most)])
    if notes is None:
        return 1
    if not notes:
        print("there are no notes", file=sys.stderr)
    wanted = (
        note
        for note in notes
        if given.kind in (None, note.kind)
        and given.status in (None, "active" if note.status == "kept" else note.status)
    )
    for note in islice(wanted, limit):
        print(_line(note))
    for name in store.files.passed_over():
        print(f"{name}: not read, as its name is no key (a-z, 0-9, -)", file=sys.stderr)
    return 0


def search(config: Config, given: Namespace) -> int:
    """Print the notes that have the words that were given; return the exit code."""
    state, query = config.of(Paths).state, " ".join(given.query)
    store = _store(state)
    wanted = SearchQuery(query=query, now=time.time())
    notes = _read(store, state, lambda: store.search(wanted, given.limit))
    if notes is None:
        return 1
    for note in notes:
        print(_line(note))
    if not notes:
        print("no note has any of these words", file=sys.stderr)
    return 0 if notes else 1


def show(config: Config, given: Namespace) -> int:
    """Print one note as its file is; return the exit code."""
    filed = _store(config.of(Paths).state).files.read(given.key)
    if filed is None:
        print(f"there is no note called {given.key}", file=sys.stderr)
        return 1
    print(filed.data.decode("utf-8", "replace"), end="")
    return 0


def forget(config: Config, given: Namespace) -> int:
    """Have notes forgotten for good; return the exit code."""
    return settle(config.of(Paths).runtime, "forget", *given.keys)


def _read(store: NoteStore, state: Path, fn: Callable[[], list[Note]]) -> list[Note] | None:
    """Read by the index, made anew if it may and must be; None if it cannot be."""
    try:
        try:
            with holding(state):
                return store.indexed.look_up(fn)
        except AlreadyRunning:
            return fn()
        finally:
            store.indexed.close()
    except (DatabaseUnusable, OSError) as error:
        print(f"the index of the notes cannot be used: {error}", file=sys.stderr)
        return None


def _store(state: Path) -> NoteStore:
    # Whoever looks after the memory has set how many notes there may be; here none are added.
    return NoteStore(state, Disk(blocking=inline, clock=time.time), max_notes=0)


def _line(note: Note) -> str:
    marks: list[str] = [note.kind] if note.kind != "fact" else []
    marks += [note.status] if note.status != "kept" else []
    marks += ["untrusted"] if note.untrusted else []
    said = f" [{', '.join(marks)}]" if marks else ""
    return f"{note.updated[:10]:10}  {note.key}{said}: {cut(' '.join(note.text.split()), GLIMPSE)}"
