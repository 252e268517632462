"""Folders outside of the workspace that commands may read, and nothing of them may be changed.

They are named by the owner, and resolved once: whatever a link in them says, a command finds no
more than what lies in them, as each rung leads it by names of its own or forbids the rest.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import attrs

from elwood.foundation.sandbox.layout import Guarded, inside, secrets

# Where they are, in the rungs that can put them there; each has a number.
SKILLS = "/skills"


@attrs.frozen
class Lent:
    """The folder *path* of this machine; *place* is where a rung puts it that can."""

    path: Path
    place: str


def lend(
    folders: Sequence[Path], workspace: Path, state: Path, home: Path
) -> tuple[tuple[Lent, ...], tuple[str, ...]]:
    """Choose which of *folders* commands may read; the sentences say which not, and why.

    Those in *workspace* can be read anyway, and by commands replaced: they are not lent.  What
    holds one of the three, or lies in the *state* folder, is not either.  Blocks.
    """
    whole = {"state folder": state, "home folder": home, "workspace": workspace}
    lent: list[Lent] = []
    refused: list[str] = []
    for number, folder in enumerate(folders, 1):
        real = folder.resolve()
        if real.is_relative_to(workspace):
            continue
        what = next((what for what, path in whole.items() if path.is_relative_to(real)), None)
        if what is not None:
            refused.append(f"commands cannot read {folder}, as the {what} lies in it")
            continue
        if real.is_relative_to(state):
            refused.append(f"commands cannot read {folder}, as it lies in the state folder")
            continue
        lent.append(Lent(real, f"{SKILLS}/{number}"))
    return tuple(lent), tuple(refused)


def with_lent(found: Guarded | None, lent: Sequence[Lent]) -> Guarded | None:
    """Add to what is kept from a command of the workspace which of *lent* are there, and of them.

    Blocks.
    """
    if found is None:
        return None
    there = present(lent)
    covered = [
        (f"{one.place}/{path}", is_folder) for one in there for path, is_folder in secrets(one.path)
    ]
    return attrs.evolve(
        found,
        lent=tuple((str(one.path), one.place) for one in there),
        lent_secrets=tuple(covered),
    )


def present(lent: Sequence[Lent]) -> list[Lent]:
    """List those that are folders now, and that we may look at; blocks."""
    return [one for one in lent if os.path.isdir(one.path) and os.access(one.path, os.R_OK)]


def moved(path: Path, workspace: Path, lent: Sequence[Lent]) -> str | None:
    """Say where commands find *path* in a rung that gives folders places of its own; blocks.

    None if they do not find it.
    """
    real = path.resolve()
    if real.is_relative_to(workspace):
        return inside(str(real.relative_to(workspace)))
    for one in lent:
        if real.is_relative_to(one.path):
            return os.path.normpath(f"{one.place}/{real.relative_to(one.path)}")
    return None


def unmoved(path: Path, workspace: Path, lent: Sequence[Lent]) -> str | None:
    """Say where commands find *path* in a rung that leaves folders where they are; blocks.

    None if they do not find it.
    """
    real = path.resolve()
    roots = (workspace, *(one.path for one in lent))
    return str(real) if any(real.is_relative_to(root) for root in roots) else None
