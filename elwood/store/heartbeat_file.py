"""HEARTBEAT.md of the workspace: what the owner wrote, and nobody else."""

import attrs

from elwood.core.heartbeat import FILE
from elwood.store.files import Root
from elwood.store.workspace import Page, look


@attrs.frozen
class Written:
    """The text of HEARTBEAT.md, "" if there is none; *problem* says why not, or not all of it."""

    text: str = ""
    problem: str = ""


class HeartbeatFile:
    """The file in the folder *root*; it is read again only if it has changed."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._page = Page()
        self._written = Written()

    def read(self) -> Written:
        """Return what is written: the same object as before if that has not changed; blocks.

        What strangers may have written is refused: it would become tasks.  Raises Unconfined.
        """
        self._page = page = look(self._root, FILE, self._page)
        problem = page.note or ""
        if page.untrusted:
            problem = (
                f"{FILE} was written after content from strangers had been read, so it counts for "
                "nothing; look through it and save it yourself."
            )
        written = Written("" if page.untrusted else page.text or "", problem)
        if written != self._written:
            self._written = written
        return self._written
