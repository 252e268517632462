"""The skills that lie in the workspace and in other folders, as they are now.

They are looked for again and again, so that an edit counts soon; a SKILL.md that has not changed is
not read again.  What was written after strangers' words were read is no skill.
"""

import logging
import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import attrs

from elwood.features.skills.offered import MANUAL
from elwood.features.skills.skill import MAX_FILE, Skill, Unusable, parse
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root

log = logging.getLogger("elwood.skills")

# Where skills lie in the workspace; what is found first wins.
PLACES = ("skills", ".agents/skills")
# Folders within a place, one in the other, and folders of all places that are looked at (the
# bounds that the guide for clients of Agent Skills names).
MAX_DEPTH, MAX_FOLDERS = 4, 2000
# Entries of one folder.
MAX_ENTRIES = 2000
# Of all skills that are read: a prompt lists far fewer.
MAX_SKILLS = 500
# Files of a skill that are told of.
MAX_LISTED = 30
_SKIPPED = frozenset({"node_modules", "__pycache__"})


@attrs.frozen
class FoundSkill:
    """A skill where it lies: in *folder*, which is beneath *root*.

    *is_inside* tells that this is the workspace, where it may be changed.
    """

    skill: Skill
    root: Root = attrs.field(eq=False, repr=False)
    folder: str
    is_inside: bool

    @property
    def place(self) -> str:
        """Where it lies, for its owner."""
        return self.folder if self.is_inside else str(self.root.path / self.folder)


@attrs.frozen
class FoundSkills:
    """All skills, by name, and what is wrong with others, in sentences for the owner."""

    skills: tuple[FoundSkill, ...] = ()
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> FoundSkill | None:
        """Return the skill called *name*."""
        return next((one for one in self.skills if one.skill.name == name), None)

    def place_of(self, name: str) -> str:
        """Say where the skill called *name* lies; empty if there is none."""
        placed = self.named(name)
        return placed.place if placed is not None else ""


@attrs.frozen
class _Read:
    stamp: tuple[int, ...]
    read: Skill | Unusable


class SkillStore:
    """The skills beneath the workspace *root*, and in *packages*, which are only read.

    The folders of these are `packages`.

    Those called *off* are not used, and are nowhere named.
    """

    def __init__(
        self,
        root: Root,
        blocking: Blocking,
        packages: Sequence[Path] = (),
        *,
        off: Collection[str] = (),
    ) -> None:
        self._places = [
            *((root, place, True) for place in PLACES),
            *((Root(path), ".", False) for path in packages),
        ]
        self.packages = tuple(root for root, _, is_inside in self._places if not is_inside)
        self._blocking = blocking
        self._off = frozenset(off)
        self._known: dict[tuple[Path, str], _Read] = {}
        self._found = FoundSkills()

    async def found(self) -> FoundSkills:
        """Look at all skills; what did not change as a whole is the same object as before."""
        known, found = await self._blocking(self.look)
        self._known = known
        if found != self._found:
            for problem in set(found.problems) - set(self._found.problems):
                log.warning("skill not as it should be", extra={"problem": problem})
            self._found = found
        return self._found

    def look(self) -> tuple[dict[tuple[Path, str], _Read], FoundSkills]:
        """Read what changed; blocks, and changes nothing."""
        known: dict[tuple[Path, str], _Read] = {}
        skills: dict[str, FoundSkill] = {}
        problems: list[str] = []
        left = MAX_FOLDERS
        for root, place, is_inside in self._places:
            where = place if is_inside else str(root.path)
            walked = _Walk(root, place, left)
            for folder in walked:
                if len(known) == MAX_SKILLS:
                    problems.append(f"{where}: of more than {MAX_SKILLS} skills the rest is left")
                    break
                name = folder if is_inside else f"{root.path}/{folder}"
                try:
                    read = self._read(root, folder, place)
                except (PathRefused, Unconfined) as error:
                    problems.append(f"{name}: {MANUAL} cannot be read: {error}")
                    continue
                known[root.path, folder] = read
                if isinstance(read.read, Unusable):
                    problems.append(f"{name}: {read.read.why}")
                    continue
                if read.read.name in self._off:
                    continue
                problems += [f"{name}: {warning}" for warning in read.read.warnings]
                first = skills.setdefault(
                    read.read.name, FoundSkill(read.read, root, folder, is_inside)
                )
                if first.folder != folder or first.root is not root:
                    problems.append(f"{name}: hidden by {first.folder}, which has the same name")
            problems += [f"{where}: {problem}" for problem in walked.problems]
            left = walked.left
        ordered = tuple(skills[name] for name in sorted(skills))
        return known, FoundSkills(ordered, tuple(problems))

    def _read(self, root: Root, folder: str, place: str) -> _Read:
        before = self._known.get((root.path, folder))
        with root.file(f"{folder}/{MANUAL}") as file:
            # A mark, too, changes the time of the last change.
            stamp = _stamp(file.stat)
            if before is not None and before.stamp == stamp:
                return before
            if file.untrusted:
                why = "SKILL.md was written after content from strangers had been read"
                return _Read(stamp, Unusable(why))
            name = (root.path if folder == "." else Path(folder)).name
            return _Read(stamp, parse(file.read(MAX_FILE + 1), name))


class _Walk:
    """Finds the folders beneath *place* that have a SKILL.md; what is in one belongs to it."""

    def __init__(self, root: Root, place: str, left: int) -> None:
        self._root = root
        self._place = place
        self.left = left
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[str]:
        waiting = deque([(self._place, 0)])
        while waiting:
            folder, depth = waiting.popleft()
            if self.left == 0:
                self.problems.append(f"more than {MAX_FOLDERS} folders; the rest is not looked at")
                return
            self.left -= 1
            try:
                items, more = self._root.items(folder, MAX_ENTRIES)
            except PathMissing:
                continue
            except (PathRefused, Unconfined) as error:
                self.problems.append(f"{folder} cannot be looked at: {error}")
                continue
            if more:
                why = f"has more than {MAX_ENTRIES} entries; the rest is not looked at"
                self.problems.append(f"{folder} {why}")
            if any(item.name == MANUAL and item.kind != "folder" for item in items):
                yield folder
                continue
            if depth == MAX_DEPTH:
                continue
            for item in items:
                if item.kind != "folder" or item.name.startswith(".") or item.name in _SKIPPED:
                    continue
                below = item.name if folder == "." else f"{folder}/{item.name}"
                if item.untrusted:
                    self.problems.append(f"{below} was made after content from strangers was read")
                else:
                    waiting.append((below, depth + 1))


def files_of(placed: FoundSkill) -> tuple[list[str], bool]:
    """List the files of a skill, but SKILL.md, with their sizes; the flag says there are more.

    Blocks.  Raises PathRefused and Unconfined.
    """
    items, more = placed.root.walk(placed.folder, MAX_ENTRIES)
    prefix = "" if placed.folder == "." else f"{placed.folder}/"
    lines = [
        f"{name} ({item.size:,} bytes)"
        for item in items
        if item.kind == "file"
        and not item.untrusted
        and not (name := item.name.removeprefix(prefix)).startswith(".")
        and name != MANUAL
    ]
    return lines[:MAX_LISTED], more or len(lines) > MAX_LISTED


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Make what changes whenever a file is written, replaced, marked, linked to, or closed."""
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino
