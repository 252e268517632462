"""Follow one command: the untrusted files that it reads, and the files that it writes.

Files that it wrote are marked as untrusted if it ran for an untrusted conversation, or read or was
given an untrusted file. A note on the disk says that a command runs, so that the next start
finishes the work that a crash cut off. Everything here blocks.
"""

import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

import attrs
import msgspec

from elwood.foundation.sandbox.command import Rung
from elwood.foundation.sandbox.instructions import SetAside, keep_copies, set_changes_aside
from elwood.foundation.sandbox.layout import INSTRUCTIONS
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import Root, can_be_marked
from elwood.foundation.storage.traces import (
    FolderState,
    Traced,
    find_reads,
    mark_changes,
    record_files,
    records_reads,
    was_read_since,
)

# What may stand around a name in the output of a command.
_AROUND_NAMES = re.compile(r"[\s/'\":,()]+")
# Folder of the state with a note of each command that runs.
RUNNING = "commands"
_NOTE = "note.json"


class _Note(msgspec.Struct, frozen=True):
    """A command that runs."""

    roots: tuple[str, ...]
    """The folders that it may write."""
    untrusted: bool
    """Whether its files will be marked in any case."""
    guarded: tuple[str, ...]
    """The instruction files that it cannot write."""


def list_guarded(rung: Rung) -> tuple[str, ...]:
    """Return the names in the workspace that a command in *rung* cannot write."""
    return INSTRUCTIONS if rung in ("bubblewrap", "docker") else ()


@attrs.define
class FollowedCommand:
    """A command that is about to run; `begin` makes it."""

    roots: Sequence[Root]
    """The workspace, and the mounts that the command may write."""
    states: Sequence[FolderState]
    sources: dict[str, None]
    """Untrusted files that it read, or that its words name."""
    untrusted: bool
    """Whether the conversation is untrusted."""
    guarded: tuple[str, ...]
    _state: Path
    note: Path | None = None
    """Folder of the note; None for a command that cannot write."""

    @property
    def needs_marks(self) -> bool:
        return self.untrusted or bool(self.sources)

    @property
    def can_mark(self) -> bool:
        """Whether the file systems keep marks."""
        return all(_keeps_marks(root.path) for root in self.roots)

    def finish(self, output: str) -> tuple[list[str], list[SetAside]]:
        """Mark the files that it wrote; return the failures, and the instructions set aside.

        *output* was printed by it: the names of untrusted files are strangers' words, too.
        """
        words = set(_AROUND_NAMES.split(output))
        for root, before in zip(self.roots, self.states, strict=True):
            names = {path.rpartition("/")[2]: path for path in before.marked}
            self.sources |= dict.fromkeys(names[name] for name in words & names.keys())
            if self.note is not None:
                self.sources |= dict.fromkeys(find_reads(root.path, before))
        if self.note is None:
            return [], []
        failed: list[str] = []
        if self.needs_marks:
            for root, before in zip(self.roots, self.states, strict=True):
                failed += mark_changes(root.path, partial(self._is_new, root, before))
        changed = [] if self.guarded else set_changes_aside(self.roots[0], self.note, self._state)
        rmtree(self.note, ignore_errors=True)
        return failed, changed

    def _is_new(self, root: Root, before: FolderState, found: Traced) -> bool:
        is_other = found.identity not in before.known and not root.is_own(found.identity)
        return is_other and not _is_guarded(found, self.guarded)


def begin(
    roots: Sequence[Root],
    named: Sequence[tuple[Root, str]],
    sources: Sequence[str],
    state: Path,
    rung: Rung,
    *,
    uses_git: bool,
    untrusted: bool,
    writes: bool,
) -> FollowedCommand:
    """Look at *roots*, the workspace first, before a command whose words name the paths *named*.

    *sources* are untrusted folders that it sees.  Raises TooManyFiles.
    """
    guarded = list_guarded(rung)
    states = [record_files(root, watch=writes) for root in roots]
    found = dict.fromkeys(sources)
    for root, path in named:
        known = dict(zip(roots, states, strict=True)).get(root)
        if known is None:
            found |= dict.fromkeys(_find_untrusted(root, path))
        elif writes and not records_reads(root.path):
            found |= dict.fromkeys(_beneath(path, known.marked))
        else:  # a file in a named folder shows when it is read, or when its name is printed
            names = (path.rstrip("/"), f"{path}.git")
            found |= dict.fromkeys(name for name in names[: 1 + uses_git] if name in known.marked)
    if uses_git and any(".git" in known.marked for known in states):
        found[".git"] = None
    followed = FollowedCommand(roots, states, found, untrusted, guarded, state)
    if writes:
        followed.note = _write_note(followed, state)
    return followed


def finish_interrupted(workspace: Root, state: Path) -> None:
    """Mark files and set instructions aside for the commands that a crash ended."""
    for folder in sorted((state / RUNNING).glob("*")):
        with suppress(FileNotFoundError, msgspec.DecodeError):  # it had not begun
            since = (folder / _NOTE).stat().st_ctime_ns
            note = msgspec.json.decode((folder / _NOTE).read_bytes(), type=_Note)
            for path in map(Path, note.roots):
                root = workspace if path == workspace.path else Root(path)
                if path.is_dir() and (note.untrusted or was_read_since(root, since)):
                    mark_changes(path, partial(_is_later, since, note.guarded))
            if not note.guarded:
                set_changes_aside(workspace, folder, state)
        rmtree(folder, ignore_errors=True)


def _is_later(since: int, guarded: Collection[str], found: Traced) -> bool:
    return found.changed_at >= since and not _is_guarded(found, guarded)


def _is_guarded(found: Traced, guarded: Collection[str]) -> bool:
    return found.path.partition("/")[0] in guarded


def _write_note(followed: FollowedCommand, state: Path) -> Path:
    folder = state / RUNNING / uuid4().hex
    folder.mkdir(mode=0o700, parents=True)
    if not followed.guarded:
        keep_copies(followed.roots[0].path, folder)
    roots = tuple(str(root.path) for root in followed.roots)
    note = _Note(roots, followed.needs_marks, followed.guarded)
    (folder / _NOTE).write_bytes(msgspec.json.encode(note))
    return folder


def _beneath(path: str, marked: Collection[str]) -> list[str]:
    """List those of *marked* that are *path*, or beneath it."""
    path = path.rstrip("/")
    if path in ("", "."):
        return list(marked)
    return [one for one in marked if one == path or one.startswith(f"{path}/")]


def _find_untrusted(root: Root, path: str) -> list[str]:
    """Return the place of untrusted files in a folder that is not followed, if there are any."""
    try:
        items, more = root.walk(path or ".")
    except PathRefused:
        return []
    name = f"{root.path.name}/{path}".rstrip("/")
    return [name] if more or any(item.untrusted for item in items) else []


def _keeps_marks(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return can_be_marked(fd)
    finally:
        os.close(fd)
