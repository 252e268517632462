"""The sessions in memory: their marks for the next start, and which of them leave it first."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from elwood.agent.session.live import MAX_IDLE, LiveSessions
from elwood.agent.session.log.state import Session
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


@pytest.mark.parametrize(("size", "most", "left"), [(1, 3, 3), (MAX_IDLE // 4, 100, 4)])
async def test_the_longest_idle_sessions_leave_the_memory(
    live: LiveSessions, size: int, most: int, left: int
) -> None:
    waits = [trio.CancelScope() for _ in range(10)]
    with ExitStack() as waiting:
        for number, wait in enumerate(waits):
            live.publish(f"s{number}", Session())
            waiting.enter_context(live.register_waiting(f"s{number}", wait, size, most))
        assert [wait.cancel_called for wait in waits] == [True] * (10 - left) + [False] * left


async def test_a_large_session_waits_alone(live: LiveSessions) -> None:
    first, second = trio.CancelScope(), trio.CancelScope()
    for name in ("first", "second"):
        live.publish(name, Session())
    with live.register_waiting("first", first, 2 * MAX_IDLE, 100):
        assert not first.cancel_called
        with live.register_waiting("second", second, 1, 100):
            assert first.cancel_called
            assert not second.cancel_called
