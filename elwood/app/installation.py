"""Notices that Elwood was installed anew while it runs: two versions must not be mixed."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import trio

import elwood
from elwood.agent.channels.client import TellOwner
from elwood.agent.session.core import Core

log = logging.getLogger("elwood")

# Seconds between two looks at the files, some milliseconds each.
LOOK_EVERY = 10.0
# Seconds that answers under way may take before a restart, and a notice to reach the owner.
LAST_ANSWERS, TELLING = 60.0, 3_600.0
CHANGED = "Elwood was installed anew while it runs"
RESTARTS = f"{CHANGED}: it ends, to be started anew"
TO_RESTART = f"{CHANGED}, and still is the old version: start it anew."


class Installation(MetaPathFinder):
    """Our modules, or those in *folder*, as they were when this was made.

    As a finder of imports it refuses those that are not the same any more: whoever needs one
    crashes with an ImportError, and a start mends that.
    """

    def __init__(self, folder: Path = Path(elwood.__file__).parent) -> None:
        self._folder = folder
        self.at_start = self.look()

    def look(self) -> frozenset[tuple[str, int, int]]:
        """See which modules there are now; blocks for some milliseconds."""
        return frozenset(_modules(str(self._folder)))

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse a module of ours if it is not of our version; find none."""
        if name.startswith("elwood.") and self.look() != self.at_start:
            raise ImportError(f"{name} is of another version: {CHANGED}", name=name)
        return None


def _modules(folder: str) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    yield entry.path, status.st_ino, status.st_mtime_ns
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _modules(entry.path)
    except FileNotFoundError:
        return  # it is being replaced


async def watch(installation: Installation, core: Core, tell: TellOwner) -> None:
    """Wait until the *installation* has changed, and is whole; then end, or tell the owner.

    It ends where somebody starts it anew.  Until it is cancelled nothing changed is imported.
    """
    await core.up.wait()
    sys.meta_path.insert(0, installation)
    try:
        seen = installation.at_start
        while True:
            await trio.sleep(LOOK_EVERY)
            last, seen = seen, await core.environment.blocking(installation.look)
            if seen == last != installation.at_start:  # nobody writes there any more
                break
        if core.environment.notify.is_there:
            log.warning(RESTARTS)
            with trio.move_on_after(LAST_ANSWERS):
                await core.live.quiet()
            core.stop.set()
        else:
            log.warning(TO_RESTART)
            with trio.move_on_after(TELLING):
                await tell(TO_RESTART)
        await trio.sleep_forever()
    finally:
        sys.meta_path.remove(installation)
