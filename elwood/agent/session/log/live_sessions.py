"""Which sessions live: a file for each, so that a restart knows whom to wake (decision 3)."""

from collections.abc import Sequence
from pathlib import Path

from elwood.foundation.storage.disk import Disk


class Markers:
    """One empty file per name in *folder*; it is on the disk when `set` returns."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    async def set(self, name: str) -> None:
        """Make the marker *name*.  Raises DiskFull, JournalBroken."""
        await self._disk.blocking(lambda: self._make(self._folder / name))

    async def clear(self, name: str) -> None:
        """Remove the marker *name*, if it is there."""
        await self._disk.blocking(lambda: self._disk.remove(self._folder / name))

    async def names(self) -> Sequence[str]:
        """List the markers, in order."""
        return await self._disk.blocking(self._list)

    def _make(self, path: Path) -> None:
        if not path.exists():
            self._disk.make_folder(path.parent)
            self._disk.replace(path, b"")

    def _list(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if path.suffix != ".tmp")
