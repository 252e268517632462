"""The one seam for work that blocks: files, DNS, SQLite.

Trio's mock clock jumps while worker threads run (trio#456), so tests under ``autojump_clock``
hand in ``inline`` instead.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")


class Blocking(Protocol):
    """Runs a blocking function: either not at all (Cancelled), or to its end."""

    async def __call__(self, fn: Callable[[], T], /) -> T:
        """Return what *fn* returns."""


async def in_thread(fn: Callable[[], T], /) -> T:
    """Run *fn* in one of Trio's worker threads.

    Cancelled before *fn* starts, it never runs; after that it runs to its end and returns.
    """
    return await trio.to_thread.run_sync(fn)


async def inline(fn: Callable[[], T], /) -> T:
    """Run *fn* here: for tests with a mock clock."""
    await trio.lowlevel.checkpoint()
    return fn()
