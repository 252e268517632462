"""The memory store: save, find, replace, forget and undo."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from elwood.features.memory.learning import digests
from elwood.features.memory.messages import Forgotten, Saved, Unsaved
from elwood.features.memory.note import Note
from elwood.features.memory.store import MAX_BATCHES, MAX_LINES, NoteStore
from elwood.foundation.storage.disk import Calls
from elwood.foundation.storage.search_index import SearchQuery
from tests.features.memory.store_alone import (
    MINE,
    catch_up,
    draft,
    find,
    holding,
    keys,
    opened,
    pending,
    save,
)


def test_a_note_is_found_unchanged(tmp_path: Path) -> None:
    now = 0.0
    with opened(tmp_path, clock=lambda: now) as memory:
        assert save(memory, "tea", "Green,\nno sugar.", "drinks", "Küche") == Saved("tea")
        now = 86_400.0
        assert save(memory, "tea", "Black tea now.", "drinks") == Saved("tea", replaced=True)
    with opened(tmp_path) as memory:
        assert find(memory, "TEA") == [
            Note(
                "tea",
                "Black tea now.",
                ("drinks",),
                "tg-1 by tg:1",
                label=MINE,
                created="1970-01-01T00:00:00+00:00",
                updated="1970-01-02T00:00:00+00:00",
            )
        ]
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["tea.md"]


class Counting(Calls):
    """Count the syncs."""

    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def test_a_save_syncs_three_times(tmp_path: Path) -> None:
    """Except the first, which creates folders, and one in fifty, which compacts the undo log."""
    calls, counts = Counting(), list[int]()
    with opened(tmp_path, calls=calls) as memory:
        save(memory, "a", "the first")
        for number in range(2 * MAX_LINES):
            before = calls.syncs
            save(memory, f"a{number % 3}", f"{number} words")
            counts.append(calls.syncs - before)
    assert sorted(counts)[:-2] == [3] * (2 * MAX_LINES - 2)
    assert sorted(counts)[-2:] <= [4, 4]


@pytest.fixture
def garden(tmp_path: Path) -> Iterator[NoteStore]:
    with opened(tmp_path) as memory:
        for key, text, tags in (
            ("one", "the garden and the gate", ("x",)),
            ("two", "nothing", ("garden",)),
            ("garden", "nothing else", ()),
            ("kueche", "Die Küche wird gestrichen", ()),
            ("none", "something", ()),
        ):
            save(memory, key, text, *tags)
        memory.save([draft("maybe", "a garden, perhaps", status="pending")])
        save(memory, "strange", "the garden of others", untrusted=True)
        [answer] = memory.save([replace(draft("soon", "garden party"), ttl="1h")])
        assert answer == Saved("soon")
        yield memory


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (SearchQuery(query="garden", now=1.0), {"one", "two", "garden", "strange", "soon"}),
        (SearchQuery(query="garden", now=7200.0), {"one", "two", "garden", "strange"}),
        (SearchQuery(query="garden", now=7200.0, untrusted=False), {"one", "two", "garden"}),
        (SearchQuery(query="GARDEN gate", now=0.0), {"one"}),
        (SearchQuery(query="gard", now=7200.0), {"one", "two", "garden", "strange"}),
        (SearchQuery(query="gate absent", now=0.0), {"one"}),
        (SearchQuery(query="gate party", now=0.0, any=True), {"one", "soon"}),
        (SearchQuery(query="KUCHE", now=0.0), {"kueche"}),
        (SearchQuery(query="absent", now=0.0), set()),
        (SearchQuery(query="?!", now=0.0), set()),
    ],
)
def test_the_index_finds_by_words(
    garden: NoteStore, asked: SearchQuery, expected: set[str]
) -> None:
    assert {hit.key for hit in garden.indexed.index.search(asked)} == expected


def test_better_matches_come_first(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "one", "the garden and the gate", "x")
        save(memory, "two", "nothing", "garden")
        save(memory, "garden", "nothing else")
        assert keys(memory, "garden") == ["garden", "two", "one"]
        assert keys(memory, "garden", limit=2) == ["garden", "two"]


def test_the_label_is_stored_and_never_lowered_silently(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "a", "word one", untrusted=True)
        save(memory, "b", "word two")
        assert {n.key: n.untrusted for n in find(memory, "word")} == {"a": True, "b": False}
        refused = save(memory, "b", "forget that", untrusted=True)
        assert isinstance(refused, Unsaved)
        assert "choose another key" in refused.why
        save(memory, "a", "the owner's word")  # replaced completely
        assert {n.key: n.untrusted for n in find(memory, "word")} == {"a": False, "b": False}
        assert find(memory, "two")[0].text == "word two"


def test_a_pending_note_is_not_found_and_replaces_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        [saved] = memory.save([draft("cat", "Has a cat", status="pending")], learned=True)
        assert saved == Saved("cat")
        assert keys(memory, "cat") == []
        assert [note.key for note in pending(memory)] == ["cat"]
        memory.save([draft("cat", "Has a cat")])  # promoted
        assert keys(memory, "cat") == ["cat"]
        [refused] = memory.save([draft("cat", "Has two cats", status="pending")], learned=True)
        assert isinstance(refused, Unsaved)
        assert keys(memory, "cat") == ["cat"]


def test_omitted_fields_keep_their_values(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        first = replace(draft("a", "one", "x"), ttl="30d")
        memory.save([first])
        path = tmp_path / "memory" / "a.md"
        path.write_text(path.read_text().replace("---\n", "---\nalias: me\n", 1))
        memory.save([replace(first, text="two", tags=None, ttl=None)])
        [note] = memory.read(["a"])
        assert (note.text, note.tags, note.ttl) == ("two", ("x",), "30d")
        assert note.more == ("alias: me",)


def test_a_full_memory_refuses_new_keys(tmp_path: Path) -> None:
    with opened(tmp_path, max_notes=2) as memory:
        save(memory, "a", "one")
        save(memory, "b", "two")
        refused = save(memory, "c", "three")
        assert isinstance(refused, Unsaved)
        assert "2 notes already" in refused.why
        assert save(memory, "a", "four") == Saved("a", replaced=True)


def test_other_files_are_skipped(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "a", "word")
        folder, secret = tmp_path / "memory", tmp_path / "secret"
        secret.write_text("word")
        (folder / "link.md").symlink_to(secret)
        (folder / "folder.md").mkdir()
        (folder / "Not A Key.md").write_text("word")
        (folder / "notes.txt").write_text("word")
        catch_up(memory)
        assert keys(memory, "word") == ["a"]
        assert memory.files.list_ignored() == ["Not A Key.md"]
        refused = save(memory, "link", "x y")
        assert isinstance(refused, Unsaved)
        assert secret.read_text() == "word"


# --- forgetting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 300])
def test_forgetting_leaves_no_byte(tmp_path: Path, others: int) -> None:
    """Neither in the state folder nor in the index and its log, after any history."""
    with opened(tmp_path) as memory:
        memory.save([draft(f"n{n}", f"Something else, number {n}, at home") for n in range(others)])
        save(memory, "secret-plan", "Zanzibar is where the xylophone hides", "quokka")
        save(memory, "secret-plan", "Zanzibar is where the xylophone hid, umbrella too", "quokka")
        save(memory, "copy", "The umbrella stands in Zanzibar")
        path = tmp_path / "memory" / "secret-plan.md"
        for left in (".secret-plan.md.tmp", "secret-plan.md~", ".secret-plan.md.swp"):
            (path.parent / left).write_bytes(path.read_bytes())
        (path.parent / "top-secret-plan.md").write_text("stays")
        assert keys(memory, "xylophone") == ["secret-plan"]
        before = holding(tmp_path, "xylophone", "quokka")
        assert any("memory.db" in name for name in before)
        assert memory.forget(["secret-plan", "copy", "ghost"]) == Forgotten(
            ("secret-plan", "copy"), ("ghost",)
        )
        wanted = ("xylophone", "zanzibar", "quokka", "umbrella", "hid")
        assert holding(tmp_path, *wanted) == []
        assert keys(memory, "xylophone zanzibar") == []
        assert (path.parent / "top-secret-plan.md").exists()
        assert len(keys(memory, "something", 400)) == min(others, 200)
    assert holding(tmp_path, *wanted, "secret-plan.md") == []


def test_deleting_a_file_manually_leaves_no_byte(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "a", "Zanzibar")
        save(memory, "b", "stays")
        (tmp_path / "memory" / "a.md").unlink()
        catch_up(memory)
        assert holding(tmp_path, "zanzibar") == []


@pytest.mark.parametrize("at", [0, -2])
def test_a_damaged_byte_among_the_tombstones_does_not_grow(tmp_path: Path, at: int) -> None:
    """Neither in a tombstone nor in the salt that later tombstones use."""
    names = [f"n{number}" for number in range(20)]
    with opened(tmp_path) as memory:
        save(memory, "first", "text first")
        memory.forget(["first"])
        path = tmp_path / "memory.forgotten"
        data = bytearray(path.read_bytes())
        data[at] = 0xFF
        path.write_bytes(data)
        for name in names:
            save(memory, name, f"text {name}")
            memory.forget([name])
        assert path.stat().st_size < (2 * len(names) + 3) * 33
        hashes = [hash_ for name in names for hash_ in digests(name, f"text {name}")]
        assert memory._tombstones.find(hashes) == set(hashes)


def test_a_tombstone_reveals_nothing(tmp_path: Path) -> None:
    """Two installations make different tombstones of one note: plain hashes could be guessed."""
    marks = []
    for name in ("one", "two"):
        with opened(tmp_path / name) as memory:
            save(memory, "pin", "4711")
            memory.forget(["pin"])
        marks.append((tmp_path / name / "memory.forgotten").read_text().split())
    assert all(len(mark) == 32 for mark in marks[0])
    assert not set(marks[0]) & set(marks[1])


# --- undo -----------------------------------------------------------------------------------------

NOTHING = "There is nothing to undo."


def test_the_last_batch_is_undone(tmp_path: Path) -> None:
    with opened(tmp_path, clock=lambda: 5.0) as memory:
        assert memory.undo() == NOTHING
        save(memory, "tea", "Green")
        memory.save([draft("tea", "Black"), draft("cat", "Tom")], batch="b", learned=True)
        memory.save([draft("dog", "Rex"), draft("tea", "White")], batch="b", learned=True)
        (tmp_path / "memory" / "cat.md").write_text("Tom, the third")
        catch_up(memory)
        assert (
            memory.undo() == "Removed: dog. Restored: tea. Kept, because they changed later: cat."
        )
        assert find(memory, "tea")[0].text == "Green"
        assert find(memory, "third")[0].text == "Tom, the third"
        assert keys(memory, "Rex") == []
        [again] = memory.save([draft("dog", "Rex")], learned=True)
        assert isinstance(again, Unsaved)
        assert memory.undo() == "Removed: tea."
        assert memory.undo() == NOTHING


def test_the_undo_log_survives_a_torn_line_and_its_compaction(tmp_path: Path) -> None:
    path = tmp_path / "memory.undo"
    with opened(tmp_path) as memory:
        for number in range(MAX_LINES - 1):
            save(memory, "a", f"{number}")
        with path.open("ab") as file:
            file.write(b'\n[{"id":"torn","at":0.0,"lear')
    with opened(tmp_path) as memory:
        for number in range(MAX_LINES - 1, MAX_LINES + 2):
            save(memory, "a", f"{number}")
        assert len(path.read_bytes().split(b"\n")) < MAX_BATCHES
        for number in range(MAX_LINES, MAX_LINES - MAX_BATCHES + 1, -1):
            assert memory.undo() == "Restored: a."
            assert memory.read(["a"])[0].text == f"{number}"


def test_forgetting_empties_the_undo_log(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "secret-plan", "Zanzibar")
        save(memory, "secret-plan", "Something else")
        save(memory, "tea", "Green")
        assert "memory.undo" in holding(tmp_path, "secret-plan")
        memory.forget(["secret-plan"])
        assert memory.undo() == NOTHING
        assert keys(memory, "green") == ["tea"]
    assert holding(tmp_path, "secret-plan") == []


def test_an_expired_note_is_listed_nowhere_and_removed(tmp_path: Path) -> None:
    now = 0.0
    with opened(tmp_path, clock=lambda: now) as memory:
        save(memory, "tea", "Green.")
        memory.save([replace(draft("soon", "garden party"), ttl="1h")])
        assert memory.remove_expired() == ""
        now = 7200.0
        assert [note.key for note in memory.newest(9)] == ["tea"]
        assert [note.key for note in memory.overview().newest] == ["tea"]
        assert memory.remove_expired() == "Removed: soon."
        assert [path.name for path in memory.files.folder.glob("*.md")] == ["tea.md"]
        assert memory.indexed.index.expired(now) == []
