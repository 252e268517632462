"""The skills in the workspace and in other folders: found as they are now, placed, removed.

They are looked for again and again, so that an edit counts soon; where no folder and no SKILL.md
has changed, nothing is read again.  What was written after strangers' words were read is no
skill.  Finding runs in a thread; everything else here blocks.
"""

import logging
import os
import secrets
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

import attrs
import msgspec

from elwood.agent.conversation.route import Route, addresses
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.skill import (
    MANUAL,
    MAX_BYTES,
    MAX_FILE,
    MAX_FILES,
    RECORD,
    Candidate,
    Skill,
    SkillFile,
    Unusable,
    is_name,
    parse,
)
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.layout import missing_programs
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.disk import sync_folder
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.stamps import Stamp, Stamps, is_settled, is_unchanged, stamp_file

log = logging.getLogger("elwood.skills")

# Where skills lie in the workspace; what is found first wins.
PLACES = ("skills", ".agents/skills")
# Folders within a place, one in the other, and folders of each that are looked at (the bounds that
# the guide for clients of Agent Skills names).
MAX_DEPTH, MAX_FOLDERS = 4, 2000
# Entries of one folder, and of a skill.
MAX_ENTRIES = 2000
# Of all skills that are read: a prompt lists far fewer.
MAX_SKILLS = 500
_SKIPPED = frozenset({"node_modules", "__pycache__"})


@attrs.frozen
class FoundSkill:
    """A skill where it lies: in *folder*, which is beneath *root*.

    *is_inside*: in the workspace, where it may be changed.  Only *chats*, if any, may use it.
    """

    skill: Skill
    root: Root = attrs.field(eq=False, repr=False)
    folder: str
    is_inside: bool
    chats: frozenset[str] = frozenset()

    def is_open(self, route: Route) -> bool:
        return not self.chats or route.address in self.chats

    @property
    def path(self) -> Path:
        return self.root.path / self.folder


class FoundSkills(msgspec.Struct, frozen=True):
    """All skills, by name, and what is wrong with others, in sentences for the owner."""

    skills: tuple[FoundSkill, ...] = ()
    problems: tuple[str, ...] = ()

    def place_of(self, name: str) -> str:
        """Say where the skill called *name* lies; empty if there is none."""
        found = next((one for one in self.skills if one.skill.name == name), None)
        return "" if found is None else found.folder if found.is_inside else str(found.path)


# What was read of a SKILL.md, behind a stamp of the file as it was then.
_Read = tuple[tuple[int, ...], Skill | Unusable]


class SkillStore:
    """The skills beneath the workspace *root*, and in the folders of *settings*.

    Those that are off are not used, and are nowhere named.  A name in the settings that no skill
    has is a problem: a skill may still be placed.
    """

    def __init__(
        self,
        root: Root,
        blocking: Blocking,
        settings: SkillSettings,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.packages = tuple(Root(path, writable=False) for path in settings.folders)
        self._workspace = root
        self._blocking = blocking
        self._off = frozenset(settings.off)
        self._chats = {name: addresses(some) for name, some in settings.chats.items()}
        self._named = {"always": settings.always, "off": settings.off, "chats": (*self._chats,)}
        self._now = now
        self._known: dict[Path, _Read] = {}
        # The last look that found no fault, behind the stamps of all that it depends on.
        self._last: tuple[Stamps, FoundSkills] = ({}, FoundSkills())
        self._found = FoundSkills()

    async def found(self) -> FoundSkills:
        """Look at all skills; what did not change as a whole is the same object as before."""
        stamps, last = self._last
        found = last if is_unchanged(stamps) else await self._blocking(self.look)
        if found != self._found:
            for problem in set(found.problems) - set(self._found.problems):
                log.warning("skill not as it should be", extra={"problem": problem})
            self._found = found
        return self._found

    def look(self) -> FoundSkills:
        """Read what changed; blocks.

        What has a fault is looked at each time: a running command may be the reason, which leaves
        no trace.
        """
        stamps: dict[str, Stamp]
        known_stamps, last = self._last
        if is_unchanged(known_stamps):
            return last
        began, stamps = self._now(), {}
        skills: dict[str, FoundSkill] = {}
        names: set[str] = set()
        problems: list[str] = []
        known: dict[Path, _Read] = {}
        for root, folder in self._folders(problems, stamps):
            path = root.path / folder
            if len(known) == MAX_SKILLS:
                problems.append(f"{path}: of more than {MAX_SKILLS} skills the rest is left")
                break
            manual = str(path / MANUAL)
            stamps[manual] = stamp_file(manual)
            try:
                known[path] = self._read(root, folder)
            except (PathRefused, Unconfined) as error:
                problems.append(f"{path}: {MANUAL} cannot be read: {error}")
                continue
            _, skill = known[path]
            names.add(path.name if isinstance(skill, Unusable) else skill.name)
            if isinstance(skill, Unusable):
                problems.append(f"{path}: {skill.why}")
            elif skill.name in skills:
                first = skills[skill.name].path
                problems.append(f"{path}: hidden by {first}, which has the same name")
            elif skill.name not in self._off:
                is_inside, chats = root is self._workspace, self._chats.get(skill.name, frozenset())
                skills[skill.name] = FoundSkill(skill, root, folder, is_inside, chats)
        for key, given in self._named.items():
            problems += [
                f"skills.{key}: there is no skill {name}{_meant(name, names)}"
                for name in given
                if name not in names
            ]
        self._known = known
        found = FoundSkills(tuple(skills[name] for name in sorted(skills)), tuple(problems))
        is_known = is_settled(stamps, began) and not problems
        self._last = (stamps if is_known else {}, found)
        return found

    def _folders(self, problems: list[str], stamps: dict[str, Stamp]) -> Iterator[tuple[Root, str]]:
        """Give the folders that have a SKILL.md; what is in one belongs to it.

        Adds to *stamps* each folder, as it was before it was looked at.
        """
        places = [(self._workspace, place) for place in PLACES]
        for root, place in [*places, *((package, ".") for package in self.packages)]:
            waiting, left = deque([(place, 0)]), MAX_FOLDERS
            while waiting:
                folder, depth = waiting.popleft()
                path = root.path / folder
                stamps[str(path)] = stamp_file(str(path))
                left -= 1
                try:
                    if (
                        place != "."
                        and folder == place
                        and root.located(place).rstrip("/") != place
                    ):
                        problems.append(f"{path} is a link, and skills are read from no link")
                        continue
                    items, more = root.items(folder, MAX_ENTRIES)
                except PathMissing:
                    if root is not self._workspace:
                        problems.append(f"skills.folders: there is no folder {path}")
                    continue
                except (PathRefused, Unconfined) as error:
                    problems.append(f"{path} cannot be looked at: {error}")
                    continue
                if any(item.name == MANUAL and item.kind != "folder" for item in items):
                    yield root, folder
                    continue
                if more or left == 0:
                    problems.append(f"{path}: too many folders; the rest is not looked at")
                if left == 0:
                    break
                for item in items:
                    is_skipped = item.name.startswith(".") or item.name in _SKIPPED
                    if item.kind != "folder" or is_skipped or depth == MAX_DEPTH:
                        continue
                    if item.untrusted:
                        why = "was made after content from strangers was read"
                        problems.append(f"{path / item.name} {why}")
                    else:
                        below = item.name if folder == "." else f"{folder}/{item.name}"
                        waiting.append((below, depth + 1))

    def _read(self, root: Root, folder: str) -> _Read:
        with root.file(f"{folder}/{MANUAL}") as file:
            found = file.stat
            # Changes whenever the file is written, replaced, marked, linked to, or closed.
            times = (found.st_ctime_ns, found.st_mtime_ns)
            stamp = (*times, found.st_size, found.st_ino, int(file.untrusted))
            known = self._known.get(root.path / folder)
            if known is not None and known[0] == stamp:
                return known
            if file.untrusted:
                why = "SKILL.md was written after content from strangers had been read"
                return stamp, Unusable(why)
            name = (root.path if folder == "." else Path(folder)).name
            return stamp, parse(file.read(MAX_FILE + 1), name)


def _meant(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def lacking(skill: Skill) -> str | None:
    """Say what *skill* needs that commands would not find; None if there is all."""
    reasons = []
    if missing := missing_programs(skill.programs):
        reasons.append(f"programs that are not installed where commands run: {', '.join(missing)}")
    if skill.variables:
        names = ", ".join(skill.variables)
        what = "variables, and Elwood gives commands none of yours (an MCP server may have secrets)"
        reasons.append(f"{what}: {names}")
    return f"it needs {', and '.join(reasons)}" if reasons else None


# --- taking in and removing -----------------------------------------------------------------------

# Folder of the workspace in which skills are placed.
OWN = "skills"
_TEMPORARY = ".elwood-skill-"


class SkillRefused(Exception):
    """This skill cannot be taken, or placed; the text says why, for who asked for it."""


class Installed(msgspec.Struct, frozen=True):
    """Where a skill came from."""

    source: str
    digest: str
    commit: str = ""


def refuse_second(workspace: Path, name: str) -> None:
    """Raise SkillRefused if the *workspace* has a skill in the folder *name*."""
    if os.path.lexists(_own(workspace) / name):
        raise SkillRefused(f"there is a skill {name} already; remove it first")


def install(workspace: Path, offered: Candidate) -> None:
    """Let the skill be one of the *workspace*'s: wholly, or not at all.

    Raises SkillRefused and OSError.
    """
    own, name = _own(workspace), offered.skill.name
    record = Installed(offered.source, offered.digest, offered.commit)
    note = SkillFile(RECORD, msgspec.json.format(msgspec.json.encode(record)))
    own.mkdir(mode=0o700, exist_ok=True)
    for left in own.glob(f"{_TEMPORARY}*"):  # by a crash
        shutil.rmtree(left)
    refuse_second(workspace, name)
    temporary = own / f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        _write(temporary, (*offered.files, note))
        temporary.rename(own / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(own)


def uninstall(workspace: Path, name: str) -> None:
    """Remove the skill in the *workspace*'s folder *name*.  Raises SkillRefused and OSError."""
    own = _own(workspace)
    if not is_name(name) or not (own / name).is_dir() or (own / name).is_symlink():
        raise SkillRefused(f"there is no skill {name!r} in {own}")
    temporary = own / f"{_TEMPORARY}{secrets.token_hex(8)}"
    (own / name).rename(temporary)
    shutil.rmtree(temporary)
    sync_folder(own)


def installed(folder: Path) -> Installed | None:
    """Say where the skill in *folder* came from; None if nobody knows."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Installed)
    except (OSError, msgspec.DecodeError):
        return None


def _own(workspace: Path) -> Path:
    own = workspace / OWN
    if own.is_symlink():
        raise SkillRefused(f"{own} is a link, and skills are kept in no other folder")
    return own


def read_tree(root: Root, source: str) -> list[SkillFile]:
    """Read all files of a skill in the folder *source* of *root*, without git's and with no secret.

    Raises SkillRefused, PathRefused and Unconfined.
    """
    folder = os.path.normpath(source)
    items, more = root.walk(folder, MAX_ENTRIES)
    prefix = "" if folder == "." else f"{folder}/"
    files: list[SkillFile] = []
    room = MAX_BYTES
    for item in items:
        path = item.name.removeprefix(prefix)
        if item.untrusted:
            raise SkillRefused(f"{path!r}: it was written after content from strangers was read")
        if item.kind not in ("file", "folder"):
            raise SkillRefused(f"{path!r}: it is a link, or no plain file")
        if item.kind == "file" and path != RECORD:
            with root.file(item.name) as file:
                content = file.read(room + 1)
                files.append(SkillFile(path, content, bool(file.stat.st_mode & 0o100)))
            room -= len(content)
        if more or room < 0 or len(files) > MAX_FILES:
            raise SkillRefused(f"it has more than {MAX_FILES} files or {MAX_BYTES:,} bytes")
    return files


def _write(folder: Path, files: tuple[SkillFile, ...]) -> None:
    """Write *files* into the new *folder*, for its owner only, on the disk."""
    folder.mkdir(mode=0o700)
    folders = {folder}
    for file in files:
        path = folder / file.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders.add(path.parent)
        mode = 0o700 if file.executable else 0o600
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(fd, "wb") as out:
            out.write(file.content)
            out.flush()
            os.fsync(out.fileno())
    for one in folders:
        sync_folder(one)
