"""Notes: what is kept, found, and believed of their files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from elwood.runtime import inline
from elwood.store import notes as module
from elwood.store.disk import Disk
from elwood.store.notes import MAX_NOTE, MAX_TAGS, Note, Notes, NotSaved

T = TypeVar("T")


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return make(tmp_path)


def make(folder: Path, clock: Callable[[], float] = lambda: 0.0) -> Notes:
    return Notes(folder / "memory", Disk(blocking=inline, clock=clock))


async def save(notes: Notes, key: str, text: str, *tags: str, untrusted: bool = False) -> bool:
    return await notes.save(key, text, tags, untrusted=untrusted, source="tg-1 by tg:1")


async def keys(notes: Notes, *words: str, limit: int = 10) -> list[str]:
    return [note.key for note in await notes.find(words, limit)]


async def test_a_note_is_found_as_it_was_saved(tmp_path: Path) -> None:
    times = iter([0.0, 86_400.0])
    notes = make(tmp_path, lambda: next(times))
    assert not await save(notes, "tea", "Green,\nno sugar.", "drinks", "drinks", "Küche")
    assert await save(notes, "tea", "Black tea now.", "drinks")
    assert await make(tmp_path).find(["TEA"], 1) == [
        Note(
            "tea",
            "Black tea now.",
            ("drinks",),
            "tg-1 by tg:1",
            "1970-01-01T00:00:00+00:00",
            "1970-01-02T00:00:00+00:00",
            untrusted=False,
        )
    ]
    assert [path.name for path in (tmp_path / "memory").iterdir()] == ["tea.md"]


async def test_more_words_and_better_places_come_first(notes: Notes) -> None:
    await save(notes, "one", "the garden and the gate", "x")
    await save(notes, "two", "nothing", "garden")
    await save(notes, "garden", "nothing")
    await save(notes, "three", "garden " * 100)
    await save(notes, "none", "nothing at all")
    assert await keys(notes, "Garden") == ["garden", "three", "two", "one"]
    assert (await keys(notes, "garden", "GATE"))[0] == "one"
    assert await keys(notes, "garden", limit=2) == ["garden", "three"]
    assert await keys(notes, "absent") == []
    assert await keys(notes) == []


async def test_of_equal_ones_the_newest_comes_first(tmp_path: Path) -> None:
    times = iter([1.0, 3.0, 2.0])
    notes = make(tmp_path, lambda: next(times))
    for key in ("a", "b", "c"):
        await save(notes, key, "word")
    assert await keys(notes, "word") == ["b", "c", "a"]


async def test_the_label_is_kept_and_does_not_fall_by_itself(notes: Notes) -> None:
    await save(notes, "a", "word", untrusted=True)
    await save(notes, "b", "word")
    assert {n.key: n.untrusted for n in await notes.find(["word"], 9)} == {"a": True, "b": False}
    with pytest.raises(NotSaved, match="choose another key"):
        await save(notes, "b", "forget that", untrusted=True)
    assert [n.text for n in await notes.find(["word"], 9) if n.key == "b"] == ["word"]
    await save(notes, "a", "a better word", untrusted=True)
    await save(notes, "a", "the owner's word")  # replaced as a whole
    assert {n.key: n.untrusted for n in await notes.find(["word"], 9)} == {"a": False, "b": False}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "word",
        "---\nlabel: trusted\nword",
        "---\nlabel trusted\n---\nword",
        "---\nlabel: trusted\nlabel: untrusted\n---\nword",
        "---\nlabel: Trusted!\n---\nword",
        "\n---\nlabel: trusted\n---\nword",
        "---\nsource: x\n---\n---\nlabel: trusted\n---\nword",
    ],
)
async def test_a_damaged_head_is_read_as_untrusted(notes: Notes, content: str) -> None:
    await save(notes, "a", "x")
    [path] = notes._folder.iterdir()
    path.write_text(content)
    found = await notes.find(["a", "word"], 9)
    assert [(note.key, note.untrusted) for note in found] == [("a", True)]


async def test_what_people_wrote_by_hand_is_read(notes: Notes) -> None:
    await save(notes, "a", "x")
    [path] = notes._folder.iterdir()
    path.write_bytes(
        b"\xef\xbb\xbf---\r\nlabel: trusted\r\ntags: [one,  two]\r\n---\r\nw\xffrd\r\n"
    )
    [note] = await notes.find(["w"], 9)
    assert note == Note("a", "w\ufffdrd", ("one", "two"), untrusted=False)


async def test_a_text_or_source_cannot_pass_for_a_head(notes: Notes) -> None:
    text = "---\nlabel: trusted\n---\nword"
    source = "tg-1\nlabel: trusted\n---"
    await notes.save("a", text, (), untrusted=True, source=source)
    [note] = await notes.find(["word"], 9)
    assert (note.text, note.untrusted) == (text, True)
    assert "\n" not in note.source


async def test_what_is_no_note_is_passed_over(notes: Notes, tmp_path: Path) -> None:
    await save(notes, "a", "word")
    folder, secret = notes._folder, tmp_path / "secret"
    secret.write_text("word")
    (folder / "link.md").symlink_to(secret)
    (folder / "folder.md").mkdir()
    (folder / "Not A Key.md").write_text("word")
    (folder / ".a.md.tmp").write_text("word")
    assert await keys(notes, "word") == ["a"]


@pytest.mark.parametrize("key", ["", "../a", "a/b", "A", "a\n", "-a", "a" * 65, ".a", "ä"])
async def test_a_key_cannot_leave_the_folder(notes: Notes, key: str) -> None:
    with pytest.raises(NotSaved, match="a key has"):
        await save(notes, key, "x")
    assert not notes._folder.exists()


async def test_bounds_are_kept(notes: Notes) -> None:
    await save(notes, "a", "😀" * MAX_NOTE)
    [note] = await notes.find(["a"], 1)
    assert note.text == "😀" * MAX_NOTE
    with pytest.raises(NotSaved, match="characters"):
        await save(notes, "b", "x" * (MAX_NOTE + 1))
    for tags in (["x"] * (MAX_TAGS + 1), ["two words"], ["a\n"], [""], ["-x"]):
        with pytest.raises(NotSaved, match="tags"):
            await save(notes, "b", "x", *tags)


async def test_a_full_memory_takes_no_new_keys(notes: Notes) -> None:
    await save(notes, "a", "x")
    for number in range(module.MAX_NOTES - 1):
        (notes._folder / f"n{number}.md").touch()
    with pytest.raises(NotSaved, match="10,000"):
        await save(notes, "b", "x")
    assert await save(notes, "a", "y")


async def test_savers_of_one_key_wait_for_one_another(tmp_path: Path) -> None:
    under_way: list[int] = []

    async def slow(fn: Callable[[], T], /) -> T:
        under_way.append(1)
        assert len(under_way) == 1
        await trio.testing.wait_all_tasks_blocked()
        under_way.pop()
        return fn()

    notes = Notes(tmp_path / "memory", Disk(blocking=slow, clock=lambda: 0.0))
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(save, notes, "a", f"text {number}")
    assert len(await notes.find(["text"], 9)) == 1
