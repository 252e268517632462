"""Notes and their index after manual edits, damage, full disks and crashes."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from elwood.features.memory.messages import Forgotten, Saved, Unsaved
from elwood.features.memory.note import MAX_FILE
from elwood.features.memory.store import NoteStore
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.search_index import DatabaseUnusable, SearchQuery
from tests.features.memory.store_alone import catch_up, find, holding, keys, opened, save


class Kill(BaseException):
    """The process has been killed."""


class Failing(Calls):
    """Kill the process, or report a full disk, at step *at*; count the steps."""

    def __init__(self, at: int = 0, error: type[BaseException] = Kill) -> None:
        self.at = at
        self.error = error
        self.steps = 0

    def _step(self) -> None:
        self.steps += 1
        if self.steps >= self.at > 0:
            if self.error is OSError:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise self.error

    def write(self, fd: int, data: bytes) -> int:
        self._step()
        written = super().write(fd, data)
        if self.error is Kill:
            self._step()
        return written

    def sync(self, fd: int) -> None:
        if self.error is Kill:
            self._step()
        super().sync(fd)

    def rename(self, old: Path, new: Path) -> None:
        if self.error is Kill:
            self._step()
        super().rename(old, new)
        if self.error is Kill:
            self._step()

    def unlink(self, path: Path) -> None:
        if self.error is Kill:
            self._step()
        super().unlink(path)


# --- manual changes -------------------------------------------------------------------------------


def test_manual_changes_are_detected(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with opened(tmp_path) as memory:
        for key in ("edited", "deleted", "renamed", "broken"):
            save(memory, key, f"it was {key} once")
        (folder / "edited.md").write_text("---\nlabel: trusted\n---\nby hand")
        (folder / "deleted.md").unlink()
        (folder / "renamed.md").rename(folder / "moved.md")
        (folder / "broken.md").write_text("---\nlabel: trusted\nonce without an end")
        (folder / "new.md").write_text("word from an editor")
        assert catch_up(memory) == 4
        assert catch_up(memory) == 0
        assert keys(memory, "hand") == ["edited"]
        assert keys(memory, "it was deleted") == ["moved"]
        assert keys(memory, "editor") == ["new"]
        [broken] = find(memory, "without")
        assert broken.untrusted
        assert broken.text == "---\nlabel: trusted\nonce without an end"
        assert (folder / "broken.md").read_text() == broken.text  # it was only read
    with opened(tmp_path) as memory:
        (folder / "edited.md").write_text("---\nlabel: trusted\n---\nby foot")
        assert find(memory, "edited")[0].text == "by foot"  # even before the change is detected


def test_a_partly_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    """A file that could not be read completely is never rewritten from the readable part."""
    data = b"---\nlabel: trusted\n---\nthe bank is clos\xffed"
    with opened(tmp_path) as memory:
        (tmp_path / "memory").mkdir()
        (tmp_path / "memory" / "bank.md").write_bytes(data)
        catch_up(memory)
        # If it is replaced, the original can be restored byte for byte.
        save(memory, "bank", "it is open")
        memory.undo()
        assert (tmp_path / "memory" / "bank.md").read_bytes() == data


def test_a_partly_readable_file_is_neither_replaced_nor_fatal(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "tea", "Green")
        long = tmp_path / "memory" / "diary.md"
        long.write_text("a line\n" * MAX_FILE)
        refused = save(memory, "diary", "a word")
        assert isinstance(refused, Unsaved)
        assert "longer than a note may be" in refused.why
        assert long.read_text() == "a line\n" * MAX_FILE
        (tmp_path / "memory" / "folder.md").mkdir()
        assert memory.forget(["folder", "tea"]) == Forgotten(("tea",), ("folder",))
        assert (tmp_path / "memory" / "folder.md").is_dir()


# --- the index ------------------------------------------------------------------------------------

DAMAGES = [
    *("missing", "no database", "empty", "cut", "scribbled"),
    "PRAGMA user_version = 999",
    "DROP TABLE vectors; DROP TABLE notes",
    # As after a crash in the middle of a rebuild.
    "DELETE FROM words; DELETE FROM notes; PRAGMA application_id = 0",
]


def _spoil(path: Path, damage: str) -> None:
    match damage:
        case "missing":
            path.unlink()
        case "no database":
            path.write_bytes(b"no database at all" * 1000)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            os.truncate(path, 8192)
        case "scribbled":
            path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))
        case _:
            db = sqlite3.connect(path)
            db.executescript(damage)
            db.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path) as memory:
        for number in range(20):
            save(memory, f"n{number}", f"number {number} of the notes")
    _spoil(tmp_path / "memory.db", damage)
    memory = NoteStore(tmp_path, Disk(blocking=inline, clock=lambda: 0.0), max_notes=1000)
    assert keys(memory, "number 7") == ["n7"]  # it is repaired before
    catch_up(memory)
    assert keys(memory, "number 7") == ["n7"]
    assert memory.indexed.is_ready
    assert save(memory, "new", "a new one") == Saved("new")
    assert keys(memory, "new") == ["new"]
    memory.indexed.close()


@pytest.mark.parametrize("damage", ["missing", "no database", "scribbled", "cut"])
def test_an_index_damaged_in_use_loses_nothing(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path) as memory:
        for number in range(20):
            save(memory, f"n{number}", f"number {number}")
        memory.indexed.index.close()
        memory.indexed.index.open()
        _spoil(tmp_path / "memory.db", damage)
        assert save(memory, "new", "a new one") == Saved("new")
        assert "new" in keys(memory, "new")
        assert keys(memory, "number 7") == ["n7"]
        assert "new" in keys(memory, "new")


def test_a_locked_index_is_not_waited_for(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "a", "word one")
        catch_up(memory)
        other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert save(memory, "b", "word two") == Saved("b")
        assert (tmp_path / "memory" / "b.md").exists()
        with pytest.raises(DatabaseUnusable):
            keys(memory, "word")
        other.execute("ROLLBACK")
        other.close()
        assert catch_up(memory) == 1
        assert memory.indexed.index.search(SearchQuery(query="two", now=0.0))
        assert sorted(keys(memory, "word")) == ["a", "b"]


def test_forgetting_works_with_a_locked_index(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "a", "Zanzibar")
        save(memory, "b", "stays")
        other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        memory.forget(["a"])
        assert holding(tmp_path, "zanzibar") == []
        other.close()
        assert keys(memory, "stays") == ["b"]
        catch_up(memory)
        assert keys(memory, "stays") == ["b"]
        assert holding(tmp_path, "zanzibar") == []


# --- full disks and crashes -----------------------------------------------------------------------


def _story(memory: NoteStore) -> None:
    save(memory, "tea", "Black tea")
    save(memory, "car", "A red car")
    memory.undo()
    memory.forget(["cat"])


def _prepared(state: Path) -> None:
    with opened(state) as memory:
        save(memory, "tea", "Green tea")
        save(memory, "cat", "A zanzibar cat")
        save(memory, "dog", "A dog")


def _lived(state: Path, step: int) -> None:
    with opened(state) as memory:
        memory._disk._calls = Failing(step)
        _story(memory)


def _count(tmp_path: Path, error: type[BaseException]) -> int:
    calls = Failing(error=error)
    _prepared(tmp_path / "count")
    with opened(tmp_path / "count", calls=calls) as memory:
        calls.steps = 0
        _story(memory)
    return calls.steps


def _texts(memory: NoteStore) -> dict[str, str]:
    files = memory.files
    return {key: filed.note.text for key, _ in files.stamps() if (filed := files.read(key))}


def test_a_crash_at_any_step_loses_nothing(tmp_path: Path) -> None:
    """Each note is the old or the new one, the index matches, and nothing forgotten returns."""
    steps = _count(tmp_path, Kill)
    assert steps > 30
    for step in range(1, steps + 1):
        state = tmp_path / f"at-{step}"
        _prepared(state)
        with pytest.raises(Kill):
            _lived(state, step)
        with opened(state) as memory:
            texts = _texts(memory)
            assert texts["tea"] in ("Green tea", "Black tea")
            assert texts["dog"] == "A dog"
            assert texts.get("car") in (None, "A red car")
            for key, text in texts.items():
                assert key in keys(memory, text), (step, key)
            if "cat" not in texts:
                assert holding(state, "zanzibar") == [], step
            assert sorted(keys(memory, "tea car dog cat", 9)) == sorted(texts)
            # The memory keeps working.
            assert save(memory, "new", "A new note") == Saved("new")
            memory.forget(["cat", "tea"])
            assert holding(state, "zanzibar", "green", "black") == [], step


def test_a_full_disk_at_any_step_loses_nothing(tmp_path: Path) -> None:
    steps = _count(tmp_path, OSError)
    for step in range(1, steps + 1):
        state = tmp_path / f"at-{step}"
        _prepared(state)
        with opened(state) as memory:
            memory._disk._calls = Failing(step, OSError)
            answers = [save(memory, "tea", "Black tea"), save(memory, "car", "A red car")]
            told = {answer.key for answer in answers if isinstance(answer, Saved)}
            for answer in answers:
                assert isinstance(answer, Saved) or "no space" in answer.why
            memory._disk._calls = Calls()
            texts = _texts(memory)
            assert texts["tea"] == ("Black tea" if "tea" in told else "Green tea")
            assert ("car" in texts) == ("car" in told)
            assert sorted(keys(memory, "tea car dog cat", 9)) == sorted(texts)
            assert not list(state.rglob("*.tmp"))


def test_a_full_disk_under_the_index_loses_nothing(tmp_path: Path) -> None:
    """The note is in its file, and is indexed when there is room."""
    with opened(tmp_path) as memory:
        save(memory, "a", "word one")
        db = memory.indexed.index.writer()
        [(pages,)] = db.execute("PRAGMA page_count").fetchall()
        db.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(40):
            assert isinstance(save(memory, f"n{number}", f"word {number} " + "x" * 5000), Saved)
        assert len(_texts(memory)) == 41
        db.execute("PRAGMA max_page_count = 100000")
        assert catch_up(memory) > 0
        assert len(keys(memory, "word", 99)) == 41
