"""The fingerprint of what a task watches changes with it, and with nothing else."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.tasks.store import MAX_FILE, fingerprint
from elwood.foundation.storage.files import Root

PATTERNS = ("inbox/*.md", "notes", "todo.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    for name in ("inbox/a.md", "inbox/a.txt", "notes/2026/b.md", "todo.md"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "outside.md").write_text("outside")
    return workspace


def look(folder: Path, text: str = "the list", patterns: tuple[str, ...] = PATTERNS) -> str:
    return fingerprint(Root(folder), patterns, text)


def test_nothing_new_is_no_change(folder: Path) -> None:
    before = look(folder)
    (folder / "inbox" / "a.txt").write_text("not watched")
    (folder / "inbox" / ".a.md.swp").write_text("an editor's")
    (folder / "inbox" / "deep").mkdir()
    (folder / "inbox" / "deep" / "c.md").write_text("deeper than the pattern")
    (folder / "other.md").write_text("not watched")
    os.utime(folder / "todo.md", ns=(1, 1))  # touched, and the same
    (folder / "todo.md").unlink()
    (folder / "todo.md").write_text("todo.md")  # written anew, and the same
    assert look(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "inbox/a.md").write_text("inbox/A.md"),  # of the same size
        lambda folder: (folder / "inbox/new.md").write_text(""),
        lambda folder: (folder / "inbox/a.md").rename(folder / "inbox/b.md"),
        lambda folder: (folder / "notes/2026/b.md").unlink(),
        lambda folder: (folder / "notes/2026/c").write_text("all in the folder"),
        lambda folder: (folder / "todo.md").unlink(),
        lambda folder: (folder / "inbox/link.md").symlink_to("a.txt"),
        lambda folder: os.link(folder / "todo.md", folder / "second"),  # it is refused from then on
    ],
)
def test_a_change_is_noticed_once(folder: Path, change: "object") -> None:
    before = look(folder)
    assert callable(change)
    change(folder)
    after = look(folder)
    assert after != before
    assert look(folder) == after


def test_the_text_counts(folder: Path) -> None:
    assert look(folder, "a") != look(folder, "b")
    assert look(folder, "a", ()) != look(folder, "b", ())
    look(folder, "\ud800")


def test_what_is_missing_is_a_state(folder: Path) -> None:
    before = look(folder, patterns=("later/*.md",))
    assert look(folder, patterns=("later/*.md",)) == before
    (folder / "later").mkdir()
    assert look(folder, patterns=("later/*.md",)) == before
    (folder / "later" / "a.md").write_text("")
    assert look(folder, patterns=("later/*.md",)) != before


def test_a_workspace_that_is_missing_is_a_state(tmp_path: Path) -> None:
    assert look(tmp_path / "nosuch") == look(tmp_path / "nosuch")


def test_links_are_not_followed_out(folder: Path) -> None:
    outside = folder.parent / "outside.md"
    (folder / "inbox" / "out.md").symlink_to("../../outside.md")
    (folder / "todo.md").unlink()
    (folder / "todo.md").symlink_to(outside)
    (folder / "tree").symlink_to("..")
    patterns = (*PATTERNS, "tree", "tree/*.md", "../outside.md", str(outside))
    before = look(folder, patterns=patterns)
    outside.write_text("changed")
    assert look(folder, patterns=patterns) == before


def test_what_cannot_be_listed_is_a_state(folder: Path) -> None:
    (folder / "tree").symlink_to("..")
    before = look(folder, patterns=("tree/*.md",))
    (folder / "tree").unlink()
    (folder / "tree").mkdir()
    assert look(folder, patterns=("tree/*.md",)) != before


def test_of_long_files_size_and_time_count(folder: Path) -> None:
    long = folder / "todo.md"
    long.write_bytes(b"a" * (MAX_FILE + 1))
    os.utime(long, ns=(1, 1))
    before = look(folder)
    long.write_bytes(b"b" * (MAX_FILE + 1))
    os.utime(long, ns=(1, 1))
    assert look(folder) == before
    os.utime(long, ns=(2, 2))
    assert look(folder) != before


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.text("xy", max_size=2), max_size=3),
        min_size=2, max_size=2,
    )
)  # fmt: skip
def test_two_folders_are_equal_if_their_files_are(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, str]]
) -> None:
    seen = []
    for content in contents:
        folder = tmp_path_factory.mktemp("w")
        for name, text in content.items():
            (folder / name).write_text(text)
        seen.append(look(folder, patterns=("*",)))
    assert (seen[0] == seen[1]) == (contents[0] == contents[1])
