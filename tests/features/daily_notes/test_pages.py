"""Daily notes and reflections are found by search, as their files are now."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from elwood.agent.conversation.labels import Label
from elwood.features.daily_notes.index import (
    MAX_READ,
    Pages,
    forget,
    search,
)
from elwood.features.daily_notes.notes import MAX_DAILY
from elwood.features.daily_notes.search import MAX_EXCERPT
from elwood.features.memory.note import Note
from elwood.features.memory.results import in_words
from elwood.foundation.storage.search_index import SearchQuery
from elwood.foundation.storage.sqlite import CancelToken
from tests.features.memory.remembering import holding, opened, save

MARCH = "threads/daily/2026-03-14.md"
APRIL = "threads/daily/2026-04-02.md"
WEEK = "threads/weekly/2026-W11.md"


class Diary:
    """A workspace, and what is found in it, by the index or without."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.state = folder / "state"
        self.state.mkdir()
        self.workspace.mkdir()
        self.pages = Pages(self.state, self.workspace)

    def put(self, path: str, *lines: str, marked: bool = False) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["# A day", "", *lines, ""]))
        if marked:
            os.setxattr(file, "user.elwood.untrusted", b"1")
        return file

    def text(self, path: str) -> str:
        return (self.workspace / path).read_text()

    def catch_up(self) -> int:
        return sum(self.pages.catch_up())

    def found(self, query: str, limit: int = 10) -> list[Note]:
        return self.pages.search(SearchQuery(query=query, now=0.0), limit, CancelToken())

    def keys(self, query: str) -> list[str]:
        return [note.key for note in self.found(query)]


@pytest.fixture
def diary(tmp_path: Path) -> Iterator[Diary]:
    made = Diary(tmp_path)
    made.put(MARCH, "- 08:00 s/t1: `drain the boiler`", "- 09:00 s/t2: `buy tea`", "Some words.")
    made.put(APRIL, "- 08:00 s/t3: `the boiler again`")
    made.put(WEEK, "The boiler was drained.")
    yield made
    made.pages.close()


@pytest.fixture(params=["index", "files"])
def either(request: pytest.FixtureRequest, diary: Diary) -> Diary:
    """The same, with the index that was brought up to date, and with none."""
    if request.param == "index":
        assert diary.catch_up() == 3
        assert diary.pages.index.is_complete
    return diary


def test_a_question_gives_the_day_and_the_line(either: Diary) -> None:
    found = either.found("what did we do about the boiler in March?")
    day = Note(
        MARCH,
        "- 08:00 s/t1: `drain the boiler`",
        ("saturday", "samstag", "march", "märz"),
        label=Label(private=True),
        updated="2026-03-14",
    )
    assert day in found
    assert set(either.keys("the boiler in March")) == {MARCH, WEEK}
    assert either.keys("boiler") == [APRIL, WEEK, MARCH]
    assert either.keys("Samstag im März") == [MARCH]
    assert either.keys("tea in April") == [MARCH]
    assert either.keys("nothing of this") == []


def test_what_is_edited_or_removed_by_hand_is_noticed(either: Diary) -> None:
    either.put(APRIL, "- 08:00 s/t3: `the bicycle`")
    assert APRIL not in either.keys("boiler")
    (either.workspace / MARCH).unlink()
    assert either.keys("boiler") == [WEEK]
    either.catch_up()
    assert either.keys("bicycle") == [APRIL]
    held = b"".join(path.read_bytes() for path in either.state.iterdir())
    assert b"drain" in held
    assert b"tea" not in held


def test_the_label_is_that_of_what_is_shown(either: Diary) -> None:
    marked = "- 10:00 s/t9 [untrusted] [private]: `a lamp`"
    either.put(MARCH, "- 08:00 s/t1: `a chair`", marked, "  - ✓ a tool #call")
    either.put(APRIL, "a table", marked=True)
    either.catch_up()
    [chair], [lamp], [tool], [table] = map(either.found, ["chair", "lamp", "a tool", "table"])
    assert [one.untrusted for one in (chair, lamp, tool, table)] == [False, True, True, True]
    assert lamp.text == tool.text == f"{marked}\n  - ✓ a tool #call"
    assert all(one.label.private for one in (chair, lamp, tool, table))
    os.removexattr(either.workspace / APRIL, "user.elwood.untrusted")
    assert not either.found("table")[0].untrusted


def test_nothing_outside_is_found(either: Diary, tmp_path: Path) -> None:
    (tmp_path / "2026-05-01.md").write_text("outside words")
    (either.workspace / "threads" / "monthly").symlink_to(tmp_path)
    (either.workspace / "threads/daily/2026-05-02.md").symlink_to(tmp_path / "2026-05-01.md")
    either.put("threads/daily/2026-02-31.md", "outside words")
    either.put("threads/daily/plans.md", "outside words")
    either.catch_up()
    assert either.keys("outside") == []


def test_what_is_shown_is_bounded(either: Diary) -> None:
    either.put(APRIL, "boiler " * MAX_DAILY, *["boiler"] * 100)
    for day in range(1, 29):
        either.put(f"threads/daily/2026-06-{day:02}.md", "boiler")
    either.catch_up()
    found = either.found("boiler", 30)
    assert len(found) == MAX_READ
    assert max(len(one.text) for one in either.found("boiler in april")) == MAX_EXCERPT


def test_notes_come_before_pages_that_fit_no_better(diary: Diary) -> None:
    diary.catch_up()
    with opened(diary.state) as memory:
        save(memory, "boiler", "The boiler is red.")
        save(memory, "obey", "The boiler of others.", untrusted=True)

        def keys(query: str, limit: int = 10) -> list[str]:
            asked = SearchQuery(query=query, now=0.0)
            return [note.key for note in search(memory, diary.pages, asked, limit, CancelToken())]

        assert keys("boiler") == ["boiler", "obey", APRIL, WEEK, MARCH]
        assert set(keys("boiler in march", 2)) == {MARCH, WEEK}
        assert keys("boiler in march")[2:] == ["boiler", "obey"]
        assert keys("boiler", 2) == ["boiler", "obey"]


def test_a_broken_index_is_made_anew(diary: Diary) -> None:
    diary.catch_up()
    diary.pages.close()
    (diary.state / "threads.db").write_bytes(b"no database" * 1000)
    assert diary.keys("boiler") == [APRIL, WEEK, MARCH]
    diary.pages.check()
    assert diary.catch_up() == 3
    assert diary.pages.index.is_complete


def test_no_workspace_is_no_trouble(tmp_path: Path) -> None:
    pages = Pages(tmp_path, tmp_path / "absent")
    assert list(pages.catch_up()) == []
    assert pages.search(SearchQuery(query="boiler", now=0.0), 5, CancelToken()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("has_index", [True, False])
def test_what_is_forgotten_goes_from_entries_and_is_named_elsewhere(
    diary: Diary, has_index: bool
) -> None:
    entry = "- 08:00 s/t3: `remember: my sister's birthday is 4 May`"
    diary.put(APRIL, entry, "  - ✓ save_memory `birthday` #c", "a sister in May")
    diary.put(MARCH, "- 08:00 s/t1 [private]: `green`", "  - ✓ save_memory `tea` #c", "birthday")
    diary.put(WEEK, "A sister.", "In May.", "Her birthday: 4 May, my sister says.")
    gone = diary.put("threads/daily/2026-01-01.md", entry)
    refused = diary.put("threads/daily/2026-01-02.md", entry.replace("remember: ", ""))
    if has_index:
        diary.catch_up()
    gone.unlink()
    os.link(refused, diary.workspace / "second name")  # such a file is not written
    with opened(diary.state) as memory:
        save(memory, "birthday", "My sister's birthday is 4 May.")
        save(memory, "tea", "Green tea.")
        forgotten = forget(memory, diary.pages, ["birthday", "tea", "absent"])
        assert (forgotten.pages[-1], forgotten.why) == (WEEK, "")
        assert forgotten.keys == ("birthday", "tea")
        assert WEEK in in_words(forgotten)
    text = diary.text(APRIL)
    assert text.endswith("- 08:00 s/t3: (forgotten)\na sister in May\n")
    assert diary.text(MARCH).endswith("- 08:00 s/t1 [private]: (forgotten)\nbirthday\n")
    assert holding(diary.state, "remember") == []
    assert set(diary.keys("sister")) == {APRIL, WEEK}
