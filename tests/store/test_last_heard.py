"""Where the owner was heard last."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from elwood.core.session import Route
from elwood.runtime import inline
from elwood.store.disk import Disk
from elwood.store.last_heard import PAUSE, LastHeard

T = TypeVar("T")


def route(chat: int) -> Route:
    return Route("telegram", chat)


async def read(path: Path) -> Route | None:
    """Read the file as the next start does."""
    heard = LastHeard(path, Disk(blocking=inline, clock=lambda: 0.0))
    await heard.load()
    return heard.route


async def test_owners_who_write_at_once_do_not_meet_at_the_file(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    inside = trio.Lock()

    async def slowly(work: Callable[[], T]) -> T:
        inside.acquire_nowait()  # raises WouldBlock if somebody else writes
        await trio.sleep(1.0)
        inside.release()
        return work()

    path = tmp_path / "heard.json"
    heard = LastHeard(path, Disk(blocking=slowly, clock=lambda: 0.0))
    async with trio.open_nursery() as nursery:
        for chat in range(50):
            nursery.start_soon(heard.note, route(chat))
    assert await read(path) == heard.route


async def test_the_newest_is_written_in_the_end(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "heard.json"
    heard = LastHeard(path, Disk(blocking=inline, clock=lambda: 0.0))
    await heard.load()
    assert heard.route is None
    async with trio.open_nursery() as nursery:
        for chat in range(5):
            nursery.start_soon(heard.note, route(chat))
            await trio.sleep(PAUSE / 10)
        assert heard.route == route(4)
        assert await read(path) == route(0)
    assert await read(path) == route(4)


async def test_what_a_session_that_ended_left_unwritten_the_next_one_writes(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "heard.json"
    heard = LastHeard(path, Disk(blocking=inline, clock=lambda: 0.0))
    async with trio.open_nursery() as ending:
        ending.start_soon(heard.note, route(1))
        await trio.sleep(1.0)
        await heard.note(route(2))
        ending.cancel_scope.cancel()
    assert await read(path) == route(1)
    await heard.note(route(2))
    assert await read(path) == route(2)


async def test_what_cannot_be_read_counts_for_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "heard.json"
    path.write_text("[")
    assert await read(path) is None
    assert "not known where" in caplog.text
