"""Whether files and folders are as they were when they were read, found out without a thread."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

# Change time and number of a file or folder; None if it is not there.
Stamp = tuple[int, int] | None
Stamps = Mapping[str, Stamp]
# Nanoseconds within which a second change may have the same time as the first: clocks have steps.
SETTLED = 100_000_000


def stamp_file(path: str) -> Stamp:
    """Return what changes whenever *path* is written, replaced, marked or linked to."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino


def is_unchanged(stamps: Stamps) -> bool:
    """Return True if all files of *stamps* still have theirs; a few microseconds each."""
    return bool(stamps) and all(stamp_file(path) == stamp for path, stamp in stamps.items())


def is_settled(stamps: Stamps, began: int) -> bool:
    """Return True if a later change shows: none of *stamps* is as new as *began* (ns, Unix)."""
    return all(one is None or one[0] < began - SETTLED for one in stamps.values())


def read_stamped(paths: Iterable[str], read: Callable[[], T]) -> tuple[Stamps, T]:
    """Return what *read* reads of *paths* behind their stamps; blocks.

    There are no stamps if the next change might not show in them.
    """
    began, stamps = time.time_ns(), {path: stamp_file(path) for path in paths}
    result = read()
    return stamps if is_settled(stamps, began) else {}, result
