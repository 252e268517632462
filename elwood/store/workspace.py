"""The workspace's documents, as they stand now.

They are looked at again and again, so that an edit counts soon; a file that has not changed is not
read again.
"""

import os
from pathlib import Path

import attrs

import elwood
from elwood.core.context import NAMES, Documents
from elwood.runtime import Blocking
from elwood.store.confined import PathMissing, PathRefused
from elwood.store.files import Root

# Of one document, in bytes; far more than a model should be told each time.
MAX_DOCUMENT = 64 << 10


@attrs.frozen
class _Read:
    """A document as it was when its file had the stamp *stamp*; *note* says what is wrong."""

    stamp: tuple[int, ...] | None
    text: str | None
    note: str | None = None


class Workspace:
    """The documents in the folder *root*."""

    def __init__(self, root: Root, blocking: Blocking) -> None:
        self._root = root
        self._blocking = blocking
        self._known: dict[str, _Read] = {}
        self._documents = Documents()

    async def documents(self) -> Documents:
        """Read the documents that changed since the last time.

        What did not change as a whole is the same object as before.  Raises Unconfined.
        """
        known, documents = await self._blocking(self._look)
        self._known = known
        if documents != self._documents:
            self._documents = documents
        return self._documents

    def _look(self) -> tuple[dict[str, _Read], Documents]:
        known = {name: self._read(name) for name in NAMES}
        texts = {name: read.text for name, read in known.items() if read.text is not None}
        notes = tuple(read.note for read in known.values() if read.note is not None)
        return known, Documents(texts, notes)

    def _read(self, name: str) -> _Read:
        before = self._known.get(name)
        try:
            seen = self._root.seen(f"{name}.md")
            if seen is None:
                return _Read(None, None)
            # A link has another stamp than what was read through it, so it is followed each time.
            if before is not None and before.stamp == _stamp(seen):
                return before
            with self._root.file(f"{name}.md") as file:
                stamp = _stamp(file.stat)
                if before is not None and before.stamp == stamp:
                    return before
                content = file.read(MAX_DOCUMENT + 1)
        except PathMissing:
            return _Read(None, None)
        except PathRefused as error:
            return _Read(None, None, f"{name}.md could not be read: it {error.why}.")
        text = content[:MAX_DOCUMENT].decode("utf-8-sig", "replace")
        if len(content) <= MAX_DOCUMENT:
            return _Read(stamp, text)
        limit = f"{MAX_DOCUMENT >> 10} KiB"
        # The last character may have been cut in the middle: that is no error of the file.
        text = text.rstrip("\ufffd")
        return _Read(stamp, text, f"{name}.md is longer than {limit}; the rest is left out.")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Make what changes whenever a file is written, replaced, linked to, or closed to us."""
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_nlink


def default_documents() -> Path:
    """Find the documents that Elwood ships: in the installed package, or beside it in a checkout.

    Raises FileNotFoundError if the installation is not whole.
    """
    package = Path(elwood.__file__).parent
    for folder in (package / "workspace", package.parent / "workspace"):
        if (folder / "SOUL.md").is_file():
            return folder
    raise FileNotFoundError(f"no default documents in {package}; install Elwood anew")
