"""The files that tools may reach: where a path leads, and what a refused one means to a model."""

from collections.abc import Iterator

from elwood.agent.tools.tool import Hands, ToolFailure
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name


def reached(hands: Hands, path: str) -> tuple[Root, str]:
    """Say which root the *path* is in, and where there; blocks.

    An absolute path may be as commands see it, or as it is on this machine.  What is beneath none
    of the roots is left to the workspace, which refuses it.
    """
    if path.startswith("/"):
        for start, root in _roots(hands):
            if path == start or path.startswith(f"{start}/"):
                return root, path[len(start) :].strip("/") or "."
    return hands.root, path


def _roots(hands: Hands) -> Iterator[tuple[str, Root]]:
    for root in (hands.root, *(hands.skills.packages if hands.skills is not None else ())):
        yield str(root.path), root
        place = None if isinstance(hands.sandbox, NoSandbox) else hands.sandbox.place(root.path)
        if place is not None:
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
