"""agent.toml, and what it said before: a file for each version, `agent-toml/000001.toml` …"""

from pathlib import Path

from elwood.agent.session.settings import AGENT_FILE
from elwood.foundation.storage.disk import Disk

# Versions that are kept, and bytes of one.
MAX_VERSIONS, LARGEST = 20, 20_000
# So began a file of this name that earlier versions wrote, a copy of tasks: it says nothing.
OLD_COPY = "# Written by Elwood: the tasks that were made in conversations."


def read(path: Path) -> str:
    """Return what the file says, "" if there is none; blocks.  Raises OSError and ValueError."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    text = content.decode()
    return "" if text.startswith(OLD_COPY) else text


class OwnFiles:
    """The files in the folder *state*; all of it blocks."""

    def __init__(self, state: Path, disk: Disk) -> None:
        self.path = state / AGENT_FILE
        self._folder = state / "agent-toml"
        self._disk = disk

    def write(self, text: str) -> None:
        """Let the file say *text*.  Raises DiskFull and JournalBroken."""
        self._disk.replace(self.path, text.encode())

    def versions(self) -> list[str]:
        """Return what it said when it was good, the newest last: that is in force."""
        return [path.read_text() for path in self._paths()]

    def keep(self, text: str) -> None:
        """Make *text* the newest version; the oldest makes room.  Raises as `write`."""
        paths = self._paths()
        newest = int(paths[-1].stem) if paths else 0
        self._disk.make_folder(self._folder)
        self._disk.replace(self._folder / f"{newest + 1:06}.toml", text.encode())
        for path in paths[: len(paths) + 1 - MAX_VERSIONS]:
            self._disk.remove(path)

    def drop(self, count: int) -> None:
        """Forget the newest *count* versions.  Raises as `write`."""
        for path in self._paths()[-count:]:
            self._disk.remove(path)

    def _paths(self) -> list[Path]:
        found = self._folder.glob("*.toml") if self._folder.is_dir() else ()
        return sorted(path for path in found if path.stem.isdecimal())
