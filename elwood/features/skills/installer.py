"""Offered skills on their way in: kept until the owner has decided, placed as a whole, removed.

What is kept lies in the state folder, where neither tools nor commands reach it.  Everything here
blocks.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from elwood.features.skills.offered import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    RECORD,
    Candidate,
    SkillFile,
    candidate,
    unfit,
)
from elwood.features.skills.skill import Unusable, is_name
from elwood.foundation.storage.confined import Confined, PathRefused, Unconfined, open_beneath
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.paths import is_git

# Folder of the workspace in which skills are placed.
OWN = "skills"
# Seconds for which an offered skill is kept: twice what a question waits unless set otherwise; and
# for which something half done is left alone, as another process may be doing it.
KEPT, UNDER_WAY = 2 * 86_400.0, 3600.0
# Skills that are kept; the oldest go first.
MAX_KEPT = 20
_TEMPORARY = ".elwood-skill-"


class SkillRefused(Exception):
    """This skill cannot be taken, or placed; the text says why, for who asked for it."""


class Installed(msgspec.Struct, frozen=True):
    """Where a skill came from: *at* is Unix time, *by* says who allowed it."""

    source: str
    digest: str
    at: float
    by: str
    commit: str = ""


class Offer(msgspec.Struct, frozen=True):
    """What is known of an offered skill besides its files."""

    source: str
    commit: str = ""


class SkillInstaller:
    """Keeps offered skills in *kept*, and places them in the folder `OWN` of *workspace*."""

    def __init__(self, kept: Path, workspace: Path, now: Callable[[], float] = time.time) -> None:
        self.kept = kept
        self._workspace = Confined(workspace)
        self._now = now

    def sweep(self) -> None:
        """Remove what a crash left half done, and what was offered long ago."""
        with suppress(OSError):
            kept = sorted(self.kept.iterdir(), key=_changed, reverse=True)
            for number, path in enumerate(kept):
                lasts = UNDER_WAY if path.name.startswith(_TEMPORARY) else KEPT
                if number >= MAX_KEPT or self._now() - _changed(path) > lasts:
                    shutil.rmtree(path, ignore_errors=True)
        with suppress(PathRefused, Unconfined, SkillRefused), self._own(make=False) as own:
            for path in own.iterdir():
                is_left = self._now() - _changed(path) > UNDER_WAY
                if path.name.startswith(_TEMPORARY) and is_left:
                    shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give an empty folder for as long as the block lasts."""
        self.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.kept / f"{_TEMPORARY}{secrets.token_hex(8)}"
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def keep(self, offered: Candidate, offer: Offer) -> None:
        """Keep a skill until it is decided about, under its digest."""
        with _world("the skill could not be kept"), self.scratch() as temporary:
            _write(temporary / "files", offered.files)
            (temporary / "offer.json").write_bytes(msgspec.json.encode(offer))
            place = self.kept / offered.digest
            shutil.rmtree(place, ignore_errors=True)
            temporary.rename(place)
            temporary.mkdir()

    def offered(self, digest: str) -> tuple[Candidate, Offer]:
        """Return the skill that was kept under *digest*, unchanged.  Raises SkillRefused."""
        place = self.kept / digest
        if len(digest) != 64 or not digest.isalnum() or not place.is_dir():
            raise SkillRefused("no such skill waits to be installed; fetch it again")
        found = candidate(read_tree(Root(place / "files"), "."))
        if isinstance(found, Unusable) or found.digest != digest:
            raise SkillRefused("what waits to be installed was changed; fetch it again")
        try:
            offer = msgspec.json.decode((place / "offer.json").read_bytes(), type=Offer)
        except (OSError, msgspec.DecodeError) as error:
            raise SkillRefused("what waits to be installed is not whole; fetch it again") from error
        return found, offer

    def place(self, offered: Candidate, offer: Offer, by: str) -> None:
        """Let the skill be one of the workspace's: wholly, or not at all.  Raises SkillRefused."""
        name = offered.skill.name
        record = Installed(offer.source, offered.digest, self._now(), by, offer.commit)
        with _world(f"{name} was not installed"), self._own(make=True) as own:
            if os.path.lexists(own / name):
                raise SkillRefused(f"there is a skill {name} already; remove it first")
            temporary = own / f"{_TEMPORARY}{secrets.token_hex(8)}"
            try:
                note = SkillFile(RECORD, msgspec.json.format(msgspec.json.encode(record)))
                _write(temporary, (*offered.files, note))
                temporary.rename(own / name)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            _sync(own)

    def remove(self, name: str) -> None:
        """Remove the skill in the workspace's folder *name*.  Raises SkillRefused."""
        if not is_name(name):
            raise SkillRefused(f"{name!r} is no name of a skill")
        with _world(f"{name} was not removed"), self._own(make=False) as own:
            temporary = own / f"{_TEMPORARY}{secrets.token_hex(8)}"
            if not (own / name).is_dir() or (own / name).is_symlink():
                raise SkillRefused(f"there is no skill {name} in {OWN}/ of the workspace")
            (own / name).rename(temporary)
            shutil.rmtree(temporary)
            _sync(own)

    def record(self, name: str) -> Installed | None:
        """Say where the skill in the workspace's folder *name* came from; None if nobody knows."""
        try:
            with self._own(make=False) as own:
                return msgspec.json.decode((own / name / RECORD).read_bytes(), type=Installed)
        except (OSError, msgspec.DecodeError, PathRefused, SkillRefused):
            return None

    @contextmanager
    def _own(self, *, make: bool) -> Iterator[Path]:
        """Open the folder of skills, by no link, and name it by its descriptor."""
        root = self._workspace.root()
        if make:
            with suppress(FileExistsError):
                os.mkdir(OWN, 0o700, dir_fd=root)
        try:
            fd = open_beneath(root, OWN, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            why = f"{OWN}/ of the workspace cannot be opened ({error.strerror})"
            raise SkillRefused(why) from error
        try:
            yield Path(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)


def read_tree(root: Root, folder: str) -> list[SkillFile]:
    """Read all files of a skill, in *folder* beneath *root*.

    Raises SkillRefused, PathRefused and Unconfined.
    """
    files: list[SkillFile] = []
    waiting, room, folders = [("", 0)], MAX_BYTES, 0
    while waiting:
        below, depth = waiting.pop()
        folders += 1
        if depth > MAX_DEPTH or folders > MAX_FILES:
            raise SkillRefused("it has too many folders, or folders too deep in one another")
        items, more = root.items(f"{folder}/{below}" if below else folder, MAX_FILES)
        for item in items:
            path = f"{below}{item.name}"
            if is_git(path) or path == RECORD:
                continue
            why = unfit(path)
            if item.untrusted:
                why = "it was written after content from strangers had been read"
            if item.kind == "folder" and why is None:
                waiting.append((f"{path}/", depth + 1))
                continue
            if item.kind != "file" and why is None:
                why = "it is a link" if item.kind == "link" else "it is no plain file"
            if why is not None:
                raise SkillRefused(f"{path!r}: {why}")
            with root.file(f"{folder}/{path}") as file:
                content = file.read(room + 1)
                files.append(SkillFile(path, content, bool(file.stat.st_mode & 0o100)))
            room -= len(content)
            if room < 0 or more or len(files) > MAX_FILES:
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
        _sync(one)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _world(what: str) -> Iterator[None]:
    try:
        yield
    except PathRefused as error:
        raise SkillRefused(f"{what}: {error}") from error
    except OSError as error:
        raise SkillRefused(f"{what}: {error.strerror}") from error


def _changed(path: Path) -> float:
    return path.stat(follow_symlinks=False).st_mtime
