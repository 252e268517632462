"""Where the owner was heard last: what nobody asked for is said there."""

import logging
from pathlib import Path

import msgspec

from elwood.core.session import Route
from elwood.store.calls import DiskFull
from elwood.store.disk import Disk

log = logging.getLogger("elwood")


class LastHeard:
    """One route in the file *name* of the state folder; written when it changes."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self.route: Route | None = None

    async def load(self) -> None:
        """Read it; what cannot be read counts for nothing."""
        data = await self._disk.blocking(self._read)
        try:
            read = msgspec.json.decode(data, type=Route) if data else None
        except msgspec.DecodeError as error:
            log.warning("not known where the owner was heard", extra={"why": str(error)})
        else:
            self.route = self.route or read  # they may have been heard meanwhile

    async def note(self, route: Route) -> None:
        """The owner was heard at *route*, in private."""
        route = msgspec.structs.replace(route, reply_to=None)
        if route == self.route:
            return
        self.route = route
        try:
            await self._disk.blocking(
                lambda: self._disk.replace(self._path, msgspec.json.encode(route))
            )
        except DiskFull as error:
            log.warning("not noted where the owner was heard", extra={"why": str(error)})

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
