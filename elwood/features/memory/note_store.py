"""The files of notes and their index: the files are written first.

Everything here blocks.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from elwood.features.memory.file_search import Files
from elwood.features.memory.note_files import NoteFiles
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.sqlite import DatabaseUnusable

log = logging.getLogger("elwood.memory")


class Shelf(IndexedFiles):
    """The notes in *state*/memory, and *state*/memory.db."""

    def __init__(self, state: Path, disk: Disk) -> None:
        self.files = NoteFiles(state / "memory", disk)
        super().__init__(self.files, state / "memory.db", Files(self.files))

    def open(self) -> None:
        """Remove what a crash has left; open the index for writing, if there is one."""
        self.files.sweep()
        super().open()

    def twins(self, said: bytes) -> list[str]:
        """Name the notes that say the same, as far as the index knows."""
        found: list[str] = []
        if self.index.exists:
            self._attempt(lambda: found.extend(self.index.twin(said)))
        return found

    def put(self, key: str, data: bytes) -> None:
        """Let the note be *data*, on the disk when this returns.

        Raises DiskFull, JournalBroken.
        """
        is_new = not self.files.there(key)
        self.is_empty = False
        self.files.write(key, data)
        if is_new and self._count is not None:
            self._count += 1
        found = self.files.document(key)
        if found is None:
            return

        def index() -> None:
            self._need_open()
            self.index.put([found])

        if not self._attempt(index):
            self._missed += 1

    def remove(self, keys: Sequence[str]) -> None:
        """Remove these notes: no byte of them stays.

        Raises DiskFull, JournalBroken and DatabaseUnusable.
        """
        self._count = None
        for key in keys:
            self.files.remove(key)
        if not keys or not self.index.exists:
            return
        try:
            self._need_open()
            self.index.drop(keys)
        except DatabaseUnusable as error:
            # Then the index goes as a whole: it can be made anew, and must not keep them.
            log.warning("memory index thrown away", extra={"why": str(error)})
            self.index.discard()
