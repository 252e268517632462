"""Takes a backup into one file, beside a house that goes on.  Everything here blocks.

The file has its name only when it is whole and on the disk; what a crash leaves of one is removed
by the next.  What stands in it, in which order: `store.backup_sources`.
"""

import fcntl
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import msgspec

from elwood import __version__
from elwood.features.backup import git_history as backup_git
from elwood.features.backup import rules as backups
from elwood.features.backup.archive import Archive, Packed, looks_whole
from elwood.features.backup.git_history import GitFailed
from elwood.features.backup.rules import (
    BUNDLE,
    MANIFEST,
    STATE,
    WORKSPACE,
    Manifest,
)
from elwood.features.backup.sources import (
    INDEX,
    PLAN,
    BackupFailed,
    Walk,
    from_above,
    index_copy,
    is_journal,
    links_within,
    objects_last,
    of_state,
)
from elwood.foundation.storage.syscalls import FULL

# Of zlib: higher ones take twice the time for a twentieth less.
LEVEL = 6
_WORK = ".elwood-backup-"


@attrs.frozen(kw_only=True)
class Scope:
    """What a backup is of, and where it goes: folders.  *runtime* is never in it.

    *limit* is the most that one holds, in bytes before it is packed.
    """

    state: Path
    workspace: Path
    runtime: Path
    folder: Path
    limit: int

    def real(self) -> "Scope":
        """Give the folders themselves, by whatever links they are named: paths are compared."""
        return attrs.evolve(
            self,
            state=self.state.resolve(),
            workspace=self.workspace.resolve(),
            runtime=self.runtime.resolve(),
            folder=self.folder.resolve(),
        )


@attrs.frozen
class Taken:
    """A backup is on the disk; *removed* went for it, *stuck* says what could not, and why."""

    path: Path
    size: int
    manifest: Manifest
    removed: tuple[Path, ...]
    stuck: tuple[str, ...] = ()


@attrs.frozen
class Backup:
    """A file that is a backup by its name; it looks *whole* if nothing was cut off."""

    path: Path
    at: float
    size: int
    whole: bool


def take(scope: Scope, *, clock: Callable[[], float], keep: int) -> Taken:
    """Take a backup, and let go of those that `core.backups.surplus` chooses.

    Nothing of the house is asked or stopped.  Raises BackupFailed; then there is no new file.
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
            return Taken(path, size, manifest, *_rotate(scope.folder, keep))
    except OSError as error:
        raise failed(error, scope.folder) from error


def found(folder: Path) -> list[Backup]:
    """List the backups in *folder*, the newest first.  Raises OSError."""
    try:
        entries = list(folder.iterdir())
    except FileNotFoundError:
        return []
    known = []
    for path in entries:
        at = backups.taken_at(path.name)
        if at is not None and path.is_file():
            known.append(Backup(path, at, path.stat().st_size, looks_whole(path)))
    return sorted(known, key=lambda backup: backup.at, reverse=True)


def failed(error: OSError, folder: Path) -> BackupFailed:
    """Say an error of the disk as one of a backup."""
    if error.errno in FULL:
        return BackupFailed(f"no room on the disk under {folder}; free some space")
    return BackupFailed(f"{error.strerror or error}: {error.filename or folder}")


def _write(scope: Scope, target: Path, work: Path, at: float) -> Manifest:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        packed = Packed(file, LEVEL)
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            archive = Archive(tar, scope.limit)
            head = _fill(scope, archive, work)
            manifest = Manifest(
                version=backups.VERSION,
                elwood=__version__,
                at=at,
                members=tuple(archive.members),
                left_out=tuple(archive.left_out),
                head=head,
            )
            text = msgspec.json.encode(manifest)
            info = tarfile.TarInfo(MANIFEST)
            info.size, info.mode, info.mtime = len(text), 0o600, int(at)
            tar.addfile(info, io.BytesIO(text))
        packed.finish()
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _fill(scope: Scope, archive: Archive, work: Path) -> str | None:
    """Put everything in, the highest first; return what git has checked out."""
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
    index = scope.state / INDEX
    if index.exists():
        why = index_copy(index, work / INDEX)
        if why is None:
            _put_file(archive, f"{STATE}/{INDEX}", work / INDEX)
        else:
            archive.tell(STATE)(INDEX, f"{why}; it is made anew from the notes")
    if not scope.workspace.is_dir():
        return None
    head = _history(scope, archive, work)
    workspace = Walk(
        passed=_ids(scope.state, scope.folder, scope.runtime),
        work=work,
        tell=archive.tell(WORKSPACE),
        is_kept=lambda path: head is None or path != ".git",
        rank=objects_last,
        is_ours=links_within(scope.workspace),
    )
    for one in workspace.beneath(scope.workspace):
        archive.put(WORKSPACE, one)
    return head


def _history(scope: Scope, archive: Archive, work: Path) -> str | None:
    if not backup_git.is_repository(scope.workspace):
        return None
    tell = archive.tell(WORKSPACE)
    try:
        head = backup_git.bundle(scope.workspace, work / BUNDLE)
    except GitFailed as error:
        tell(".git", f"not as a bundle: {error}; its files are in it, as they were one by one")
        return None
    tell(".git", "its configuration, hooks, logs and index; the history is in it")
    _put_file(archive, BUNDLE, work / BUNDLE)
    return head


def _put_file(archive: Archive, name: str, path: Path) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = 0o600, int(path.stat().st_mtime)
    with path.open("rb") as file:
        archive.file(info, file, path.stat().st_size)
    path.unlink()


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
    while (path := folder / backups.name_of(at)).exists():
        at += 1
    return path


def _rotate(folder: Path, keep: int) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Remove what is not kept; the newest is.  What cannot be removed does not undo it."""
    going = backups.surplus([backup.at for backup in found(folder)], keep)
    removed, stuck = [], []
    for path in (folder / backups.name_of(at) for at in going):
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
