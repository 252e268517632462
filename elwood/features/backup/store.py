"""Write a backup into one file while the service runs.  All functions here block.

The file gets its name only when it is complete and synced; the next backup removes the remains of a
crash.

Requests go downwards (docs/architecture.md): a part that records a result received it from a lower
part, which recorded it first.  So the higher parts are read first: the anchors of all journals, the
conversations, the journals of approvals and models, the other journals, the notes, the workspace;
of a git repository the objects last.  Then everything that a log records as done is in the files
read after it.  Extra entries there belong to work in progress; after a restore Elwood reports that
work instead of continuing it (`restored.json`).
"""

import errno
import fcntl
import hashlib
import io
import logging
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from elwood import __version__
from elwood.agent.media.store import FOLDER
from elwood.features.backup import rules
from elwood.features.backup.rules import (
    MANIFEST,
    MARK,
    MAX_DEPTH,
    MAX_MEMBERS,
    PIECE,
    STATE,
    WORKSPACE,
    Backup,
    BackupFailed,
    Manifest,
    Member,
    SkippedFile,
    member,
    readable_name,
)
from elwood.features.backup.settings import STAGE, BackupSettings, backup_folder
from elwood.foundation.sandbox.following import RUNNING
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import FULL_ERRORS, sync_folder
from elwood.foundation.storage.files import is_marked
from elwood.foundation.storage.journal import JournalDamaged, JournalPlace, decoder, follow
from elwood.foundation.text.lines import size_text

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

log = logging.getLogger("elwood.backup")

_WORK = ".elwood-backup-"
# Bytes of one file held in memory; larger files are first copied beside the backup.
SPOOL = 8 << 20
# Parts of the state folder for this machine or process only, or rebuilt at each start.
# `sessions/open` lists the conversations to wake; after a restore all are woken.
DISPOSABLE = frozenset(
    {"lock", "reserve", "running", RUNNING, "sandbox", "run", "restoring", "backups"}
)
PLAN = f"{STAGE}/plan.json"
OPEN = "sessions/open"
# Databases directly in the state folder are indexes and are rebuilt.
_INDEX = re.compile(r"[^/]+\.db(-\w+)?")
ASIDE = "before-"
SEGMENTS = ".jsonl.gz"
# Journals of the parts that conversations send requests to.
ASKED = ("approvals.jsonl", "usage.jsonl")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of a backup."""

    state: Path
    workspace: Path
    folder: Path  # backups are stored here
    limit: int  # bytes of a backup at most, uncompressed

    @classmethod
    def from_config(cls, config: Config) -> "Scope":
        """Return the folders that *config* sets."""
        paths = config.get(Paths)
        return cls(
            state=paths.state,
            workspace=paths.workspace,
            folder=backup_folder(config),
            limit=config.get(BackupSettings).size << 20,
        )

    def resolve(self) -> "Scope":
        """Return the folders with all links resolved, so that paths can be compared."""
        return msgspec.structs.replace(
            self,
            state=self.state.resolve(),
            workspace=self.workspace.resolve(),
            folder=self.folder.resolve(),
        )


class BackupTaken(msgspec.Struct, frozen=True):
    """A backup was written."""

    path: Path
    size: int
    manifest: Manifest


def take(scope: Scope, *, clock: Callable[[], float], keep: int) -> BackupTaken:
    """Write a backup, and remove those that `surplus` chooses.  The service is not paused.

    Raises BackupFailed; then there is no new file.
    """
    at, scope = clock(), scope.resolve()
    try:
        _check_folders(scope)
        with _lock_folder(scope.folder) as work:
            path = _unused_path(scope.folder, at)
            unfinished = work / "archive"
            manifest = _write(scope, unfinished, work, at)
            os.rename(unfinished, path)
            sync_folder(scope.folder)
            _remove_surplus(scope.folder, keep)
            return BackupTaken(path, path.stat().st_size, manifest)
    except OSError as error:
        raise backup_error(error, scope.folder) from error


def take_scheduled(config: Config, clock: Callable[[], float]) -> str:
    """Write the scheduled backup, and describe the result.  Raises BackupFailed."""
    backup = take(Scope.from_config(config), clock=clock, keep=config.get(BackupSettings).keep)
    left_out = rules.describe_left_out(backup.manifest.left_out)
    if left_out:
        log.warning("backup is incomplete", extra={"what": "; ".join(left_out)})
    return "\n".join([f"{backup.path}, {size_text(backup.size)}", *left_out])


def list_backups(folder: Path) -> list[Backup]:
    """List the backups in *folder*, the newest first.  Raises OSError."""
    try:
        entries = list(folder.iterdir())
    except FileNotFoundError:
        return []
    known = []
    for path in entries:
        at = rules.parse_time(path.name)
        if at is not None and path.is_file():
            known.append(Backup(path, at, path.stat().st_size))
    return sorted(known, key=lambda backup: backup.at, reverse=True)


def backup_error(error: OSError, folder: Path) -> BackupFailed:
    if error.errno in FULL_ERRORS:
        return BackupFailed(f"the disk of {folder} is full; free some space")
    return BackupFailed(f"{error.strerror or error}: {error.filename or folder}")


class _Gzip(io.RawIOBase):
    """Compresses into *file*.

    The GzipFile of Python 3.12 or later writes again when it is deleted after a full disk, and that
    failure is printed.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # The highest level saves a twentieth for twice the time; 31 is gzip's format.
        self._packer = zlib.compressobj(6, wbits=31)

    def write(self, content: "ReadableBuffer", /) -> int:
        self._file.write(self._packer.compress(content))
        return len(memoryview(content))

    def end(self) -> None:
        self._file.write(self._packer.flush())


def _write(scope: Scope, target: Path, work: Path, at: float) -> Manifest:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        packed = _Gzip(file)
        with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            archive = _Packing(tar, work, scope.limit)
            # The highest part first.
            archive.put(STATE, scope.state, _ids(scope.workspace, scope.folder))
            if scope.workspace.is_dir():
                archive.put(WORKSPACE, scope.workspace, _ids(scope.state, scope.folder))
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
        packed.end()
        file.flush()
        os.fsync(file.fileno())
    return manifest


@contextmanager
def _lock_folder(folder: Path) -> Iterator[Path]:
    """Lock the *folder* of the backups; yield a folder in it for unfinished files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed("another backup is being made now") from error
        for left in folder.glob(f"{_WORK}*"):
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(
            prefix=_WORK, dir=folder, ignore_cleanup_errors=True
        ) as work:
            yield Path(work)
    finally:
        os.close(fd)


def _unused_path(folder: Path, at: float) -> Path:
    """Return the unused path of a backup at Unix time *at*, or at a later second."""
    while (path := folder / rules.file_name(at)).exists():
        at += 1
    return path


def _remove_surplus(folder: Path, keep: int) -> None:
    """Remove surplus backups.  A failure to remove one does not fail the new backup."""
    going = rules.surplus([backup.at for backup in list_backups(folder)], keep)
    for path in (folder / rules.file_name(at) for at in going):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.error("old backup not removed", extra={"path": path, "why": error.strerror})


def _check_folders(scope: Scope) -> None:
    """Check that the folders are ours, and that a restore would not move the backups."""
    need_owner(scope.state)
    if (scope.state / PLAN).exists():
        raise BackupFailed("a restore was interrupted: start Elwood first, which finishes it")
    folder, state = scope.folder, scope.state
    if folder.is_relative_to(scope.workspace):
        raise BackupFailed(
            f"backup.folder ({scope.folder}) is inside the workspace, where tools could read it: "
            "choose another folder"
        )
    if folder == state or (folder.is_relative_to(state) and folder.parent != state):
        raise BackupFailed(f"backup.folder must be directly in {scope.state}, or outside of it")


def need_owner(state: Path) -> None:
    """Check that we own the state folder, so that new files get the right owner.

    Raises BackupFailed and OSError.
    """
    owner = state.stat().st_uid
    if owner != os.geteuid():
        raise BackupFailed(
            f"{state} belongs to another user: run this as that user, "
            f"with sudo -u '#{owner}' elwood backup …"
        )


def _ids(*folders: Path) -> frozenset[tuple[int, int]]:
    return frozenset(_id(folder.stat()) for folder in folders if folder.is_dir())


def _id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


# --- packing: a tar archive, whose last member lists all others; any tar program can read it ----

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class _Packing:
    """Puts folders into an archive, and lists the members and the files left out.

    Links are not followed, and every omission is listed.  Raises BackupFailed and OSError.
    """

    def __init__(self, tar: tarfile.TarFile, work: Path, limit: int) -> None:
        self.members: list[Member] = []
        self.left_out: list[SkippedFile] = []
        self._tar = tar
        self._work = work
        self._limit = self._left = limit
        self._passed: frozenset[tuple[int, int]] = frozenset()
        self._is_state = False

    def put(self, top: str, root: Path, passed: frozenset[tuple[int, int]]) -> None:
        """Add the folder *root* as *top*, without the folders *passed* (device and inode).

        Every wanted part of the state folder must be readable.
        """
        self._passed, self._is_state = passed, top == STATE
        # The folder itself may be a link: systemd makes the state folder one (``DynamicUser=``).
        self._put_folder(os.open(root, _FOLDER), top, 1)

    def _put_folder(self, fd: int, path: str, depth: int) -> None:
        """Add the open folder *path*, and close it."""
        rank = state_order if self._is_state else workspace_order
        try:
            info = _info(path, os.fstat(fd), untrusted=is_marked(fd))
            info.type = tarfile.DIRTYPE
            self._add(info, "folder", "")
            paths = {name: f"{path}/{name}" for name in os.listdir(fd)}
            for name in sorted(paths, key=lambda name: (rank(_strip_top(paths[name])), name)):
                if not self._is_state or is_in_backup(_strip_top(paths[name])):
                    self._try_put(fd, name, paths[name], depth)
            if self._is_state:
                # Segments of logs that were closed since the listing and continue these.
                closed = (name for name in os.listdir(fd) if name.endswith(SEGMENTS))
                for name in sorted(set(closed) - set(paths)):
                    self._try_put(fd, name, f"{path}/{name}", depth)
        finally:
            os.close(fd)

    def _try_put(self, fd: int, name: str, path: str, depth: int) -> None:
        try:
            self._put(fd, name, path, depth)
        except FileNotFoundError:
            self._leave_out(path, "it was deleted while it was read")
        except OSError as error:
            if self._is_state or error.errno in FULL_ERRORS:
                raise
            self._leave_out(path, f"it cannot be read: {error.strerror}")

    def _put(self, fd: int, name: str, path: str, depth: int) -> None:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if _id(status) in self._passed:
            return
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=fd)
            if rules.leads_out(path, target):
                why = f"it is a link out of its folder, to {readable_name(target)}"
                self._leave_out(path, why)
                return
            info = _info(path, status)
            info.type, info.linkname = tarfile.SYMTYPE, target
            self._add(info, "link", hashlib.sha256(os.fsencode(target)).hexdigest())
        elif stat.S_ISDIR(status.st_mode):
            if depth == MAX_DEPTH:
                self._leave_out(path, f"it is more than {MAX_DEPTH} folders deep")
                return
            self._put_folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd), path, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            self._put_file(fd, name, path)
        elif not self._is_state:
            self._leave_out(path, "it is not a regular file, a folder or a link")

    def _put_file(self, fd: int, name: str, path: str) -> None:
        """Add a copy of a file, which may be written to during the copy."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with (
            open(os.open(name, flags, dir_fd=fd), "rb", buffering=0) as file,
            tempfile.SpooledTemporaryFile(SPOOL, dir=str(self._work)) as copy,
        ):
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "it was replaced", path)
            left = status.st_size
            while left > 0 and (piece := file.read(min(left, PIECE))):
                copy.write(piece)
                left -= len(piece)
            if self._is_state and is_journal(_strip_top(path)):
                self._cut_torn_line(copy, path)
            elif left or _stamp(status) != _stamp(os.fstat(file.fileno())):
                why = "it changed while it was read: the copy may mix old and new content"
                self._leave_out(path, why)
            info = _info(path, status, untrusted=is_marked(file.fileno()))
            info.size = copy.seek(0, os.SEEK_END)
            if info.size > self._left and is_received(_strip_top(path)):
                self._leave_out(path, "it is a received file, and backup.size has no room for it")
                return
            self._left -= info.size
            if self._left < 0:
                raise BackupFailed(
                    f"the files are larger than backup.size allows ({self._limit >> 20} MB): "
                    "raise that limit, or move large files out of the workspace"
                )
            copy.seek(0)
            digest = hashlib.file_digest(copy, "sha256").hexdigest()
            copy.seek(0)
            self._add(info, "file", digest, copy)

    def _cut_torn_line(self, copy: IO[bytes], path: str) -> None:
        """Cut a journal after its last complete line; a damaged one stays as it is."""
        copy.seek(0)
        place = JournalPlace()
        try:
            for _ in follow(Path(path), copy, place, decoder(msgspec.Raw).decode):
                pass
        except JournalDamaged as error:
            why = f"it was copied, but is DAMAGED: line {error.line} {error.why}"
            self._leave_out(path, why)
        else:
            copy.truncate(place.offset)

    def _add(
        self, info: tarfile.TarInfo, kind: rules.Kind, sha256: str, content: IO[bytes] | None = None
    ) -> None:
        if len(self.members) == MAX_MEMBERS:
            raise BackupFailed(f"there are more than {MAX_MEMBERS:,} files and folders to back up")
        self._tar.addfile(info, content)
        self.members.append(member(info, kind, sha256))

    def _leave_out(self, path: str, why: str) -> None:
        self.left_out.append(SkippedFile(readable_name(path), why))


def _info(path: str, status: os.stat_result, *, untrusted: bool = False) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
    if untrusted:
        info.pax_headers = {MARK: "1"}
    return info


def _strip_top(path: str) -> str:
    return path.partition("/")[2]


def is_in_backup(path: str) -> bool:
    """Return True if *path* below the state folder belongs in a backup (`DISPOSABLE`)."""
    top, name = path.partition("/")[0], path.rpartition("/")[2]
    if top in DISPOSABLE or top.startswith(ASIDE) or path == OPEN or _INDEX.fullmatch(path):
        return False
    return not (name.startswith(".") and name.endswith(".tmp"))


def is_journal(path: str) -> bool:
    """Return True if *path* below the state folder is a log with checksums."""
    folder, _, name = path.rpartition("/")
    return name.endswith(".jsonl") and folder in ("", "sessions")


def state_order(path: str) -> int:
    """Sort key of the state folder: the lowest is read first; see above."""
    if path.startswith("anchors."):
        return -1  # their entries must be in the files read later
    if path == "sessions":
        return 0
    if path in ASKED:
        return 1
    return 2 if is_journal(path) else 3


def is_received(path: str) -> bool:
    """Return True if *path* below the workspace is the folder of received files, or in it."""
    return path.partition("/")[0] == FOLDER


def workspace_order(path: str) -> int:
    """Sort key of the workspace: git objects after the refs, received files last.

    Received files are the only ones left out if the backup is too large.
    """
    return 2 if is_received(path) else int(path.endswith("/objects"))


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
