"""Takes a backup into one file, beside a service that goes on.  Everything here blocks.

The file has its name only when it is whole and on the disk; what a crash leaves of one is removed
by the next.

Asking goes downwards (docs/architecture.md): whoever records a result had it from somebody below,
who recorded it first.  So what stands higher is read first: the conversations, then what approvals
and models recorded, then the other journals, the notes, the workspace; of a git repository its
objects last.  Then everything that a log says was done is in what is read after it.  What is in
excess there belongs to work that was under way, and of that a restored Elwood tells instead of
going on (`restored.json`).
"""

import errno
import fcntl
import io
import logging
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from elwood import __version__
from elwood.features.backup import rules
from elwood.features.backup.archive import PIECE, Archive, Packed, looks_whole
from elwood.features.backup.rules import (
    MANIFEST,
    MAX_DEPTH,
    STATE,
    WORKSPACE,
    Backup,
    BackupFailed,
    Manifest,
)
from elwood.features.backup.settings import STAGE, BackupSettings, backup_folder
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import FULL_ERRORS
from elwood.foundation.storage.files import is_marked
from elwood.foundation.storage.journal import JournalDamaged, JournalPlace, decoder, follow

log = logging.getLogger("elwood.backup")

# Of zlib: higher ones take twice the time for a twentieth less.
LEVEL = 6
_WORK = ".elwood-backup-"
# Bytes of one file that are held in memory; of larger ones a copy is written beside the backup.
SPOOL = 8 << 20
# Times that a file is read because it changed meanwhile.
TRIES = 2
# In the state folder: for this machine and this moment only, or made anew at each start.
# `sessions/open` says who is to be woken, which is everybody after a restore.
DISPOSABLE = frozenset({"lock", "reserve", "running", "sandbox", "run", "restoring", "backups"})
PLAN = f"{STAGE}/plan.json"
OPEN = "sessions/open"
# Databases right in the state folder are indexes of files and journals: made anew.
_INDEX = re.compile(r"[^/]+\.db(-\w+)?")
ASIDE = "before-restore-"
# Journals of those who are asked by the conversations.
ASKED = ("approvals.jsonl", "usage.jsonl")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of, and where it goes: folders.  *runtime* is never in it.

    *limit* is the most that one holds, in bytes before it is packed.
    """

    state: Path
    workspace: Path
    runtime: Path
    folder: Path
    limit: int

    @classmethod
    def of(cls, config: Config) -> "Scope":
        """Say what is backed up, and where to, as *config* has it."""
        paths = config.of(Paths)
        return cls(
            state=paths.state,
            workspace=paths.workspace,
            runtime=paths.runtime,
            folder=backup_folder(config),
            limit=config.of(BackupSettings).size << 20,
        )

    def real(self) -> "Scope":
        """Give the folders themselves, by whatever links they are named: paths are compared."""
        return msgspec.structs.replace(
            self,
            state=self.state.resolve(),
            workspace=self.workspace.resolve(),
            runtime=self.runtime.resolve(),
            folder=self.folder.resolve(),
        )


class BackupTaken(msgspec.Struct, frozen=True):
    """A backup is on the disk; *removed* went for it, *stuck* says what could not, and why."""

    path: Path
    size: int
    manifest: Manifest
    removed: tuple[Path, ...]
    stuck: tuple[str, ...] = ()


def take(scope: Scope, *, clock: Callable[[], float], keep: int) -> BackupTaken:
    """Take a backup, and let go of those that `surplus` chooses.

    Nobody is asked or stopped.  Raises BackupFailed; then there is no new file.
    """
    at, scope = clock(), scope.real()
    try:
        _need_own(scope)
        with _alone(scope.folder) as work:
            path = _free(scope.folder, at)
            made = work / "archive"
            manifest = _write(scope, made, work, at)
            os.rename(made, path)
            sync_folder(scope.folder)
            size = path.stat().st_size
            return BackupTaken(path, size, manifest, *_rotate(scope.folder, keep))
    except OSError as error:
        raise failed(error, scope.folder) from error


def planned(config: Config, clock: Callable[[], float]) -> str:
    """Take the backup that is due, and say what came of it.  Raises BackupFailed."""
    taken = take(Scope.of(config), clock=clock, keep=config.of(BackupSettings).keep)
    left_out = rules.told(taken.manifest.left_out)
    if left_out:
        log.warning("not all is in the backup", extra={"what": "; ".join(left_out)})
    if taken.stuck:
        log.warning("old backups stay", extra={"what": "; ".join(taken.stuck)})
    return "\n".join([f"{taken.path}, {rules.size_text(taken.size)}", *taken.stuck, *left_out])


def found(folder: Path) -> list[Backup]:
    """List the backups in *folder*, the newest first.  Raises OSError."""
    try:
        entries = list(folder.iterdir())
    except FileNotFoundError:
        return []
    known = []
    for path in entries:
        at = rules.taken_at(path.name)
        if at is not None and path.is_file():
            known.append(Backup(path, at, path.stat().st_size, looks_whole(path)))
    return sorted(known, key=lambda backup: backup.at, reverse=True)


def failed(error: OSError, folder: Path) -> BackupFailed:
    """Say an error of the disk as one of a backup."""
    if error.errno in FULL_ERRORS:
        return BackupFailed(f"no room on the disk under {folder}; free some space")
    return BackupFailed(f"{error.strerror or error}: {error.filename or folder}")


def _write(scope: Scope, target: Path, work: Path, at: float) -> Manifest:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        packed = Packed(file, LEVEL)
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            archive = Archive(tar, scope.limit)
            _fill(scope, archive, work)
            manifest = Manifest(
                version=rules.VERSION,
                elwood=__version__,
                at=at,
                members=tuple(archive.members),
                left_out=tuple(archive.left_out),
            )
            text = msgspec.json.encode(manifest)
            info = tarfile.TarInfo(MANIFEST)
            info.size, info.mode, info.mtime = len(text), 0o600, int(at)
            tar.addfile(info, io.BytesIO(text))
        packed.finish()
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _fill(scope: Scope, archive: Archive, work: Path) -> None:
    """Put everything in, the highest first."""
    elsewhere = _ids(scope.workspace, scope.folder, scope.runtime)
    state = Walk(
        passed=elsewhere,
        work=work,
        tell=archive.tell(STATE),
        is_kept=of_state,
        rank=from_above,
        is_journal=is_journal,
        whole=True,
    )
    for one in state.beneath(scope.state):
        archive.put(STATE, one)
    if not scope.workspace.is_dir():
        return
    workspace = Walk(
        passed=_ids(scope.state, scope.folder, scope.runtime),
        work=work,
        tell=archive.tell(WORKSPACE),
        rank=objects_last,
        is_ours=links_within(scope.workspace),
    )
    for one in workspace.beneath(scope.workspace):
        archive.put(WORKSPACE, one)


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """Hold the *folder* of the backups; lend a folder in it for what is not whole yet."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed("another backup is being taken now") from error
        for left in folder.glob(f"{_WORK}*"):
            shutil.rmtree(left)
        work = Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(fd)


def _free(folder: Path, at: float) -> Path:
    """Name a backup of the Unix time *at*, or of the next second of which there is none."""
    while (path := folder / rules.name_of(at)).exists():
        at += 1
    return path


def _rotate(folder: Path, keep: int) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Remove what is not kept; the newest is.  What cannot be removed does not undo it."""
    going = rules.surplus([backup.at for backup in found(folder)], keep)
    removed, stuck = [], []
    for path in (folder / rules.name_of(at) for at in going):
        try:
            path.unlink(missing_ok=True)
            removed.append(path)
        except OSError as error:
            stuck.append(f"{path.name} cannot be removed: {error.strerror}")
    return tuple(removed), tuple(stuck)


def _need_own(scope: Scope) -> None:
    """See that the folders are ours, and that a restore would not move the backups away."""
    need_owner(scope.state)
    if (scope.state / PLAN).exists():
        raise BackupFailed("a restore was cut off: start Elwood, which brings it to its end, first")
    folder, state = scope.folder, scope.state
    if folder.is_relative_to(scope.workspace):
        raise BackupFailed(
            f"backup.folder, {scope.folder}, lies in the workspace, where tools could read it: "
            "name a folder elsewhere"
        )
    if folder == state or (folder.is_relative_to(state) and folder.parent != state):
        raise BackupFailed(f"backup.folder must lie right in {scope.state}, or outside of it")


def need_owner(state: Path) -> None:
    """See that the state folder belongs to who runs this: what is written must be its user's.

    Raises BackupFailed and OSError.
    """
    owner = state.stat().st_uid
    if owner != os.geteuid():
        raise BackupFailed(
            f"{state} belongs to another user: run this as that one, "
            f"with sudo -u '#{owner}' elwood backup …"
        )


def _ids(*folders: Path) -> frozenset[tuple[int, int]]:
    seen = [folder.stat() for folder in folders if folder.is_dir()]
    return frozenset((one.st_dev, one.st_ino) for one in seen)


def sync_folder(folder: Path) -> None:
    """Wait until the names in *folder* are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- what stands beneath a folder ---------------------------------------------------------------

# What may be wrong with a file of the workspace alone; some, because it was exchanged meanwhile.
UNREADABLE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP, errno.ENOTDIR, errno.ENXIO}
)

Tell = Callable[[str, str], None]


class Found(msgspec.Struct, frozen=True):
    """One thing to be put in: *path* below its folder, as it is on the disk.

    *content* is the copy of a file, to be closed by whoever takes it; *target* is where a link
    leads.
    """

    path: str
    stat: os.stat_result
    content: IO[bytes] | None = None
    size: int = 0
    target: str | None = None
    untrusted: bool = False


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """Everything beneath a folder: links are not followed, and nothing is passed over silently.

    *passed* are folders (device and inode) that belong to something else, *is_kept* says of a path
    whether it is wanted at all, *rank* in which order names of one folder come.  Copies are made in
    *work*; *tell* is told what is left out, and why.  If *whole*, a file that cannot be read is a
    failure.
    """

    passed: frozenset[tuple[int, int]]
    work: Path
    tell: Tell
    is_kept: Callable[[str], bool] = lambda path: True
    rank: Callable[[str], int] = lambda path: 0
    is_journal: Callable[[str], bool] = lambda path: False
    is_ours: Callable[[os.stat_result], bool] = lambda found: True
    whole: bool = False

    def beneath(self, root: Path) -> Iterator[Found]:
        """Yield the folder *root* and what is in it; nothing if it is not there.

        Raises BackupFailed and OSError.
        """
        try:
            # Itself it may be a link: systemd makes the state folder one (``DynamicUser=``).
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            yield Found("", os.fstat(fd), untrusted=is_marked(fd))
            yield from self._in(fd, "", 1)
        finally:
            os.close(fd)

    def _in(self, fd: int, prefix: str, depth: int) -> Iterator[Found]:
        names = sorted(os.listdir(fd), key=lambda name: (self.rank(f"{prefix}{name}"), name))
        for name in names:
            path = f"{prefix}{name}"
            if not self.is_kept(path):
                continue
            try:
                yield from self._one(fd, name, path, depth)
            except FileNotFoundError:
                self.tell(path, "it vanished while it was read")
            except OSError as error:
                # Others, such as a full disk, are not about this file.
                if self.whole or error.errno not in UNREADABLE:
                    raise
                self.tell(path, f"it cannot be read: {error.strerror}")

    def _one(self, fd: int, name: str, path: str, depth: int) -> Iterator[Found]:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if (found.st_dev, found.st_ino) in self.passed:
            return
        if stat.S_ISLNK(found.st_mode):
            yield Found(path, found, target=os.readlink(name, dir_fd=fd))
        elif stat.S_ISDIR(found.st_mode):
            if depth == MAX_DEPTH:
                self.tell(path, f"it is more than {MAX_DEPTH} folders deep")
                return
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=fd)
            try:
                yield Found(path, os.fstat(below), untrusted=is_marked(below))
                yield from self._in(below, f"{path}/", depth + 1)
            finally:
                os.close(below)
        elif stat.S_ISREG(found.st_mode):
            if self.is_ours(found):
                yield self._file(fd, name, path)
            else:
                self.tell(path, "it has a second name (hard link), maybe outside the folder")
        elif not self.whole:
            self.tell(path, "it is no plain file, folder or link")

    def _file(self, fd: int, name: str, path: str) -> Found:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=fd), "rb", buffering=0) as file:
            found, untrusted = os.fstat(file.fileno()), is_marked(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(errno.ENOENT, "it was replaced", path)
            copy, size, is_steady = copied(file, self.work, to_end=not self.is_journal(path))
        if self.is_journal(path):
            size = self._sound(copy, size, path)
        elif not is_steady:
            self.tell(path, "it changed while it was read: what is in the backup may be mixed")
        copy.seek(0)
        return Found(path, found, copy, size, untrusted=untrusted)

    def _sound(self, copy: IO[bytes], size: int, path: str) -> int:
        """Find where the last whole line of a journal ends; one that is damaged stays as it is."""
        copy.seek(0)
        place = JournalPlace()
        try:
            for _ in follow(Path(path), copy, place, decoder(msgspec.Raw).decode):
                pass
        except JournalDamaged as error:
            self.tell(path, f"it is in it, but DAMAGED: line {error.line} {error.why}")
            return size
        return place.offset


def copied(file: IO[bytes], work: Path, *, to_end: bool) -> tuple[IO[bytes], int, bool]:
    """Copy an open file; return the copy, its size, and whether the file stayed as it was.

    It is read again if it changed, unless only what it has now is wanted, and not *to_end*.
    """
    copy: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL, dir=str(work))  # noqa: SIM115  (given away)
    for _ in range(TRIES):
        file.seek(0)
        copy.seek(0)
        copy.truncate()
        before = os.fstat(file.fileno())
        left = before.st_size
        while left > 0 and (piece := file.read(min(left, PIECE))):
            copy.write(piece)
            left -= len(piece)
        after = os.fstat(file.fileno())
        is_steady = left == 0 and _stamp(before) == _stamp(after)
        if is_steady or not to_end:
            break
    return copy, copy.tell(), is_steady


def links_within(root: Path) -> Callable[[os.stat_result], bool]:
    """Make what tells of a file beneath *root* whether all its names are there.

    One that has another name elsewhere would become readable for the tools, which refuse it now.
    """
    seen: dict[tuple[int, int], int] = {}
    top = str(root).count("/")
    for path, folders, names, fd in os.fwalk(str(root)):
        if path.count("/") - top >= MAX_DEPTH:
            folders.clear()
        for name in names:
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if found.st_nlink > 1:
                key = (found.st_dev, found.st_ino)
                seen[key] = seen.get(key, 0) + 1
    return lambda found: found.st_nlink <= max(1, seen.get((found.st_dev, found.st_ino), 0))


def of_state(path: str) -> bool:
    """Tell whether *path* below the state folder is worth keeping (`DISPOSABLE`)."""
    top = path.partition("/")[0]
    folder, _, name = path.rpartition("/")
    if top in DISPOSABLE or top.startswith(ASIDE) or path == OPEN or _INDEX.fullmatch(path):
        return False
    is_shortcut = name.endswith(".snapshot") and folder in ("", "sessions")
    return not is_shortcut and not (name.startswith(".") and name.endswith(".tmp"))


def is_journal(path: str) -> bool:
    """Tell whether *path* below the state folder is a log with checksums."""
    folder, _, name = path.rpartition("/")
    return name.endswith(".jsonl") and folder in ("", "sessions")


def from_above(path: str) -> int:
    """Give what is read first the lowest number; see above."""
    if path == "sessions":
        return 0
    if path in ASKED:
        return 1
    return 2 if is_journal(path) else 3


def objects_last(path: str) -> int:
    """Let what the files of a git repository name be read after them."""
    return int(path.endswith("/objects"))


def _stamp(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
