"""Where the owner was heard last: what nobody asked for is said there."""

import logging
from pathlib import Path

import msgspec
import trio

from elwood.core.session import Route
from elwood.store.calls import DiskFull
from elwood.store.disk import Disk

log = logging.getLogger("elwood")

# Seconds after a write until the next: owners may write in many places at once, and after a crash
# the place of a moment ago is good enough.
PAUSE = 5.0


class LastHeard:
    """One route in the file *path*; written soon after it has changed."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self.route: Route | None = None
        self._written: Route | None = None
        self._writing = False

    async def load(self) -> None:
        """Read it; what cannot be read counts for nothing."""
        data = await self._disk.blocking(self._read)
        try:
            self._written = msgspec.json.decode(data, type=Route) if data else None
        except msgspec.DecodeError as error:
            log.warning("not known where the owner was heard", extra={"why": str(error)})
        self.route = self.route or self._written

    async def note(self, route: Route) -> None:
        """The owner was heard at *route*, in private.

        Who comes while another writes leaves it to them; so they stay until it is written.
        """
        self.route = msgspec.structs.replace(route, reply_to=None)
        if self._writing:
            return
        self._writing = True
        try:
            while self.route != self._written:
                await self._write(self.route)
                await trio.sleep(PAUSE)
        except DiskFull as error:
            log.warning("not noted where the owner was heard", extra={"why": str(error)})
        finally:
            self._writing = False

    async def _write(self, route: Route) -> None:
        data = msgspec.json.encode(route)
        await self._disk.blocking(lambda: self._disk.replace(self._path, data))
        self._written = route

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
