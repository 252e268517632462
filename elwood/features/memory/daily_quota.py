"""How often something may be done in a day, counted on the disk, so that no restart begins anew."""

from pathlib import Path

import trio

from elwood.foundation.runtime import clear_error, report_error
from elwood.foundation.storage.disk import Disk, DiskFull

# Bytes of the file that are read: a date and a number.
_MAX_FILE = 64
_WRITE = "counting what may be done in a day"


class Allowance:
    """At most *limit* times a day, in all; the file *path* says how often it was.  Make one.

    What cannot be counted may not be done.
    """

    def __init__(self, path: Path, disk: Disk, limit: int) -> None:
        self._path = path
        self._disk = disk
        self._limit = limit
        self._taking = trio.Lock()

    async def take(self, day: str) -> bool:
        """Count one more on *day* (ISO date) before it is done; False if it may not be."""
        async with self._taking:
            try:
                taken = await self._disk.blocking(lambda: self._take(day))
            except DiskFull as error:
                report_error(_WRITE, str(error))
                return False
            clear_error(_WRITE)
            return taken

    def _take(self, day: str) -> bool:
        try:
            with self._path.open("rb") as file:
                last, _, count = file.read(_MAX_FILE).decode("ascii", "replace").partition(" ")
        except FileNotFoundError:
            last, count = day, "0"
        done = int(count) if last == day and count.isascii() and count.isdigit() else 0
        if done >= self._limit:
            return False
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, f"{day} {done + 1}".encode())
        return True
