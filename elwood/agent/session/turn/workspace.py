"""The workspace's documents, as they stand now.

They are looked at again and again, so that an edit counts soon; a file that has not changed is not
read again.
"""

import os
from pathlib import Path

import msgspec

import elwood
from elwood.agent.session.turn.context import NAMES, Documents
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Root

# Of one document, in bytes; far more than a model should be told each time.
MAX_DOCUMENT = 64 << 10

# Said to the model of a document that does not count.
STRANGE = (
    "{}.md was written after content from strangers had been read, so it is left out until its "
    "owner has looked through it and saved it anew."
)


class StampedDocument(msgspec.Struct, frozen=True):
    """A document as it was when its file had the stamp *stamp*; *note* says what is wrong.

    *untrusted* is as in `store.files.File`.
    """

    stamp: tuple[int, ...] | None = None
    text: str | None = None
    note: str | None = None
    untrusted: bool = False


class Workspace:
    """The documents in the folder *root*."""

    def __init__(self, root: Root, blocking: Blocking) -> None:
        self._root = root
        self._blocking = blocking
        self._known: dict[str, StampedDocument] = {}
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

    def _look(self) -> tuple[dict[str, StampedDocument], Documents]:
        known = {name: look(self._root, f"{name}.md", self._known.get(name)) for name in NAMES}
        trusted = {name: page for name, page in known.items() if not page.untrusted}
        texts = {name: page.text for name, page in trusted.items() if page.text is not None}
        notes = [page.note for page in trusted.values() if page.note is not None]
        # A tool may not write them then, but a link can lead to anything, and files are moved.
        notes += [STRANGE.format(name) for name in known if name not in trusted]
        return known, Documents(texts, tuple(notes))


def look(root: Root, name: str, before: StampedDocument | None = None) -> StampedDocument:
    """Read the document *name*, unless its file is as it was *before*; blocks.

    Raises Unconfined.
    """
    try:
        seen = root.seen(name)
        if seen is None:
            return StampedDocument()
        # A link has another stamp than what was read through it, so it is followed each time.
        if before is not None and before.stamp == _stamp(seen):
            return before
        with root.file(name) as file:
            stamp = _stamp(file.stat)
            if before is not None and before.stamp == stamp:
                return before
            content = file.read(MAX_DOCUMENT + 1)
            untrusted = file.untrusted
    except PathMissing:
        return StampedDocument()
    except PathRefused as error:
        return StampedDocument(note=f"{name} could not be read: it {error.why}.")
    text = content[:MAX_DOCUMENT].decode("utf-8-sig", "replace")
    if len(content) <= MAX_DOCUMENT:
        return StampedDocument(stamp, text, untrusted=untrusted)
    # The last character may have been cut in the middle: that is no error of the file.
    text = text.rstrip("\ufffd")
    note = f"{name} is longer than {MAX_DOCUMENT >> 10} KiB; the rest is left out."
    return StampedDocument(stamp, text, note, untrusted)


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
