"""The files of the daily notes."""

import os
import re
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.labels import Label
from elwood.agent.parts import Report
from elwood.agent.session.log.turns import FinishedTurn
from elwood.features.daily_notes.notes import MAX_DAILY
from elwood.features.daily_notes.parts import reflect
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.runtime import inline
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import Root

DAY = 86_400.0


def turn(n: int, at: float = 0.0) -> FinishedTurn:
    return FinishedTurn(f"t{n}", at, (f"question {n}",), label=Label())


async def no_records() -> str:
    return ""


@pytest.fixture
def threads(tmp_path: Path) -> DailyNotes:
    return DailyNotes(Root(tmp_path), UTC, inline, str, no_records)


async def add(threads: DailyNotes, session: str, ended: FinishedTurn) -> None:
    threads.gather(session, ended)
    await threads.write_turns(session)


def note(folder: Path, day: str = "1970-01-01") -> Path:
    return folder / "threads" / "daily" / f"{day}.md"


async def test_turns_are_added_and_read_back(threads: DailyNotes, tmp_path: Path) -> None:
    for n in (1, 2, 2, 1):
        await add(threads, "s", turn(n))

    assert note(tmp_path).read_text().count("\n- ") == 2
    assert (await threads.recall(DAY)).count("\n- ") == 2
    assert await threads.recall(3 * DAY) == ""


async def test_recent_notes_are_cached_for_a_second_or_until_a_write(
    threads: DailyNotes, tmp_path: Path
) -> None:
    await add(threads, "s", turn(1))
    shown = await threads.recall(DAY)
    by_hand = note(tmp_path).read_text().replace("question 1", "question of mine")
    note(tmp_path).write_text(by_hand)
    assert await threads.recall(DAY + 0.9) == shown
    assert "question of mine" in await threads.recall(DAY + 1.0)
    await add(threads, "s", turn(2))
    assert "question 2" in await threads.recall(DAY + 1.0)
    await threads.leave_out("s", {"t2": turn(2).at})
    assert "question 2" not in await threads.recall(DAY + 1.0)


async def test_simultaneous_turns_are_all_stored(threads: DailyNotes, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(add, threads, f"s{n}", turn(n))

    assert note(tmp_path).read_text().count("\n- ") == 20


async def test_the_next_turn_writes_the_collected_ones(threads: DailyNotes, tmp_path: Path) -> None:
    for n in range(3):
        threads.gather(f"s{n}", turn(n, n * DAY / 2))
    await add(threads, "s2", turn(2, DAY))
    assert not note(tmp_path).exists()  # it belongs to another day
    await add(threads, "s3", turn(3))

    assert re.findall(r"s\d/t\d", note(tmp_path).read_text()) == ["s0/t0", "s1/t1", "s3/t3"]


async def test_manual_text_is_preserved(threads: DailyNotes, tmp_path: Path) -> None:
    note(tmp_path).parent.mkdir(parents=True)
    note(tmp_path).write_bytes(b"mine: \xff\r\n- 00:00 s/t1: by hand\nno end of line")
    await add(threads, "s", turn(1))
    await add(threads, "s", turn(2))

    assert note(tmp_path).read_bytes() == (
        b"mine: \xff\r\n- 00:00 s/t1: by hand\nno end of line\n- 00:00 s/t2: `question 2`\n"
    )


async def test_a_too_long_note_is_not_changed(threads: DailyNotes, tmp_path: Path) -> None:
    note(tmp_path).parent.mkdir(parents=True)
    for size in (MAX_DAILY, 5 * MAX_DAILY):
        note(tmp_path).write_bytes(b"x" * size)
        await add(threads, "s", turn(1))
        assert note(tmp_path).read_bytes()[:size] == b"x" * size
        assert b"question" not in note(tmp_path).read_bytes()


async def test_an_untrusted_note_is_not_read_back(threads: DailyNotes, tmp_path: Path) -> None:
    """Additions do not remove its mark."""
    root = Root(tmp_path)
    root.write("threads/daily/1970-01-01.md", b"- 00:00 s/t0: `obey`\n", untrusted=True)
    root.write("threads/weekly/1970-W01.md", b"obey", untrusted=True)
    await add(threads, "s", turn(1))
    await add(threads, "s", turn(2, DAY))

    shown = await threads.recall(DAY)
    assert "question 2" in shown
    assert "obey" not in shown
    assert "question 1" not in shown


async def test_the_latest_reflection_is_read_back(threads: DailyNotes, tmp_path: Path) -> None:
    weekly = tmp_path / "threads" / "weekly"
    weekly.mkdir(parents=True)
    (weekly / "1970-W01.md").write_text("We began.")

    assert "We began." in await threads.recall(DAY)
    assert "We began." in await threads.recall(10 * DAY)
    assert await threads.recall(20 * DAY) == ""
    (weekly / "1970-W02.md").write_text("We went on.")
    assert "We began." not in await threads.recall(10 * DAY)


async def test_an_unwritable_note_is_reported(threads: DailyNotes, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "threads").mkdir()
    (tmp_path / "threads" / "daily").symlink_to(outside)

    with pytest.raises(PathRefused):
        await add(threads, "s", turn(1))
    assert os.listdir(outside) == []
    assert await threads.recall(0.0) == ""


async def test_a_week_has_one_reflection(threads: DailyNotes, tmp_path: Path) -> None:
    now = 1_795_435_200.0  # Monday 2026-11-23, noon
    chore = partial(reflect, threads, lambda: now)
    assert await chore(0.0) == Report("no reflection is due")
    for part, name in (("daily", "2026-11-18"), ("weekly", "2026-W47")):
        (tmp_path / "threads" / part).mkdir(parents=True)
        asked = (await chore(0.0)).prompt
        assert bool(asked) is (part == "weekly")
        (tmp_path / "threads" / part / f"{name}.md").write_text("# Day\n")
    assert "threads/daily/2026-11-18.md" in asked
    assert "threads/weekly/2026-W47.md" in asked
    assert await chore(0.0) == Report("no reflection is due")
