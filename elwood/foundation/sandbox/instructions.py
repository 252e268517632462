"""Instruction files that a command changed are set aside until the owner has looked at them.

Only sandboxes that cannot guard a file within a folder need this (Landlock, and none). The earlier
file takes its place again. Everything here blocks.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import msgspec

from elwood.foundation.sandbox.layout import DOCUMENTS, INSTRUCTIONS
from elwood.foundation.storage.confined import PathMissing, PathRefused, open_beneath
from elwood.foundation.storage.files import Root, identify

# Copies of the instruction files during a command: bytes of one and of all, and their number.
MAX_FILE, MAX_BYTES, MAX_FILES = 1 << 20, 8 << 20, 500
# Files that wait for the owner at one time; of more, the oldest go.
MAX_SET_ASIDE = 50
# Folder of the state with the files that wait for the owner.
SHELF = "set-aside"
_LIST, _COPIES, _ABOUT, _CONTENT = "instructions.json", "copies", "about.json", "content"


class SetAside(msgspec.Struct, frozen=True):
    """A file that a command wrote."""

    id: str
    """Number, and the first digits of the hash of its content: a decision is about this content."""
    path: str
    """Where it was in the workspace."""
    what: str = "file"
    """Or "link to PLACE"."""


def keep_copies(workspace: Path, folder: Path) -> None:
    """List the instruction files of *workspace* in *folder*, with copies while there is room."""
    room, listed = MAX_BYTES, dict[str, int]()
    for number, (path, found) in enumerate(_instructions(workspace)):
        listed[path] = identify(found)
        if number < MAX_FILES and found.st_size <= min(MAX_FILE, room):
            room -= found.st_size
            copy = folder / _COPIES / path
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                copy.write_bytes((workspace / path).read_bytes())
                copy.chmod(stat.S_IMODE(found.st_mode))
    (folder / _LIST).write_bytes(msgspec.json.encode(listed))


def set_changes_aside(workspace: Root, folder: Path, state: Path) -> list[SetAside]:
    """Set aside every file that differs from the list in *folder*, and put the copies back."""
    before = msgspec.json.decode((folder / _LIST).read_bytes(), type=dict[str, int])
    shelf = state / SHELF
    now = {path: identify(found) for path, found in _instructions(workspace.path)}
    moved = [
        _set_aside(workspace, path, shelf)
        for path, identity in now.items()
        if before.get(path) != identity and not workspace.is_own(identity)
    ]
    for path in before:
        copy = folder / _COPIES / path
        if not os.path.lexists(workspace.path / path) and copy.is_file():
            with suppress(PathRefused):
                workspace.write(path, copy.read_bytes(), untrusted=False)
                (workspace.path / path).chmod(stat.S_IMODE(copy.stat().st_mode))
    return [one for one in moved if one is not None]


def list_set_aside(state: Path) -> list[SetAside]:
    """List the files that wait for the owner, the oldest first."""
    found: list[SetAside] = []
    for folder in sorted((state / SHELF).glob("*")):
        with suppress(FileNotFoundError, msgspec.DecodeError):
            found.append(msgspec.json.decode((folder / _ABOUT).read_bytes(), type=SetAside))
    return found


def read_set_aside(state: Path, one: SetAside) -> bytes:
    return (_folder(state, one) / _CONTENT).read_bytes()


def accept(workspace: Root, state: Path, one: SetAside) -> None:
    """Put the file where the command had put it.  Raises PathRefused and Unconfined."""
    workspace.write(one.path, read_set_aside(state, one), untrusted=False)
    discard(state, one)


def discard(state: Path, one: SetAside) -> None:
    rmtree(_folder(state, one))


def _folder(state: Path, one: SetAside) -> Path:
    return state / SHELF / one.id


def _instructions(workspace: Path) -> Iterator[tuple[str, os.stat_result]]:
    """List the instruction files: plain files and links; links are not followed."""
    waiting = list(INSTRUCTIONS)
    while waiting:
        path = waiting.pop()
        with suppress(OSError):
            found = os.stat(workspace / path, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                yield path, found
            elif path not in DOCUMENTS:
                waiting += (f"{path}/{name}" for name in os.listdir(workspace / path))


def _set_aside(workspace: Root, path: str, shelf: Path) -> SetAside | None:
    """Move a file or link to *shelf*; None if it vanished."""
    parent, _, name = path.rpartition("/")
    try:
        root = os.open(workspace.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            folder = open_beneath(root, parent or ".", os.O_PATH | os.O_DIRECTORY)
        finally:
            os.close(root)
    except OSError:
        return None
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        content, what = b"", "file"
        if stat.S_ISLNK(found.st_mode):
            what = f"link to {os.readlink(name, dir_fd=folder)}"
        elif stat.S_ISREG(found.st_mode):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with open(fd, "rb") as source:
                content = source.read(MAX_BYTES)
        else:
            what = "device or pipe"
        made = _put(shelf, path, what, content)
        os.unlink(name, dir_fd=folder)
    except (FileNotFoundError, PathMissing):
        return None
    finally:
        os.close(folder)
    return made


def _put(shelf: Path, path: str, what: str, content: bytes) -> SetAside:
    shelf.mkdir(mode=0o700, exist_ok=True)
    old = sorted(shelf.glob("*"))
    for one in old[: max(0, len(old) - MAX_SET_ASIDE + 1)]:
        rmtree(one, ignore_errors=True)
    number = 1 + max((int(one.name.partition("-")[0]) for one in old), default=0)
    made = SetAside(f"{number:04}-{hashlib.sha256(content).hexdigest()[:8]}", path, what)
    folder = shelf / made.id
    folder.mkdir(mode=0o700)
    (folder / _CONTENT).write_bytes(content)
    (folder / _ABOUT).write_bytes(msgspec.json.encode(made))
    return made
