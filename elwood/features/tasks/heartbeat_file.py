"""HEARTBEAT.md of the workspace: what the owner wrote, and nobody else."""

import attrs

from elwood.agent.session.turn.workspace import Page, look
from elwood.features.tasks.heartbeat import FILE
from elwood.foundation.storage.files import Root


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
        self._was_without = False

    def read(self) -> Written:
        """Return what is written: the same object as before if that has not changed; blocks.

        What is gone, empty or closed to us counts when it is found so twice in a row: editors put
        another file in the place of the old one, or empty it first, and its tasks would lose what
        is known of them.  What strangers may have written is refused: it would become tasks.
        Raises Unconfined.
        """
        self._page = page = look(self._root, FILE, self._page)
        was_without, self._was_without = self._was_without, not page.text
        if self._was_without and not was_without and self._written.text:
            return self._written
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
