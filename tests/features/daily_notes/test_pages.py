"""Search finds daily notes and reflections with their present content."""

import os
from datetime import UTC
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.labels import PRIVATE, Label
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.log.turns import FinishedTurn
from elwood.agent.tools.tool import ForgettingFailed, SearchResult
from elwood.features.daily_notes.notes import MAX_DAILY, MAX_EXCERPT
from elwood.features.daily_notes.store import MAX_READ, DailyNotes, DailyNoteSearch
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.indexed_files import LOOK_EVERY
from tests.features.memory.store_alone import holding

pytestmark = pytest.mark.usefixtures("virtual_time")
MARCH = "threads/daily/2026-03-14.md"
APRIL = "threads/daily/2026-04-02.md"
WEEK = "threads/weekly/2026-W11.md"


class Diary:
    """A workspace, and the search in it."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.state = folder / "state"
        self.state.mkdir()
        self.workspace.mkdir()
        self.notes = DailyNoteSearch(self.state, self.workspace, inline)

    def put(self, path: str, *lines: str, marked: bool = False) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["# A day", "", *lines, ""]))
        if marked:
            os.setxattr(file, "user.elwood.untrusted", b"1")
        return file

    def text(self, path: str) -> str:
        return (self.workspace / path).read_text()

    async def search(self, query: str, limit: int = 10) -> list[SearchResult]:
        return await self.notes.search(query, limit)

    async def paths(self, query: str) -> list[str]:
        await trio.sleep(LOOK_EVERY)
        return [one.origin for one in await self.search(query)]


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    made = Diary(tmp_path)
    made.put(MARCH, "- 08:00 s/t1: `drain the boiler`", "- 09:00 s/t2: `buy tea`", "Some words.")
    made.put(APRIL, "- 08:00 s/t3: `the boiler again`")
    made.put(WEEK, "The boiler was drained.")
    return made


async def test_a_search_returns_the_day_and_the_line(diary: Diary) -> None:
    found = await diary.search("what did we do about the boiler in March?")
    day = SearchResult(
        text="- 08:00 s/t1: `drain the boiler`",
        origin=MARCH,
        label=PRIVATE,
        updated="2026-03-14",
        words=2,
    )
    assert day in found
    assert set(await diary.paths("the boiler in March")) == {MARCH, WEEK}
    assert await diary.paths("boiler") == [APRIL, WEEK, MARCH]
    assert await diary.paths("Samstag im März") == [MARCH]
    assert await diary.paths("tea in April") == [MARCH]
    assert await diary.paths("nothing of this") == []


async def test_manual_changes_are_detected(diary: Diary) -> None:
    assert APRIL in await diary.paths("boiler")
    diary.put(APRIL, "- 08:00 s/t3: `the bicycle`")
    (diary.workspace / MARCH).unlink()
    assert [one.origin for one in await diary.search("boiler")] == [WEEK]  # immediately
    assert await diary.paths("bicycle") == [APRIL]
    held = b"".join(path.read_bytes() for path in diary.state.iterdir())
    assert b"drain" in held
    assert b"tea" not in held


async def test_the_label_covers_only_the_results(diary: Diary) -> None:
    marked = "- 10:00 s/t9 [untrusted] [private]: `a lamp`"
    diary.put(MARCH, "- 08:00 s/t1: `a chair`", marked, "  - ✓ a tool #call")
    diary.put(APRIL, "a table", marked=True)
    queries = ["chair", "lamp", "a tool", "table"]
    [chair], [lamp], [tool], [table] = [await diary.search(query) for query in queries]
    assert [one.label.untrusted for one in (chair, lamp, tool, table)] == [False, True, True, True]
    assert lamp.text == tool.text == f"{marked}\n  - ✓ a tool #call"
    assert all(one.label.private for one in (chair, lamp, tool, table))
    os.removexattr(diary.workspace / APRIL, "user.elwood.untrusted")
    [table] = await diary.search("table")
    assert table.label == Label(private=True)


async def test_files_outside_the_workspace_are_not_found(diary: Diary, tmp_path: Path) -> None:
    (tmp_path / "2026-05-01.md").write_text("outside words")
    (diary.workspace / "threads" / "monthly").symlink_to(tmp_path)
    (diary.workspace / "threads/daily/2026-05-02.md").symlink_to(tmp_path / "2026-05-01.md")
    diary.put("threads/daily/2026-02-31.md", "outside words")
    diary.put("threads/daily/plans.md", "outside words")
    assert await diary.paths("outside") == []


async def test_results_are_bounded(diary: Diary) -> None:
    diary.put(APRIL, "boiler " * MAX_DAILY, *["boiler"] * 100)
    for day in range(1, 29):
        diary.put(f"threads/daily/2026-06-{day:02}.md", "boiler")
    assert len(await diary.search("boiler", 30)) == MAX_READ
    assert max(len(one.text) for one in await diary.search("boiler in april")) == MAX_EXCERPT


async def test_a_broken_index_is_rebuilt(diary: Diary) -> None:
    assert await diary.search("boiler")
    (diary.state / "threads.db").write_bytes(b"no database" * 1000)
    again = DailyNoteSearch(diary.state, diary.workspace, inline)
    assert len(await again.search("boiler", 9)) == 3


async def test_forgetting_works_without_a_usable_index(diary: Diary) -> None:
    diary.put(MARCH, "- 08:00 s/t1: `drain the big boiler`")
    (diary.state / "threads.db").mkdir()
    assert await diary.search("boiler") == []
    with pytest.raises(ForgettingFailed):
        await diary.notes.forget("boiler", "Drain the big boiler.", "save_memory")
    assert "drain" not in diary.text(MARCH)
    (diary.state / "threads.db").rmdir()
    assert len(await diary.search("boiler")) == 2


@pytest.mark.parametrize("has_index", [True, False])
async def test_forgetting_edits_entries_and_reports_other_places(
    diary: Diary, has_index: bool
) -> None:
    entry = "- 08:00 s/t3: `remember: my sister's birthday is 4 May`"
    diary.put(APRIL, entry, "  - ✓ save_memory `birthday` #c", "a sister in May")
    diary.put(MARCH, "- 08:00 s/t1 [private]: `green`", "  - ✓ save_memory `tea` #c", "birthday")
    diary.put(WEEK, "A sister.", "In May.", "Her birthday: 4 May, my sister says.")
    gone = diary.put("threads/daily/2026-01-01.md", entry)
    refused = diary.put("threads/daily/2026-01-02.md", entry.replace("remember: ", ""))
    if has_index:
        assert await diary.search("sister")
    gone.unlink()
    os.link(refused, diary.workspace / "second name")  # such a file is not written
    left = await diary.notes.forget("birthday", "My sister's birthday is 4 May.", "save_memory")
    assert left == ["threads/daily/2026-01-02.md", WEEK]
    assert (
        await diary.notes.forget("tea", "Green tea.", "save_memory") == left[:1]
    )  # its content is unknown
    assert diary.text(APRIL).endswith("- 08:00 s/t3: (forgotten)\na sister in May\n")
    assert diary.text(MARCH).endswith("- 08:00 s/t1 [private]: (forgotten)\nbirthday\n")
    assert holding(diary.state, "remember") == []
    assert set(await diary.paths("sister")) == {APRIL, WEEK}


async def test_forgetting_covers_pending_turns(diary: Diary) -> None:
    """Turns are collected for a moment, and forgetting covers those too."""

    async def no_records() -> str:
        return ""

    daily = DailyNotes(Root(diary.workspace), UTC, inline, str, no_records)
    search = DailyNoteSearch(diary.state, diary.workspace, inline, daily.write_all_turns)
    saved = CallEnded("t9", "c", "save_memory", "ok", "saved", "birthday")
    asked, other = ("my sister's birthday is 4 May",), ("tell my sister that May is near",)
    daily.gather("s", FinishedTurn("t9", 0.0, asked, calls=(saved,), label=Label()))
    daily.gather("u", FinishedTurn("t1", 86_400.0, other, label=Label()))

    await search.forget("birthday", "My sister's birthday is 4 May.", "save_memory")
    await daily.write_turns("s")
    assert "sister" not in diary.text("threads/daily/1970-01-01.md")
    assert "s/t9: (forgotten)" in diary.text("threads/daily/1970-01-01.md")
    assert "May is near" in diary.text("threads/daily/1970-01-02.md")
