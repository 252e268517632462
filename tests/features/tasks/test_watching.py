"""Patterns mean files of the workspace, and nothing outside of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.tasks.watch import complaint, matches, start

PATHS = [
    "a.md", "b.txt", ".hidden", "inbox/a.md", "inbox/b.txt", "inbox/.a.md.swp", "inbox/old/a.md",
    "inbox/.git2/a.md", "inboxes/a.md",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("a.md", ["a.md"]),
        ("./a.md", ["a.md"]),
        ("*.md", ["a.md"]),
        ("?.md", ["a.md"]),
        ("*", ["a.md", "b.txt"]),
        ("inbox/*", ["inbox/a.md", "inbox/b.txt"]),
        ("inbox/*.md", ["inbox/a.md"]),
        ("inbox/**", ["inbox/a.md", "inbox/b.txt", "inbox/old/a.md"]),
        ("inbox", ["inbox/a.md", "inbox/b.txt", "inbox/old/a.md"]),
        ("inbox/", ["inbox/a.md", "inbox/b.txt", "inbox/old/a.md"]),
        ("inbox/**/*.md", ["inbox/a.md", "inbox/old/a.md"]),
        ("**/a.md", ["a.md", "inbox/a.md", "inbox/old/a.md", "inboxes/a.md"]),
        ("inbox/.*", ["inbox/.a.md.swp"]),
        (".hidden", [".hidden"]),
        ("inbox/[ab].md", []),
        ("A.md", []),
    ],
)
def test_a_pattern_means(pattern: str, meant: list[str]) -> None:
    assert complaint(pattern) == ""
    assert [path for path in PATHS if matches(pattern, path)] == meant
    place = start(pattern)
    assert all(place == "." or path == place or path.startswith(f"{place}/") for path in meant)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "/etc/passwd", "~/x", "../x", "inbox/../../x", "a\0b", "x" * 501, "keys/*.pem", ".env",
        ".git/HEAD", "**/**/**/**/x", "*a*b*c*d",
    ],
)  # fmt: skip
def test_a_pattern_is_refused(pattern: str) -> None:
    assert ": write a path within it, like inbox/*.md" in complaint(pattern)


@given(st.text("a*?/.", min_size=1, max_size=30), st.text("a/.", min_size=1, max_size=30))
def test_any_sound_pattern_can_be_tried(pattern: str, path: str) -> None:
    if not complaint(pattern):
        matches(pattern, path)
        assert ".." not in start(pattern).split("/")
