"""Puts a backup in the place of what is there, which is moved aside.  Everything here blocks.

First it is unpacked into *restoring*, in the state folder, and proven whole; until then nothing
else has changed.  Then the plan of all renames is put there, by a rename: from that moment on the
backup counts.  Whoever finds a plan, at a start or before another restore, carries it out (`mend`):
each rename is done or not, and doing those that are left comes to the same.  The state folder
itself stays, with the lock on it and the backups: it may be a mount, or in a folder that is not
ours.
"""

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
    member,
    shown,
    stamp,
)
from elwood.features.backup.settings import STAGE
from elwood.features.backup.store import ASIDE, DISPOSABLE, OPEN, PLAN, Scope, failed, need_owner
from elwood.foundation.sandbox.following import RUNNING
from elwood.foundation.storage import anchors, version
from elwood.foundation.storage.anchors import AnchorsRestored
from elwood.foundation.storage.disk import holding, sync_folder
from elwood.foundation.storage.files import can_be_marked, mark_untrusted
from elwood.foundation.storage.journal import JournalDamaged

# The journals of the anchors in an archive.
_ANCHORS = re.compile(rf"{STATE}/anchors\.[a-z0-9.]+")


class Move(msgspec.Struct, frozen=True):
    """What is to be at *target* lies at *staged*; what is there now goes to *aside*.

    Without *staged* nothing comes in its place.  Paths are as the file system has them.
    """

    target: bytes
    aside: bytes
    staged: bytes | None = None


class Done(msgspec.Struct, frozen=True):
    """What *manifest* lists is in place; what was there before lies in *aside*.

    *problems* are what could not be put back.
    """

    manifest: Manifest
    aside: tuple[Path, ...]
    problems: tuple[str, ...]


def restore(scope: Scope, archive: Path, *, clock: Callable[[], float]) -> Done:
    """Put the backup *archive* in place; whoever runs here must have been stopped.

    Raises AlreadyRunning, and BackupFailed: then nothing was changed.
    """
    scope = scope.real()
    state = scope.state
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        need_owner(state)
        with holding(state):
            mend(state)
            stage = state / STAGE
            beside = _workspace_stage(scope)
            try:
                now = clock()
                at = f"{ASIDE}restore-{stamp(now)}"
                manifest, problems = _prepared(scope, archive, beside, now)
                _commit(stage, beside, list(_moves(scope, beside, at)))
            except BaseException:  # and it goes on: nothing half-made stays
                shutil.rmtree(stage, ignore_errors=True)
                shutil.rmtree(beside, ignore_errors=True)
                raise
            mend(state)
            moved = (state / at, scope.workspace.with_name(f"{scope.workspace.name}.{at}"))
            return Done(manifest, tuple(filter(os.path.lexists, moved)), problems)
    except OSError as error:
        raise failed(error, state) from error


def reset(scope: Scope, *, clock: Callable[[], float]) -> Path:
    """Move aside what the state folder holds, but for the workspace and backups; say where to.

    Cut off at any moment it is as a restore is.  Raises AlreadyRunning, BackupFailed.
    """
    scope = scope.real()
    state, stage = scope.state, scope.state / STAGE
    aside = state / f"{ASIDE}reset-{stamp(clock())}"
    try:
        need_owner(state)
        with holding(state):
            mend(state)
            (stage / STATE).mkdir(mode=0o700, parents=True)
            moves = [*_moves(scope, stage / WORKSPACE, aside.name)]
            if not moves:
                raise BackupFailed("there is nothing to move aside")
            _commit(stage, stage / WORKSPACE, moves)
            mend(state)
            return aside
    except OSError as error:
        raise failed(error, state) from error


def mend(state: Path) -> bool:
    """Bring a restore to its end that was cut off; tell whether there was one.

    The caller holds the lock on *state*.  Raises OSError, and BackupFailed if the plan was edited.
    """
    stage, plan = state / STAGE, state / PLAN
    try:
        moves = msgspec.json.decode(plan.read_bytes(), type=list[Move])
    except FileNotFoundError:
        shutil.rmtree(stage, ignore_errors=True)  # it had not begun
        return False
    except msgspec.DecodeError as error:
        raise BackupFailed(
            f"{plan} was changed: move what is in {stage} to its place by hand"
        ) from error
    for move in moves:
        _make(move)
    plan.unlink()
    sync_folder(stage)
    shutil.rmtree(stage)
    return True


def _make(move: Move) -> None:
    target = Path(os.fsdecode(move.target))
    staged = None if move.staged is None else Path(os.fsdecode(move.staged))
    if staged is not None and not os.path.lexists(staged):
        return  # it is in its place
    if os.path.lexists(target):
        aside = _free(Path(os.fsdecode(move.aside)))
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(target, aside)
        sync_folder(aside.parent)
        sync_folder(target.parent)
    if staged is not None:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(staged, target)
        sync_folder(target.parent)
        sync_folder(staged.parent)


def _free(path: Path) -> Path:
    """Give *path*, or one like it that is not taken."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _workspace_stage(scope: Scope) -> Path:
    """Say where the workspace is unpacked: a rename must bring it to its place."""
    if scope.workspace.is_relative_to(scope.state):
        return scope.state / STAGE / WORKSPACE
    return scope.workspace.with_name(f".{scope.workspace.name}.{STAGE}")


def _prepared(
    scope: Scope, archive: Path, beside: Path, now: float
) -> tuple[Manifest, tuple[str, ...]]:
    """Unpack everything and prove it; return what is in it, and what could not be put back."""
    stage = scope.state / STAGE
    stage.mkdir(mode=0o700)
    if beside.parent != stage:
        shutil.rmtree(beside, ignore_errors=True)  # of a restore that was cut off
    manifest = unpack(archive, {STATE: stage / STATE, WORKSPACE: beside}, limit=scope.limit)
    if now < manifest.at:
        raise BackupFailed(
            "by the clock of this machine the backup has not been taken yet; set the clock first"
        )
    new = stage / STATE
    bad = [one.name for one in new.iterdir() if one.name in DISPOSABLE]
    if bad:
        raise BackupFailed(f"{archive} holds {bad[0]}, which no backup of ours does")
    if why := version.refusal(new):
        raise BackupFailed(why)
    _mark_all(new)
    note = msgspec.json.encode(Restored(manifest.at, now))
    _write(new / NOTE, note)
    try:
        replaced = anchors.newest(scope.state)
        anchors.note(new, now, AnchorsRestored(manifest.at, replaced))
    except JournalDamaged as error:
        return manifest, (str(error),)
    return manifest, ()


def _moves(scope: Scope, beside: Path, at: str) -> Iterator[Move]:
    """Plan the renames; nothing of this machine or this moment is touched, nor the backups."""
    state, workspace, new = scope.state, scope.workspace, scope.state / STAGE / STATE
    brings = beside.is_dir()
    # The notes of commands that a crash ended are about the workspace that goes.
    kept = {*DISPOSABLE} - {RUNNING}
    if scope.folder.parent == state:
        kept.add(scope.folder.name)
    if workspace.is_relative_to(state) and (workspace.parent == state or not brings):
        kept.add(workspace.relative_to(state).parts[0])
    fresh = {path.name for path in new.iterdir()}
    for name in sorted(fresh | {path.name for path in state.iterdir()}):
        if name not in kept and not name.startswith(ASIDE):
            yield _move(state / name, state / at / name, new / name if name in fresh else None)
    if not brings:
        return
    if state.is_relative_to(workspace):
        raise BackupFailed(
            f"{state} lies in {workspace}, which would be moved: name another folder"
        )
    if workspace.is_relative_to(state):
        yield _move(workspace, state / at / WORKSPACE, beside)
    else:
        yield _move(workspace, workspace.with_name(f"{workspace.name}.{at}"), beside)


def _move(target: Path, aside: Path, staged: Path | None) -> Move:
    if os.path.ismount(target):
        raise BackupFailed(
            f"{target} is a file system of its own and cannot be moved aside: restore into a "
            "folder that is none (paths.workspace)"
        )
    new = None if staged is None else os.fsencode(staged)
    return Move(os.fsencode(target), os.fsencode(aside), new)


def _mark_all(new: Path) -> None:
    """Have every conversation woken once: which owed something is not known of one moment."""
    (new / OPEN).mkdir(mode=0o700, parents=True, exist_ok=True)
    for journal in (new / OPEN).parent.glob("*.jsonl"):
        (new / OPEN / journal.stem).touch(mode=0o600)


def _commit(stage: Path, beside: Path, moves: list[Move]) -> None:
    """Let the plan count, once all that it moves is on the disk."""
    for made in (stage, beside):
        if made.is_dir():
            _settle(made)
            sync_folder(made.parent)
    plan = stage.parent / PLAN
    temporary = plan.with_suffix(".tmp")
    _write(temporary, msgspec.json.encode(moves))
    os.rename(temporary, plan)
    sync_folder(stage)


def _settle(folder: Path) -> None:
    """Wait until everything beneath *folder* is on the disk."""
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
# Nothing in the archive is trusted: files are made by us, one by one, below folders that we made;
# no member is reached by a link, and no name but a plain one is taken (tarfile's own filters are
# not needed, as it never writes anything).

# Bytes of a manifest: of `MAX_MEMBERS` members with names of ordinary length.
MAX_MANIFEST = 256 << 20


class _Damaged(Exception):
    """The archive is not one that we made, or not any more."""


def unpack(archive: Path, targets: Mapping[str, Path], *, limit: int) -> Manifest:
    """Unpack *archive*, what is in it by its top name, to *targets*, which are not there yet.

    Everything is compared with the manifest.  Raises BackupFailed, with files left below *targets*,
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
        # Set last, the deepest first: a folder may be closed even to us, and is changed until then.
        self._closing: list[tuple[Path, tarfile.TarInfo]] = []

    def run(self) -> Manifest:
        for info in self._tar:
            if info.name == MANIFEST and info.isreg():
                manifest = self._manifest(info)
                break
            self._member(info)
        else:
            raise _Damaged(f"it has no {MANIFEST}")
        if self._tar.next() is not None:
            raise _Damaged(f"something stands behind its {MANIFEST}")
        self._to_the_end()
        if tuple(self._made) != manifest.members:
            raise _Damaged(f"what is in it is not what its {MANIFEST} says")
        if STATE not in self._folders:
            raise _Damaged("it holds no state folder")
        for path, info in reversed(self._closing):
            os.chmod(path, info.mode & 0o777)
            os.utime(path, (info.mtime, info.mtime))
        return manifest

    def _to_the_end(self) -> None:
        """Read what fills up the archive: only then is its checksum compared."""
        file = self._tar.fileobj
        assert file is not None  # as it is open
        if len(file.read(tarfile.RECORDSIZE + 1)) > tarfile.RECORDSIZE:
            raise _Damaged("something stands behind its end")

    def _manifest(self, info: tarfile.TarInfo) -> Manifest:
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
                f"it is a backup of version {manifest.version}, and this Elwood knows "
                f"{rules.VERSION}: restore it with the Elwood that made it"
            )
        return manifest

    def _member(self, info: tarfile.TarInfo) -> None:
        name = info.name
        if not rules.is_plain(name):
            raise _Damaged(f"a name in it is none: {shown(name)[:200]!r}")
        if len(self._made) == MAX_MEMBERS:
            raise _Damaged(f"it has more than {MAX_MEMBERS:,} members")
        top, _, below = name.partition("/")
        parent = name.rpartition("/")[0]
        if (parent and parent not in self._folders) or (not parent and name == MANIFEST):
            raise _Damaged(f"{shown(name)[:200]!r} is in a folder that is not in it")
        path = self._targets[top] / below if below else self._targets[top]
        if info.isreg():
            self._made.append(member(info, "file", self._file(info, path)))
        elif info.isdir():
            os.mkdir(path, 0o700)
            self._folders.add(name)
            self._closing.append((path, info))
            self._mark(info, path)
            self._made.append(member(info, "folder", ""))
        elif info.issym() and below:
            if rules.leaves(name, info.linkname):
                raise _Damaged(f"the link {shown(name)[:200]!r} leads out of its folder")
            os.symlink(info.linkname, path)
            digest = hashlib.sha256(os.fsencode(info.linkname)).hexdigest()
            self._made.append(member(info, "link", digest))
        else:
            raise _Damaged(f"{shown(name)[:200]!r} is neither a file nor a folder nor a link")

    def _file(self, info: tarfile.TarInfo, path: Path) -> str:
        self._left -= info.size
        if self._left < 0:
            raise BackupFailed(
                f"it holds more than backup.size allows, {self._limit >> 20} MB: raise it"
            )
        if info.name in (STATE, WORKSPACE) or info.issparse():
            raise _Damaged(f"{info.name!r} is no plain file")
        content = self._tar.extractfile(info)
        assert content is not None  # as it is a plain file
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            while piece := content.read(PIECE):
                digest.update(piece)
                file.write(piece)
            file.flush()
            self._mark(info, path)
            os.fchmod(file.fileno(), info.mode & 0o777)
            os.utime(file.fileno(), (info.mtime, info.mtime))
        return digest.hexdigest()

    @staticmethod
    def _mark(info: tarfile.TarInfo, path: Path) -> None:
        if MARK not in info.pax_headers:
            return
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not can_be_marked(fd):
                raise BackupFailed(
                    f"{path} must carry the mark of strangers' words, and the file system there "
                    "keeps no extended attributes: put it on ext4, XFS, Btrfs or ZFS"
                )
            mark_untrusted(fd)
        finally:
            os.close(fd)


def extract_anchors(backup: Path, folder: Path) -> None:
    """Write the journals of the anchors in the archive *backup* into *folder*.

    Raises ValueError if it cannot be read.
    """
    try:
        with tarfile.open(backup, "r:gz") as archive:
            for name in filter(_ANCHORS.fullmatch, archive.getnames()):
                if (file := archive.extractfile(name)) is not None:
                    (folder / Path(name).name).write_bytes(file.read())
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise ValueError(str(error)) from error
