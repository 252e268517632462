"""Restore a backup; the present files are moved aside.  All functions here block.

The archive is unpacked into *restoring*, in the state folder, and verified; until then nothing else
has changed.  Then a plan of all renames is put there by a rename: this commits the restore.  `mend`
carries out a plan that it finds, at a start or before another restore: each rename is done or not,
and repeating the plan does only the rest.

The state folder itself stays, with its lock and the backups: it may be a mount, or its parent may
not be ours.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from elwood.agent.session.restored import NAME as NOTE
from elwood.agent.session.restored import Restored
from elwood.features.backup import rules
from elwood.features.backup.rules import (
    MANIFEST,
    MARK,
    MAX_MEMBERS,
    PIECE,
    STATE,
    WORKSPACE,
    BackupFailed,
    Manifest,
    Member,
    format_stamp,
    member,
    readable_name,
)
from elwood.features.backup.settings import STAGE
from elwood.features.backup.store import (
    ASIDE,
    DISPOSABLE,
    OPEN,
    PLAN,
    Scope,
    backup_error,
    need_owner,
)
from elwood.foundation.sandbox.following import RUNNING
from elwood.foundation.storage import anchors, version
from elwood.foundation.storage.anchors import AnchorsRestored
from elwood.foundation.storage.disk import lock_state, sync_folder
from elwood.foundation.storage.files import can_be_marked, mark_untrusted
from elwood.foundation.storage.journal import JournalDamaged

# The anchor journals in an archive.
_ANCHORS = re.compile(rf"{STATE}/anchors\.[a-z0-9.]+")


class Move(msgspec.Struct, frozen=True):
    """Rename *target* to *aside*, then *staged* to *target*."""

    target: bytes  # paths as bytes, as the file system stores them
    aside: bytes
    staged: bytes | None = None  # None: *target* is only removed


class Done(msgspec.Struct, frozen=True):
    """A finished restore."""

    manifest: Manifest  # lists the restored files
    aside: tuple[Path, ...]  # folders with the previous files
    problems: tuple[str, ...]  # files that could not be restored


def restore(scope: Scope, archive: Path, *, clock: Callable[[], float]) -> Done:
    """Restore the backup *archive*; Elwood must be stopped.

    Raises AlreadyRunning and BackupFailed; then nothing was changed.
    """
    scope = scope.resolve()
    state = scope.state
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        need_owner(state)
        with lock_state(state):
            mend(state)
            stage = state / STAGE
            beside = _stage_workspace(scope)
            try:
                now = clock()
                at = f"{ASIDE}restore-{format_stamp(now)}"
                manifest, problems = _prepare(scope, archive, beside, now)
                _commit(stage, beside, list(_plan_moves(scope, beside, at)))
            except BaseException:  # re-raised: no partial files stay
                shutil.rmtree(stage, ignore_errors=True)
                shutil.rmtree(beside, ignore_errors=True)
                raise
            mend(state)
            moved = (state / at, scope.workspace.with_name(f"{scope.workspace.name}.{at}"))
            return Done(manifest, tuple(filter(os.path.lexists, moved)), problems)
    except OSError as error:
        raise backup_error(error, state) from error


def reset(scope: Scope, *, clock: Callable[[], float]) -> Path:
    """Move the contents of the state folder aside, except workspace and backups; return the folder.

    An interrupted reset is finished like a restore.  Raises AlreadyRunning, BackupFailed.
    """
    scope = scope.resolve()
    state, stage = scope.state, scope.state / STAGE
    aside = state / f"{ASIDE}reset-{format_stamp(clock())}"
    try:
        need_owner(state)
        with lock_state(state):
            mend(state)
            (stage / STATE).mkdir(mode=0o700, parents=True)
            moves = [*_plan_moves(scope, stage / WORKSPACE, aside.name)]
            if not moves:
                raise BackupFailed("there is no data to move aside")
            _commit(stage, stage / WORKSPACE, moves)
            mend(state)
            return aside
    except OSError as error:
        raise backup_error(error, state) from error


def mend(state: Path) -> bool:
    """Finish an interrupted restore; return True if there was one.

    The caller holds the lock on *state*.  Raises OSError, and BackupFailed if the plan was edited.
    """
    stage, plan = state / STAGE, state / PLAN
    try:
        moves = msgspec.json.decode(plan.read_bytes(), type=list[Move])
    except FileNotFoundError:
        shutil.rmtree(stage, ignore_errors=True)  # it was not committed
        return False
    except msgspec.DecodeError as error:
        raise BackupFailed(
            f"{plan} was changed: move the files in {stage} to their places by hand"
        ) from error
    for move in moves:
        _apply_move(move)
    plan.unlink()
    sync_folder(stage)
    shutil.rmtree(stage)
    return True


def _apply_move(move: Move) -> None:
    target = Path(os.fsdecode(move.target))
    staged = None if move.staged is None else Path(os.fsdecode(move.staged))
    if staged is not None and not os.path.lexists(staged):
        return  # already renamed
    if os.path.lexists(target):
        aside = _unused_path(Path(os.fsdecode(move.aside)))
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _move_aside(target, aside)
        sync_folder(aside.parent)
        sync_folder(target.parent)
    if staged is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(staged, target)
        sync_folder(target.parent)
        sync_folder(staged.parent)


def _move_aside(target: Path, aside: Path) -> None:
    """Rename *target*, or copy it if it is a folder in the lower layer of an overlay."""
    try:
        os.rename(target, aside)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = aside.with_name(f".{aside.name}.copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(target, copy, symlinks=True, ignore=_list_special)
        _sync_folder(copy)
        os.rename(copy, aside)
        sync_folder(aside.parent)
        shutil.rmtree(target)


def _list_special(folder: str, names: list[str]) -> list[str]:
    """List the sockets, pipes and devices among *names*: a copy of them has no use."""
    modes = {name: os.lstat(f"{folder}/{name}").st_mode for name in names}
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name, mode in modes.items() if not any(one(mode) for one in kinds)]


def _unused_path(path: Path) -> Path:
    """Return *path*, or a similar path that is unused."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _stage_workspace(scope: Scope) -> Path:
    """Return the folder to unpack the workspace in, on the same file system."""
    if scope.workspace.is_relative_to(scope.state):
        return scope.state / STAGE / WORKSPACE
    return scope.workspace.with_name(f".{scope.workspace.name}.{STAGE}")


def _prepare(
    scope: Scope, archive: Path, beside: Path, now: float
) -> tuple[Manifest, tuple[str, ...]]:
    """Unpack and verify everything; return the manifest and the problems."""
    stage = scope.state / STAGE
    stage.mkdir(mode=0o700)
    if beside.parent != stage:
        shutil.rmtree(beside, ignore_errors=True)  # left by an interrupted restore
    manifest = unpack(archive, {STATE: stage / STATE, WORKSPACE: beside}, limit=scope.limit)
    if now < manifest.at:
        raise BackupFailed(
            "the backup is newer than the clock of this machine; set the clock first"
        )
    new = stage / STATE
    bad = [one.name for one in new.iterdir() if one.name in DISPOSABLE]
    if bad:
        raise BackupFailed(f"{archive} contains {bad[0]}, which a backup of Elwood never contains")
    if why := version.refusal(new):
        raise BackupFailed(why)
    _mark_all(new)
    note = msgspec.json.encode(Restored(manifest.at, now))
    _write(new / NOTE, note)
    try:
        replaced = anchors.newest(scope.state)
        anchors.append_anchors(new, now, AnchorsRestored(manifest.at, replaced))
    except JournalDamaged as error:
        return manifest, (str(error),)
    return manifest, ()


def _plan_moves(scope: Scope, beside: Path, at: str) -> Iterator[Move]:
    """Plan the renames; files of this machine or process and the backups are left alone."""
    state, workspace, new = scope.state, scope.workspace, scope.state / STAGE / STATE
    brings = beside.is_dir()
    # The notes of interrupted commands describe the workspace that is replaced.
    excluded = {*DISPOSABLE} - {RUNNING}
    if scope.folder.parent == state:
        excluded.add(scope.folder.name)
    if workspace.is_relative_to(state) and (workspace.parent == state or not brings):
        excluded.add(workspace.relative_to(state).parts[0])
    fresh = {path.name for path in new.iterdir()}
    for name in sorted(fresh | {path.name for path in state.iterdir()}):
        if name not in excluded and not name.startswith(ASIDE):
            yield _make_move(state / name, state / at / name, new / name if name in fresh else None)
    if not brings:
        return
    if state.is_relative_to(workspace):
        raise BackupFailed(
            f"{state} is inside {workspace}, which would be moved: choose another folder"
        )
    if workspace.is_relative_to(state):
        yield _make_move(workspace, state / at / WORKSPACE, beside)
    else:
        yield _make_move(workspace, workspace.with_name(f"{workspace.name}.{at}"), beside)


def _make_move(target: Path, aside: Path, staged: Path | None) -> Move:
    if os.path.lexists(target) and _read_mount(target) != _read_mount(target.parent):
        raise BackupFailed(
            f"{target} is a mount point and cannot be moved aside: set paths.workspace to a folder "
            "that is not a mount point"
        )
    new = None if staged is None else os.fsencode(staged)
    return Move(os.fsencode(target), os.fsencode(aside), new)


def _read_mount(path: Path) -> str:
    """Return the id of the mount that *path* is on.

    Devices do not tell: a file on an overlay may have another device than its folder.
    """
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    finally:
        os.close(fd)
    return next(line for line in lines if line.startswith("mnt_id:"))


def _mark_all(new: Path) -> None:
    """Mark every conversation to be woken once: the backup does not record which had work left."""
    (new / OPEN).mkdir(mode=0o700, parents=True, exist_ok=True)
    for journal in (new / OPEN).parent.glob("*.jsonl"):
        (new / OPEN / journal.stem).touch(mode=0o600)


def _commit(stage: Path, beside: Path, moves: list[Move]) -> None:
    """Write the plan, once everything that it moves is on the disk."""
    for folder in (stage, beside):
        if folder.is_dir():
            _sync_folder(folder)
            sync_folder(folder.parent)
    plan = stage.parent / PLAN
    temporary = plan.with_suffix(".tmp")
    _write(temporary, msgspec.json.encode(moves))
    os.rename(temporary, plan)
    sync_folder(stage)


def _sync_folder(folder: Path) -> None:
    """Sync everything below *folder* to the disk."""
    for _, _, names, fd in os.fwalk(folder):
        for name in names:
            if stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
        os.fsync(fd)


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


# --- unpacking ------------------------------------------------------------------------------------
# The archive is not trusted: we create each file, below folders that we created.  Members are never
# reached through a link, and only plain names are accepted.  tarfile's own filters are not needed,
# because tarfile never writes a file here.

# Bytes of a manifest with `MAX_MEMBERS` members and names of usual length.
MAX_MANIFEST = 256 << 20


class _Damaged(Exception):
    """The archive is damaged or was not made by Elwood."""


def unpack(archive: Path, targets: Mapping[str, Path], *, limit: int) -> Manifest:
    """Unpack *archive* into the new folders *targets*, by top name, and verify it.

    Every file is compared with the manifest.  Raises BackupFailed, with files left below *targets*,
    and OSError.
    """
    try:
        with tarfile.open(archive, "r:gz", errorlevel=2) as tar:
            return _Unpacking(tar, targets, limit).run()
    except (_Damaged, tarfile.TarError, EOFError, zlib.error) as error:
        raise BackupFailed(f"{archive} is damaged: {error}") from error
    except OSError as error:
        if error.errno is None:  # gzip.BadGzipFile, and tarfile at a short read
            raise BackupFailed(f"{archive} is damaged: {error}") from error
        raise


class _Unpacking:
    def __init__(self, tar: tarfile.TarFile, targets: Mapping[str, Path], limit: int) -> None:
        self._tar = tar
        self._targets = targets
        self._left = limit
        self._limit = limit
        self._folders: set[str] = set()
        self._made: list[Member] = []
        # Applied last, deepest first: the final mode of a folder may deny access even to us.
        self._closing: list[tuple[Path, tarfile.TarInfo]] = []

    def run(self) -> Manifest:
        for info in self._tar:
            if info.name == MANIFEST and info.isreg():
                manifest = self._read_manifest(info)
                break
            self._unpack_member(info)
        else:
            raise _Damaged(f"it has no {MANIFEST}")
        if self._tar.next() is not None:
            raise _Damaged(f"there is data after its {MANIFEST}")
        self._read_padding()
        if tuple(self._made) != manifest.members:
            raise _Damaged(f"its content does not match its {MANIFEST}")
        if STATE not in self._folders:
            raise _Damaged("it contains no state folder")
        for path, info in reversed(self._closing):
            os.chmod(path, info.mode & 0o777)
            os.utime(path, (info.mtime, info.mtime))
        return manifest

    def _read_padding(self) -> None:
        """Read the padding of the archive: the checksum is compared only at its end."""
        file = self._tar.fileobj
        assert file is not None  # the archive is open
        if len(file.read(tarfile.RECORDSIZE + 1)) > tarfile.RECORDSIZE:
            raise _Damaged("there is data after its end")

    def _read_manifest(self, info: tarfile.TarInfo) -> Manifest:
        if info.size > MAX_MANIFEST:
            raise _Damaged(f"its {MANIFEST} is too large")
        content = self._tar.extractfile(info)
        text = b"" if content is None else content.read()
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Damaged(f"its {MANIFEST} cannot be read: {error}") from error
        if manifest.version != rules.VERSION:
            raise BackupFailed(
                f"its format is version {manifest.version}, but this Elwood reads version "
                f"{rules.VERSION}: restore it with the Elwood that made it"
            )
        return manifest

    def _unpack_member(self, info: tarfile.TarInfo) -> None:
        name = info.name
        if not rules.is_plain(name):
            raise _Damaged(f"it contains an invalid name: {readable_name(name)[:200]!r}")
        if len(self._made) == MAX_MEMBERS:
            raise _Damaged(f"it has more than {MAX_MEMBERS:,} members")
        top, _, below = name.partition("/")
        parent = name.rpartition("/")[0]
        if (parent and parent not in self._folders) or (not parent and name == MANIFEST):
            raise _Damaged(f"{readable_name(name)[:200]!r} is in a folder that it does not contain")
        path = self._targets[top] / below if below else self._targets[top]
        if info.isreg():
            self._made.append(member(info, "file", self._unpack_file(info, path)))
        elif info.isdir():
            os.mkdir(path, 0o700)
            self._folders.add(name)
            self._closing.append((path, info))
            self._apply_mark(info, path)
            self._made.append(member(info, "folder", ""))
        elif info.issym() and below:
            if rules.leads_out(name, info.linkname):
                raise _Damaged(
                    f"the link {readable_name(name)[:200]!r} points outside of its folder"
                )
            os.symlink(info.linkname, path)
            digest = hashlib.sha256(os.fsencode(info.linkname)).hexdigest()
            self._made.append(member(info, "link", digest))
        else:
            raise _Damaged(f"{readable_name(name)[:200]!r} is not a file, a folder or a link")

    def _unpack_file(self, info: tarfile.TarInfo, path: Path) -> str:
        self._left -= info.size
        if self._left < 0:
            raise BackupFailed(
                f"it is larger than backup.size allows ({self._limit >> 20} MB): raise that limit"
            )
        if info.name in (STATE, WORKSPACE) or info.issparse():
            raise _Damaged(f"{info.name!r} is not a regular file")
        content = self._tar.extractfile(info)
        assert content is not None  # a regular file has content
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            while piece := content.read(PIECE):
                digest.update(piece)
                file.write(piece)
            file.flush()
            self._apply_mark(info, path)
            os.fchmod(file.fileno(), info.mode & 0o777)
            os.utime(file.fileno(), (info.mtime, info.mtime))
        return digest.hexdigest()

    @staticmethod
    def _apply_mark(info: tarfile.TarInfo, path: Path) -> None:
        if MARK not in info.pax_headers:
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not can_be_marked(fd):
                raise BackupFailed(
                    f"{path} must be marked as text from strangers, but its file system has no "
                    "extended attributes: use ext4, XFS, Btrfs or ZFS"
                )
            mark_untrusted(fd)
        finally:
            os.close(fd)


def extract_anchors(backup: Path, folder: Path) -> None:
    """Write the anchor journals in the archive *backup* into *folder*.

    Raises ValueError if it cannot be read.
    """
    try:
        with tarfile.open(backup, "r:gz") as archive:
            for name in filter(_ANCHORS.fullmatch, archive.getnames()):
                if (file := archive.extractfile(name)) is not None:
                    (folder / Path(name).name).write_bytes(file.read())
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(str(error)) from error
