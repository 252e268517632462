"""Where the owner was heard last: what nobody asked for is said there."""

import logging
from pathlib import Path

import msgspec

from elwood.agent.conversation.route import Route
from elwood.foundation.storage.disk import Disk, DiskFull

log = logging.getLogger("elwood")


class LastHeard:
    """One route in the file *path*.  What is not saved when a process dies is no great loss."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self.route: Route | None = None
        self._saved: Route | None = None

    async def load(self) -> None:
        """Read it; what cannot be read counts for nothing."""
        data = await self._disk.blocking(self._read)
        try:
            read = msgspec.json.decode(data, type=Route) if data else None
        except msgspec.DecodeError as error:
            log.warning("not known where the owner was heard", extra={"why": str(error)})
        else:
            self._saved = read
            self.route = self.route or read  # they may have been heard meanwhile

    def note(self, route: Route) -> None:
        """The owner was heard at *route*, in private."""
        self.route = msgspec.structs.replace(route, reply_to=None)

    async def save(self) -> None:
        """Write it, if it is another than before; for one caller, now and then."""
        route = self.route
        if route is None or route == self._saved:
            return
        data = msgspec.json.encode(route)
        try:
            await self._disk.blocking(lambda: self._disk.replace(self._path, data))
        except DiskFull as error:
            log.warning("not noted where the owner was heard", extra={"why": str(error)})
        else:
            self._saved = route

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
