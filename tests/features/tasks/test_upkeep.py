"""The chores of Elwood."""

from datetime import UTC
from functools import partial
from pathlib import Path

from elwood.agent.parts import Report
from elwood.features.daily_notes.parts import reflect
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root


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
