"""Detect changes of files and folders since they were read, without a thread."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")

# Change time and inode number of a file or folder; None if it does not exist.
Stamp = tuple[int, int] | None
Stamps = Mapping[str, Stamp]
# Nanoseconds within which two changes may have the same time: clocks have steps.
SETTLED = 100_000_000


def stamp_file(path: str) -> Stamp:
    """Return a value that changes whenever *path* is written, replaced, marked or linked to."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino


def is_unchanged(stamps: Stamps) -> bool:
    """Return True if all files of *stamps* still have theirs; a few microseconds each."""
    return bool(stamps) and all(stamp_file(path) == stamp for path, stamp in stamps.items())


def is_settled(stamps: Stamps, began: int) -> bool:
    """Return True if a later change shows: no stamp is as new as *began* (ns, Unix)."""
    return all(one is None or one[0] < began - SETTLED for one in stamps.values())


def read_stamped(paths: Iterable[str], read: Callable[[], T]) -> tuple[Stamps, T]:
    """Return the stamps of *paths* from before the read, and the result of *read*; blocks.

    There are no stamps if the next change might not show in them.
    """
    began, stamps = time.time_ns(), {path: stamp_file(path) for path in paths}
    result = read()
    return stamps if is_settled(stamps, began) else {}, result
