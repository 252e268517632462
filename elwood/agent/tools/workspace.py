"""The files that tools may reach: where a path leads, and what a refused one means to a model."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from elwood.agent.tools.tool import ToolFailure
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name

SandboxPlace = Callable[[Path], str | None]
"""Says where commands find a path of this machine; None if they do not.  Blocks."""


class WorkspaceFiles:
    """The workspace *root*, and the folders *lent* to be read; commands see them at *places*.

    What is lent, and where it is seen, is looked at with each path: both may grow until then.
    """

    def __init__(
        self, root: Root, lent: Sequence[Root] = (), places: Sequence[SandboxPlace] = ()
    ) -> None:
        self.root = root
        self._lent = lent
        self._places = places

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
            for place in self._places:
                if (seen := place(root.path)) is not None:
                    yield seen, root


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
