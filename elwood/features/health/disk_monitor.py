"""Watches over the disks, and writes down how Elwood does for those who look from outside."""

import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import trio

from elwood.agent.session.core import Admission
from elwood.agent.session.inspection import Inspection, shorten
from elwood.foundation.runtime import clear_error, report_error, report_warning
from elwood.foundation.storage.disk import DiskFull, Space, refusal, warning

log = logging.getLogger("elwood.vitals")

# Seconds between two looks.
EVERY = 20.0
# Looks between two writings of health.json: monitors ask once a minute.
WRITE_EVERY = 3
# Actors and sessions that stand in it.
LISTED = 200

LITTLE, NONE, WRITE = "little room on the disk", "disk full", "writing health.json"


class HealthFile(msgspec.Struct, frozen=True):
    """What stands in health.json; *at* is Unix seconds.

    *disk* tells of each folder how full its disk is, if anybody could say.
    """

    at: float
    status: str
    disk: Mapping[str, Space]
    house: Inspection


class Vitals:
    """Looks every few seconds; *admission* is told why no new work is to be taken, if none is.

    *folders* measure the disks of what they are named after, and raise OSError; *write* raises
    DiskFull; *inspect* is what `elwood inspect` sees.
    """

    def __init__(
        self,
        folders: Mapping[str, Callable[[], Awaitable[Space]]],
        write: Callable[[bytes], Awaitable[None]],
        inspect: Callable[[], Inspection],
        now: Callable[[], float],
        admission: Admission,
    ) -> None:
        self._admission = admission
        self._folders = folders
        self._spaces: dict[str, Space] = {}
        self._write = write
        self._inspect = inspect
        self._now = now

    async def run(self, status: Callable[[], str]) -> None:
        """Look until cancelled; *status* says in a few words how Elwood does."""
        looks = 0
        while True:
            await self._look()
            if looks % WRITE_EVERY == 0:
                house = shorten(self._inspect(), LISTED)
                health = HealthFile(self._now(), status(), self._spaces, house)
                try:
                    await self._write(msgspec.json.format(msgspec.json.encode(health)) + b"\n")
                except DiskFull as error:
                    report_error(WRITE, str(error))
                else:
                    clear_error(WRITE)
            looks += 1
            await trio.sleep(EVERY)

    async def _look(self) -> None:
        """Measure what can be; what cannot stays as it was seen last."""
        for name, measure in self._folders.items():
            try:
                self._spaces[name] = await measure()
            except OSError as error:
                log.warning("room on the disk unknown", extra={"of": name, "why": str(error)})
        self._admission.refusal = refusal(self._spaces)
        for what, why in ((LITTLE, warning(self._spaces)), (NONE, self._admission.refusal)):
            if why:
                report_warning(what, why)
            else:
                clear_error(what)
