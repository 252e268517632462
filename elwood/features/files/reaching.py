"""Where a path that is only read leads: into the workspace, or into a folder with skills."""

from collections.abc import Iterator

from elwood.agent.tools.tool import Hands
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.storage.files import Root


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
