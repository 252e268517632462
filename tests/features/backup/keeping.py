"""A state folder and a workspace for backups, and their content."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs

from elwood.features.backup.store import Scope
from elwood.foundation.storage.journal import digest, write_line

# Unix time at which backups of tests are taken.
NOW = 1_790_000_000.0
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def scope(folder: Path, limit: int = 1 << 30) -> Scope:
    """Return the folders of a backup below *folder*; they do not exist yet."""
    state = folder / "state"
    return Scope(state=state, workspace=folder / "workspace", folder=state / "backups", limit=limit)


def lines(*entries: str) -> bytes:
    """Build a journal with one entry per line."""
    made, head = b"", ""
    for seq, entry in enumerate(entries, 1):
        line = write_line(seq, head, NOW, (entry,))
        made, head = made + line, digest(line)
    return made


def furnish(here: Scope, said: str = "hello") -> None:
    """Fill a state folder and a workspace with some of everything; *said* is in all of it."""
    for name in ("sessions/open", "memory", "running", "run", "sandbox"):
        (here.state / name).mkdir(parents=True, mode=0o700)
    files = {
        "sessions/tg-1.jsonl": lines(said, "more"),
        "sessions/open/tg-1": b"",
        "approvals.jsonl": lines(said),
        "usage.jsonl": lines(said),
        "memory/note.md": said.encode(),
        "memory/.note.md.tmp": b"half",
        "memory.undo": said.encode(),
        "lock": b"1\n",
        "reserve": b"\0" * 100,
        "running/command": b"{}",
    }
    for name, content in files.items():
        (here.state / name).write_bytes(content)
    (here.workspace / "folder").mkdir(parents=True)
    (here.workspace / "folder" / "said.txt").write_text(said)
    (here.workspace / "link").symlink_to("folder/said.txt")


def git(folder: Path, *words: str) -> str:
    """Run git in *folder*; return its output."""
    home = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [*GIT, *words], cwd=folder, env=home, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def contents(folder: Path, wanted: Callable[[str], bool] = lambda path: True) -> dict[str, object]:
    """Read everything below *folder*: files, links (their targets) and folders (None)."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not wanted(name):
            continue
        if path.is_symlink():
            found[name] = path.readlink()
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def is_kept(path: str) -> bool:
    """Return True if a backup contains this path of `furnish`'s state."""
    left = (
        "lock",
        "reserve",
        "running",
        "run",
        "sandbox",
        "backups",
        "before-",
        "restor",
        "anchors",
    )
    return not path.startswith((*left, "sessions/open")) and not path.endswith(".tmp")


@attrs.define
class Clock:
    """A clock that advances by a second at each call."""

    at: float = NOW

    def __call__(self) -> float:
        self.at += 1
        return self.at
