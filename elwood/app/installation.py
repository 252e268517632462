"""Detect that Elwood was reinstalled while it runs: two versions must not be mixed."""

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

# Seconds between two checks of the files, some milliseconds each.
LOOK_EVERY = 10.0
# Seconds for answers in progress before a restart, and for a notice to reach the owner.
LAST_ANSWERS, TELLING = 60.0, 3_600.0
CHANGED = "A new version of Elwood was installed"
RESTARTS = f"{CHANGED}: stopping for a restart"
TO_RESTART = f"{CHANGED}, but the old one is still running. Restart Elwood."


class Installation(MetaPathFinder):
    """Our modules, or those in *folder*, as they were when this object was created.

    As an import finder it refuses modules that have changed: the importing actor crashes with an
    ImportError, and a restart repairs that.
    """

    def __init__(self, folder: Path = Path(elwood.__file__).parent) -> None:
        self._folder = folder
        self.at_start = self.list_modules()

    def list_modules(self) -> frozenset[tuple[str, int, int]]:
        """Return the present modules; blocks for some milliseconds."""
        return frozenset(_list_modules(str(self._folder)))

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse a module of ours if it has changed; find none."""
        if name.startswith("elwood.") and self.list_modules() != self.at_start:
            raise ImportError(
                f"{name} has another version than the running program: {CHANGED}", name=name
            )
        return None


def _list_modules(folder: str) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    yield entry.path, status.st_ino, status.st_mtime_ns
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _list_modules(entry.path)
    except FileNotFoundError:
        return  # it is being replaced


async def watch(installation: Installation, core: Core, tell: TellOwner) -> None:
    """Wait until the *installation* has changed and is complete; then exit, or notify the owner.

    It exits if a service manager restarts it.  Until then no changed module is imported.
    """
    await core.up.wait()
    sys.meta_path.insert(0, installation)
    try:
        present = installation.at_start
        while True:
            await trio.sleep(LOOK_EVERY)
            last, present = present, await core.environment.blocking(installation.list_modules)
            if present == last != installation.at_start:  # no longer being written
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
