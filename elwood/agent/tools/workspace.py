"""The files that tools may reach: where a path leads, and what a refused one means to a model."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from elwood.agent.tools.tool import ToolFailure
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name


class WorkspaceFiles:
    """The workspace *root*, and the folders *lent* to be read.

    *place* says where commands find a path of this machine, None if they do not; it blocks.  What
    is lent is looked at with each path: there may be more of it by then.
    """

    def __init__(
        self,
        root: Root,
        lent: Sequence[Root] = (),
        place: Callable[[Path], str | None] = lambda path: None,
    ) -> None:
        self.root = root
        self._lent = lent
        self._place = place

    def reached(self, path: str) -> tuple[Root, str]:
        """Say which root the *path* is in, and where there; blocks.

        An absolute path may be as commands see it, or as it is on this machine.  What is beneath
        none of the roots is left to the workspace, which refuses it.
        """
        if path.startswith("/"):
            for start, root in self._starts():
                if path == start or path.startswith(f"{start}/"):
                    return root, path[len(start) :].strip("/") or "."
        return self.root, path

    def _starts(self) -> Iterator[tuple[str, Root]]:
        for root in (self.root, *self._lent):
            yield str(root.path), root
            if (place := self._place(root.path)) is not None:
                yield place, root


def path_failure(path: str, error: PathRefused | Unconfined) -> ToolFailure:
    """Say to the model why *path* was refused."""
    name = escape_name(path) or "the path"
    match error:
        case PathMissing():
            return ToolFailure(f"{name} {error.why}; list_files shows what is there")
        case PathRefused():
            return ToolFailure(f"{name}: {error.why}")
        case Unconfined():
            return ToolFailure(f"files cannot be used on this machine: {error}")
