"""Find, install and remove skills in the workspace and in other folders.

Each search checks all folders, so that an edit counts soon; it reads again only if a folder or a
SKILL.md has changed.  Files written after strangers' content was read are ignored.  Searches run in
a thread; everything else here blocks.
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

# Folders of skills in the workspace; the first skill of a name wins.
PLACES = ("skills", ".agents/skills")
# Depth of nested folders, and number of folders that are searched (the bounds of the guide for
# clients of Agent Skills).
MAX_DEPTH, MAX_FOLDERS = 4, 2000
# Entries of one folder, and of a skill.
MAX_ENTRIES = 2000
# Skills that are read: a prompt lists far fewer.
MAX_SKILLS = 500
_SKIPPED = frozenset({"node_modules", "__pycache__"})


@attrs.frozen
class FoundSkill:
    """A skill and its location."""

    skill: Skill
    root: Root = attrs.field(eq=False, repr=False)
    folder: str  # relative to *root*
    is_inside: bool  # in the workspace, where it may be changed
    chats: frozenset[str] = frozenset()  # the only chats that may use it, if any

    def is_open(self, route: Route) -> bool:
        return not self.chats or route.address in self.chats

    @property
    def path(self) -> Path:
        return self.root.path / self.folder


class FoundSkills(msgspec.Struct, frozen=True):
    """All skills, sorted by name, and the problems of others, as sentences for the owner."""

    skills: tuple[FoundSkill, ...] = ()
    problems: tuple[str, ...] = ()

    def place_of(self, name: str) -> str:
        """Return the path of the skill *name*, or ""."""
        found = next((one for one in self.skills if one.skill.name == name), None)
        return "" if found is None else found.folder if found.is_inside else str(found.path)


# Stamp of a SKILL.md, and its parsed content.
_Read = tuple[tuple[int, ...], Skill | Unusable]


class SkillStore:
    """The skills in the workspace *root* and in the folders of *settings*.

    Disabled skills are left out.  A name in the settings without a skill is reported as a problem,
    as the skill may still be installed.
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
        # Stamps and result of the last search without problems.
        self._last: tuple[Stamps, FoundSkills] = ({}, FoundSkills())
        self._found = FoundSkills()

    async def list_skills(self) -> FoundSkills:
        """Search all skills; return the same object as before if nothing changed."""
        stamps, last = self._last
        found = last if is_unchanged(stamps) else await self._blocking(self.read_changes)
        if found != self._found:
            for problem in set(found.problems) - set(self._found.problems):
                log.warning("skill has a problem", extra={"problem": problem})
            self._found = found
        return self._found

    def read_changes(self) -> FoundSkills:
        """Read the changed skills; blocks.

        Skills with problems are read each time: a running command may be the reason, and it leaves
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
                problems.append(
                    f"{path}: there are more than {MAX_SKILLS} skills; the rest is ignored"
                )
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
        """Yield the folders that have a SKILL.md; their subfolders belong to them.

        Add the stamp of each folder, taken before it is read, to *stamps*.
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
                    if place != "." and folder == place and root.locate(place).rstrip("/") != place:
                        problems.append(f"{path} is a link, and skills behind links are ignored")
                        continue
                    items, more = root.items(folder, MAX_ENTRIES)
                except PathMissing:
                    if root is not self._workspace:
                        problems.append(f"skills.folders: there is no folder {path}")
                    continue
                except (PathRefused, Unconfined) as error:
                    problems.append(f"{path} cannot be read: {error}")
                    continue
                if any(item.name == MANUAL and item.kind != "folder" for item in items):
                    yield root, folder
                    continue
                if more or left == 0:
                    problems.append(f"{path}: too many folders; the rest is ignored")
                if left == 0:
                    break
                for item in items:
                    is_skipped = item.name.startswith(".") or item.name in _SKIPPED
                    if item.kind != "folder" or is_skipped or depth == MAX_DEPTH:
                        continue
                    if item.untrusted:
                        why = "was created after content from strangers was read"
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


def describe_missing(skill: Skill) -> str | None:
    """Describe the missing requirements of *skill*; None if there are none."""
    reasons = []
    if missing := missing_programs(skill.programs):
        reasons.append(f"programs that are not installed where commands run: {', '.join(missing)}")
    if skill.variables:
        names = ", ".join(skill.variables)
        what = "environment variables, which commands do not get (an MCP server may have secrets)"
        reasons.append(f"{what}: {names}")
    return f"it needs {', and '.join(reasons)}" if reasons else None


# --- installing and removing ----------------------------------------------------------------------

# Folder of the workspace for installed skills.
OWN = "skills"
_TEMPORARY = ".elwood-skill-"


class SkillRefused(Exception):
    """This skill cannot be installed or removed; the text is the reason, for the user."""


class Installed(msgspec.Struct, frozen=True):
    """The origin of an installed skill."""

    source: str
    digest: str
    commit: str = ""


def refuse_second(workspace: Path, name: str) -> None:
    """Raise SkillRefused if the *workspace* has a skill in the folder *name*."""
    if os.path.lexists(_own(workspace) / name):
        raise SkillRefused(f"the skill {name} exists already; remove it first")


def install(workspace: Path, offered: Candidate) -> None:
    """Install the skill into the *workspace*, completely or not at all.

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


def read_installed(folder: Path) -> Installed | None:
    """Return the origin of the skill in *folder*; None if unknown."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=Installed)
    except (OSError, msgspec.DecodeError):
        return None


def _own(workspace: Path) -> Path:
    own = workspace / OWN
    if own.is_symlink():
        raise SkillRefused(f"{own} is a link, but must be a folder")
    return own


def read_tree(root: Root, source: str) -> list[SkillFile]:
    """Read the files of a skill in the folder *source* of *root*; leave out .git and secrets.

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
            raise SkillRefused(f"{path!r}: it is a link, or not a regular file")
        if item.kind == "file" and path != RECORD:
            with root.file(item.name) as file:
                content = file.read(room + 1)
                files.append(SkillFile(path, content, bool(file.stat.st_mode & 0o100)))
            room -= len(content)
        if more or room < 0 or len(files) > MAX_FILES:
            raise SkillRefused(f"it has more than {MAX_FILES} files or {MAX_BYTES:,} bytes")
    return files


def _write(folder: Path, files: tuple[SkillFile, ...]) -> None:
    """Write *files* into the new *folder*, for its owner only, and sync them."""
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
