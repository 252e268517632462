"""Every state that a crash can leave on a disk, computed from the recorded system calls.

The model is as hostile as POSIX allows.  Until a file is synced, each of its writes may be lost,
cut in half or zeroed, independently.  Until a folder is synced, any prefix of the changes to its
names may be on the disk.  Syncing a file does not sync its name.
"""

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import attrs

from elwood.foundation.storage.disk import Calls

FOLDER = -1


@attrs.frozen
class Name:
    """In *folder*, *name* becomes *inode* (None: removed); *old* is its previous name."""

    folder: str
    name: str
    inode: int | None
    old: str | None = None


@attrs.frozen
class Bytes:
    """*data* at *offset* of *inode*; None truncates it there."""

    inode: int
    offset: int
    data: bytes | None


@attrs.frozen
class Synced:
    """An inode, or a folder by name, was synced."""

    what: int | str


@attrs.frozen
class Acknowledged:
    """The caller got a confirmation of *count* entries."""

    count: int


Op = Name | Bytes | Synced | Acknowledged
# Names below the base folder, and their contents; None is a folder.
Tree = dict[str, bytes | None]


class Recorder(Calls):
    """Makes the real calls below *base* and records them in *log*."""

    def __init__(self, base: Path, before: "Recorder | None" = None, upto: int = 0) -> None:
        self.base = base
        self.log: list[Op] = [] if before is None else before.log[:upto]
        self._names: dict[str, int] = {}
        self._fds: dict[int, int | str] = {}
        for op in self.log:
            self._rename(op)

    def adopt(self, tree: Tree) -> None:
        """Start from *tree*, which is below *base* and synced."""
        for name in sorted(tree, key=lambda name: name.count("/")):
            folder = Path(name).parent.as_posix()
            content = tree[name]
            inode = FOLDER if content is None else len(self.log)
            self._add(Name(folder, name, inode))
            if content is not None:
                self.log += [Bytes(inode, 0, content), Synced(inode)]
            self.log.append(Synced(folder))

    def _rename(self, op: Op) -> None:
        if not isinstance(op, Name):
            return
        if op.old is not None:
            del self._names[op.old]
        if op.inode is None:
            del self._names[op.name]
        else:
            self._names[op.name] = op.inode

    def _add(self, op: Op) -> None:
        self._rename(op)
        self.log.append(op)

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self.base)

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        fd = super().open(path, flags, mode)
        if flags & os.O_DIRECTORY:
            self._fds[fd] = self._name(path)
            return fd
        name = self._name(path)
        if name not in self._names:
            inode = len(self.log)
            self._add(Name(self._name(path.parent), name, inode))
        self._fds[fd] = self._names[name]
        if flags & os.O_TRUNC:
            self._add(Bytes(self._names[name], 0, None))
        return fd

    def write(self, fd: int, data: bytes) -> int:
        inode = self._fds[fd]
        assert isinstance(inode, int)
        written = super().write(fd, data)
        # Files are only written at their end.
        self._add(Bytes(inode, os.fstat(fd).st_size - written, data[:written]))
        return written

    def truncate(self, fd: int, size: int) -> None:
        inode = self._fds[fd]
        assert isinstance(inode, int)
        super().truncate(fd, size)
        self._add(Bytes(inode, size, None))

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._add(Synced(self._fds[fd]))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        name = self._name(old)
        self._add(Name(self._name(old.parent), self._name(new), self._names[name], name))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._add(Name(self._name(path.parent), self._name(path), None))

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        super().mkdir(path, mode)
        self._add(Name(self._name(path.parent), self._name(path), FOLDER))


def power_cuts(log: list[Op]) -> Iterator[Tree]:
    """Yield every distinct state of the disk after *log* and a power failure."""
    names: dict[str, int] = {}
    pending: dict[str, list[Name]] = defaultdict(list)
    data: dict[int, bytes] = defaultdict(bytes)
    unsynced: dict[int, list[Bytes]] = defaultdict(list)
    for op in log:
        match op:
            case Name():
                pending[op.folder].append(op)
            case Bytes():
                unsynced[op.inode].append(op)
            case Synced(str(folder)):
                names = _apply_renames(names, pending.pop(folder, []))
            case Synced(int(inode)):
                for write in unsynced.pop(inode, []):
                    data[inode] = _apply_write(data[inode], write)
            case Acknowledged():
                pass
    folders = [[ops[:n] for n in range(len(ops) + 1)] for ops in pending.values()]
    files = [_contents(data[inode], ops) for inode, ops in unsynced.items()]
    seen = set()
    for kept in itertools.product(*folders):
        found = names
        for ops in kept:
            found = _apply_renames(found, ops)
        for contents in itertools.product(*files):
            held = data | dict(zip(unsynced, contents, strict=True))
            tree = {
                name: None if inode == FOLDER else held.get(inode, b"")
                for name, inode in found.items()
                if all(p.as_posix() in found for p in Path(name).parents if p != Path())
            }
            if (key := frozenset(tree.items())) not in seen:
                seen.add(key)
                yield tree


def state_after_kill(log: list[Op]) -> Tree:
    """Return the state after *log* if only the process died: the kernel loses nothing."""
    names: dict[str, int] = {}
    data: dict[int, bytes] = defaultdict(bytes)
    for op in log:
        match op:
            case Name():
                names = _apply_renames(names, [op])
            case Bytes():
                data[op.inode] = _apply_write(data[op.inode], op)
            case _:
                pass
    return {name: None if inode == FOLDER else data[inode] for name, inode in names.items()}


def count_acknowledged(log: list[Op]) -> int:
    """Return the number of acknowledged entries."""
    return max((op.count for op in log if isinstance(op, Acknowledged)), default=0)


def create_tree(tree: Tree, base: Path) -> None:
    """Create *tree* below *base*, which must be empty."""
    for name in sorted(tree):
        content = tree[name]
        if content is None:
            (base / name).mkdir()
        else:
            (base / name).write_bytes(content)


def _apply_renames(names: dict[str, int], ops: list[Name]) -> dict[str, int]:
    names = dict(names)
    for op in ops:
        if op.old is not None:
            names.pop(op.old, None)
        if op.inode is None:
            names.pop(op.name, None)
        else:
            names[op.name] = op.inode
    return names


def _contents(start: bytes, ops: list[Bytes]) -> set[bytes]:
    found = {start}
    for op in ops:
        found |= {after for content in found for after in _fates(content, op)}
    return found


def _fates(content: bytes, op: Bytes) -> Iterator[bytes]:
    """Return the possible partial effects of one operation: torn or zeroed."""
    yield _apply_write(content, op)
    if op.data is None:
        return
    size = len(op.data)
    for kept in {1, size // 2, size - 1}:
        yield _apply_write(content, attrs.evolve(op, data=op.data[:kept]))
        yield _apply_write(content, attrs.evolve(op, data=bytes(kept) + op.data[kept:]))
        yield _apply_write(content, attrs.evolve(op, data=op.data[:kept] + bytes(size - kept)))
    yield _apply_write(content, attrs.evolve(op, data=bytes(size)))


def _apply_write(content: bytes, op: Bytes) -> bytes:
    before = content[: op.offset].ljust(op.offset, b"\0")
    if op.data is None:
        return before
    return before + op.data + content[op.offset + len(op.data) :]
