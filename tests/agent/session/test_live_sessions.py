"""Marks of the sessions to wake at the next start: one sync for many, one each on a full disk."""

import errno
import os
from pathlib import Path

import pytest
import trio

from elwood.agent.session.live import LiveSessions
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Calls, Disk, DiskFull


class Counting(Calls):
    """Counts syncs; creates no file while *is_full*."""

    def __init__(self) -> None:
        self.syncs = 0
        self.is_full = False

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.is_full and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, flags, mode)

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


@pytest.fixture
def calls() -> Counting:
    return Counting()


@pytest.fixture
def live(tmp_path: Path, calls: Counting) -> LiveSessions:
    disk = Disk(blocking=inline, clock=lambda: 0.0, calls=calls)
    return LiveSessions(tmp_path / "open", disk, trio.current_time)


async def test_many_sessions_are_marked_together(live: LiveSessions, calls: Counting) -> None:
    await live.mark("first")
    before = calls.syncs
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(live.mark, f"s{number}")
    assert await live.list_marked() == sorted(["first", *(f"s{number}" for number in range(100))])
    assert calls.syncs - before <= 3


async def test_a_marked_session_needs_no_space(live: LiveSessions, calls: Counting) -> None:
    await live.mark("old")
    calls.is_full = True
    for _ in range(2):
        with pytest.raises(DiskFull):
            await live.mark("new")
        await live.mark("old")
    calls.is_full = False
    await live.mark("new")
    assert await live.list_marked() == ["new", "old"]
