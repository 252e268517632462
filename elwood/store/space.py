"""How much room there is where our state lies."""

import os
from pathlib import Path

from elwood.core.space import Space


def measure(folder: Path) -> Space:
    """Ask the file system of *folder*; blocks.  Raises OSError."""
    found = os.statvfs(folder)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    return Space(used, found.f_bavail * found.f_frsize)
