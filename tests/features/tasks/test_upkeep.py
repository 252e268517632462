"""The chores of Elwood."""

import os
from datetime import UTC
from functools import partial
from pathlib import Path

import trio

from elwood.agent.approvals.messages import CommandResult, Decided
from elwood.agent.feature import Report
from elwood.agent.session.actor import quiet, sweep
from elwood.agent.session.messages import SessionsMail
from elwood.features.daily_notes.feature import reflect
from elwood.features.daily_notes.store import DailyNotes
from elwood.features.memory.feature import tidy
from elwood.features.memory.messages import MemoryMail, Tidy
from elwood.foundation.runtime import Mailbox, inline
from elwood.foundation.storage.files import Root

DAY = 86_400.0


def logged(folder: Path, name: str, at: float) -> None:
    """Make a log that was written last at *at*."""
    (folder / f"{name}.jsonl").touch()
    os.utime(folder / f"{name}.jsonl", (at, at))


def test_quiet_conversations_are_found_by_their_logs(tmp_path: Path) -> None:
    for name, at in (("tg-1", 100.0), ("tg-2", 200.0), ("tg-3", 300.0), ("task-x", 150.0)):
        logged(tmp_path, name, at)
    (tmp_path / "tg-9.snapshot").touch()
    assert quiet(tmp_path, 100.0, 200.0) == ["task-x", "tg-2"]
    assert quiet(tmp_path / "none", 0.0, 1e12) == []


async def test_each_conversation_is_opened_once_when_its_time_is_up(tmp_path: Path) -> None:
    sessions = Mailbox[SessionsMail]("sessions", 16)
    now = 10 * DAY
    logged(tmp_path, "tg-1", now - DAY - 600)
    logged(tmp_path, "tg-2", now - 60)
    opened: list[SessionsMail] = []
    for _ in range(3):
        await sweep(tmp_path, sessions.address, DAY, now, now - 3600, inline)
        now += 3600
        while sessions.depth:
            opened.append(await sessions.receive())
    assert opened == [Decided("tg-1")]
    now = 20 * DAY
    await sweep(tmp_path, sessions.address, DAY, now, 10 * DAY, inline)
    assert await sessions.receive() == Decided("tg-2"), "also after a long time off"


async def test_the_memory_is_asked_to_tidy_up(tmp_path: Path) -> None:
    memory = Mailbox[MemoryMail]("memory", 1)
    reports: list[Report] = []

    async def ask() -> None:
        reports.append(await tidy(memory.address, 0.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        asked = await memory.receive()
        assert isinstance(asked, Tidy)
        asked.reply.set(CommandResult("the disk is full", ok=False))
    assert reports == [Report("the disk is full", failed=True)]


async def test_a_week_that_is_over_is_reflected_on_once(tmp_path: Path) -> None:
    now = 1_795_435_200.0  # Monday 2026-11-23, noon
    chore = partial(reflect, DailyNotes(Root(tmp_path), UTC, inline, str), lambda: now)
    assert await chore(0.0) == Report("nothing to reflect on")

    daily, weekly = tmp_path / "threads" / "daily", tmp_path / "threads" / "weekly"
    daily.mkdir(parents=True)
    (daily / "2026-11-18.md").write_text("# Wednesday\n")
    asked = (await chore(0.0)).prompt
    assert "threads/daily/2026-11-18.md" in asked
    assert "threads/weekly/2026-W47.md" in asked

    weekly.mkdir()
    (weekly / "2026-W47.md").write_text("# Week\n")
    assert await chore(0.0) == Report("nothing to reflect on")
