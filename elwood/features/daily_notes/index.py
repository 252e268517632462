"""Searching the daily notes and reflections in the workspace, beside the notes of the memory.

They have an index of their own, *state*/threads.db, so that they change neither how notes are
ranked nor what else is done with notes.  Whoever edits or removes a page changes what is found.
Everything here blocks.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from elwood.features.daily_notes.entries import cleansed
from elwood.features.daily_notes.notes import DAYS, MAX_DAILY
from elwood.features.daily_notes.search import (
    FOLDERS,
    excerpt,
    page,
    passages,
)
from elwood.features.memory.file_search import Files
from elwood.features.memory.note import Note
from elwood.features.memory.note_files import Filed, document_of, stamp
from elwood.features.memory.ranking import joined, ranked
from elwood.features.memory.results import Forgotten
from elwood.features.memory.store import Memory
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import Document, SearchQuery
from elwood.foundation.storage.sqlite import CancelToken, DatabaseUnusable
from elwood.foundation.text.words import asked as words_of
from elwood.foundation.text.words import having

log = logging.getLogger("elwood.memory")

# The index, in the state folder.
INDEX = "threads.db"
# Pages of one kind that are looked at: 27 years of days.
MAX_PAGES = 10_000
# Pages that are read for one search, as many as it may show: of each, what fits is picked out.
MAX_READ = 20
# Pages that are indexed in one transaction: a day has as much to it as a hundred notes.
STEP = 16
_DAILY = "threads/daily/"
# Bytes of one page that are read: all characters may be long ones.
_MAX_FILE = 4 * MAX_DAILY


class PageFiles:
    """The pages in ``threads/`` of the folder *root*; their keys are their paths."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._there: frozenset[str] = frozenset()

    def stamps(self) -> Iterator[tuple[str, str]]:
        """Go through all pages, by path and stamp, in no order."""
        found = [one for folder in FOLDERS for one in self._of(folder)]
        self._there = frozenset(path for path, _ in found)
        yield from found

    def read(self, key: str) -> Filed | None:
        """Read a page; None if there is none, or nothing that we may read."""
        try:
            with self._root.file(key) as file:
                data, found, untrusted = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        except (PathRefused, Unconfined):
            return None
        text = data[:_MAX_FILE].decode("utf-8", "replace")
        note = page(key, text, untrusted=untrusted)
        return None if note is None else Filed(note, stamp(found), len(data) <= _MAX_FILE, data)

    def document(self, key: str) -> Document | None:
        """Read what the index takes in of a page; None if there is none."""
        return document_of(self.read(key))

    def there(self, key: str) -> bool:
        """Tell whether there was a page of this path when they were last gone through."""
        return key in self._there

    def _of(self, folder: str) -> list[tuple[str, str]]:
        try:
            found = self._root.stats(folder, MAX_PAGES)
        except PathMissing:
            return []
        except (PathRefused, Unconfined) as error:
            log.warning("pages are not searched", extra={"why": str(error)})
            return []
        named = FOLDERS[folder]
        return [(f"{folder}/{name}", stamp(stat)) for name, stat in found if named.fullmatch(name)]


class Pages(IndexedFiles):
    """The pages of the folder *workspace*, and their index in the folder *state*."""

    def __init__(self, state: Path, workspace: Path) -> None:
        self._root = Root(workspace)
        self._pages = PageFiles(self._root)
        super().__init__(self._pages, state / INDEX, Files(self._pages), step=STEP)

    def search(self, asked: SearchQuery, limit: int, cancel: CancelToken) -> list[Note]:
        """Find what the *limit* best pages say, as their files are now.  Raises Abandoned."""
        chosen = words_of(asked.query)
        found: list[Note] = []
        for key in ranked(self.by(lambda store: store.search(asked, cancel)))[:MAX_READ]:
            if len(found) == limit:
                break
            filed = self._pages.read(key)
            said = None if filed is None else excerpt(filed.note, chosen)
            if said is not None:
                found.append(said)
        return found

    def forget(self, note: Note) -> list[str]:
        """Blank what entries say of *note* (`core.entries`); name the pages that still say it.

        Those are people's words, or pages that we may not write.  Raises Unconfined and
        DatabaseUnusable.
        """
        chosen = words_of(note.text)
        asked = SearchQuery(query=note.text, now=-math.inf, words="all")
        keys = {hit.key for hit in self.by(lambda store: store.search(asked, CancelToken()))}
        # What was written a moment ago may not have been looked at yet.
        days = (name for name, _ in self._pages.stamps() if name.startswith(_DAILY))
        keys.update(sorted(days)[-DAYS:])
        left = []
        for key in sorted(keys):
            try:
                try:
                    said = self._cleanse(key, chosen, note.key)
                except PathRefused:  # perhaps a turn was written into it at this very moment
                    said = self._cleanse(key, chosen, note.key)
            except PathMissing:
                self._take_in(key)  # removed since it was looked at
                continue
            except PathRefused:
                left.append(key)  # whoever sees to it must not be kept from the others
                continue
            if any(having(one.text, chosen) == len(chosen) for one in passages(said)):
                left.append(key)
        return left

    def _cleanse(self, key: str, chosen: Sequence[str], about: str) -> str:
        """Blank what the page *key* says; return what it says then."""
        with self._root.file(key) as file:
            data, found, untrusted = file.read(_MAX_FILE + 1), file.stat, file.untrusted
        text = data.decode("utf-8", "surrogateescape")
        clean = cleansed(text, chosen, about)
        if clean == text or len(data) > _MAX_FILE:
            return text
        written = clean.encode("utf-8", "surrogateescape")
        self._root.write(key, written, untrusted=untrusted, expect=found)
        self._take_in(key)
        return clean

    def _take_in(self, key: str) -> None:
        """Let no byte of what the page *key* said before stay in the index."""
        if self.index.exists:
            self._need_open()
            self.index.drop([key])
            if (found := self._pages.document(key)) is not None:
                self.index.put([found])


def forget(memory: Memory, pages: Pages | None, keys: Sequence[str]) -> Forgotten:
    """Forget these notes, also in the daily notes; name the pages that still say one of them.

    Those are the owner's to edit.  Raises DiskFull and JournalBroken, as `Memory.forget`.
    """
    notes = memory.read(keys)
    forgotten = memory.forget(keys)
    if pages is None:
        return forgotten
    try:
        found = [page for note in notes for page in pages.forget(note)]
    except (Unconfined, DatabaseUnusable) as error:
        why = f"the daily notes may still say it ({error})"
        return attrs.evolve(forgotten, why=f"{forgotten.why}; {why}".removeprefix("; "))
    return attrs.evolve(forgotten, pages=tuple(sorted(set(found))))


def search(
    memory: Memory,
    pages: Pages | None,
    asked: SearchQuery,
    limit: int,
    cancel: CancelToken,
    model: str = "",
) -> list[Note]:
    """Find the *limit* best notes and pages (`core.recall.joined`).  Raises Abandoned."""
    notes = memory.search(asked, limit, cancel, model)
    if pages is None:
        return notes
    return joined(notes, pages.search(asked, limit, cancel), words_of(asked.query))[:limit]
