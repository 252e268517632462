"""Carry out ``elwood memory``: show and search the note files, whether Elwood runs or not.

The running Elwood does what changes notes, since it must remove their text from other files too.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import islice

import msgspec

from elwood.features.memory.note import Note, is_alive
from elwood.features.memory.store import NoteFiles
from elwood.foundation.command_line import show_list
from elwood.foundation.net.control import print_response
from elwood.foundation.runtime import inline
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import Disk
from elwood.foundation.text.lines import ago, shorten
from elwood.foundation.text.words import count_words, parse_query

# Characters of a note in a list.
GLIMPSE = 160


def list_notes(config: Config, given: Namespace) -> int:
    files = _files(config)
    notes = sorted(_newest(files), key=lambda note: note.status == "active")
    wanted = (
        note
        for note in notes
        if given.kind in (None, note.kind) and given.status in (None, note.status)
    )
    _show(islice(wanted, given.limit), given, "There are no notes.")
    for name in files.list_ignored():
        print(
            f"{name}: skipped, because its name is not a valid key (a-z, 0-9, -)", file=sys.stderr
        )
    return 0


def search(config: Config, given: Namespace) -> int:
    chosen, now = parse_query(" ".join(given.query)), time.time()
    kept = [note for note in _newest(_files(config)) if note.status == "active"]
    alive = [note for note in kept if is_alive(note, now)]
    counts = [count_words(note.words, chosen) for note in alive]
    most = max(counts, default=0)
    found = [note for note, count in zip(alive, counts, strict=True) if count == most > 0]
    _show(found[: given.limit], given, "No note has any of these words.")
    return 0 if found else 1


def show(config: Config, given: Namespace) -> int:
    filed = _files(config).read(given.key)
    if filed is None:
        print(f"There is no note called {given.key}.", file=sys.stderr)
        return 1
    print(filed.data.decode("utf-8", "replace"), end="")
    return 0


def forget(config: Config, given: Namespace) -> int:
    return print_response(config.get(Paths).runtime, "forget", *given.keys)


def _files(config: Config) -> NoteFiles:
    disk = Disk(blocking=inline, clock=time.time)
    return NoteFiles(config.get(Paths).state / "memory", disk)


def _newest(files: NoteFiles) -> list[Note]:
    filed = (files.read(key) for key, _ in files.stamps())
    notes = [one.note for one in filed if one is not None]
    return sorted(notes, key=lambda note: note.updated, reverse=True)


def _show(notes: Iterable[Note], given: Namespace, none: str) -> None:
    found, now = [], time.time()
    for note in notes:
        marks: list[str] = [note.kind] if note.kind != "fact" else []
        marks += [note.status] if note.status != "active" else []
        marks += ["untrusted"] if note.untrusted else []
        changed = note.updated[:10]
        with suppress(ValueError, OverflowError):  # people edit these files
            changed = ago(now - datetime.fromisoformat(note.updated).timestamp())
        fields = {**msgspec.structs.asdict(note), "kind": note.kind}
        prefix = f"[{', '.join(marks)}] " if marks else ""
        text = shorten(" ".join(note.text.split()), GLIMPSE)
        found.append((fields, (changed, note.key, f"{prefix}{text}\n")))
    show_list(("changed", "key", "note"), found, given, none)
