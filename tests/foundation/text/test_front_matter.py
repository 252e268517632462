"""Front matter: accepted and refused forms, without other exceptions."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.text.front_matter import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_LINES,
    FrontMatterError,
    read_front_matter,
)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("a: b", {"a": "b"}),
        ("a:   b   # c", {"a": "b"}),
        ("# only\n\na: b\n", {"a": "b"}),
        ("a: x#y", {"a": "x#y"}),
        ("a: https://e.example/x", {"a": "https://e.example/x"}),
        ("a: 'it''s: # fine'", {"a": "it's: # fine"}),
        ('a: "two\\nlines: \\u00fc"  # c', {"a": "two\nlines: ü"}),
        ("a: one\n  two\n  three", {"a": "one two three"}),
        ('a: "one\n  two"', {"a": "one two"}),
        ("a: |\n  one: x\n    two\n\n  three\nb: c", {"a": "one: x\n  two\n\nthree", "b": "c"}),
        ("a: >-\n  one\n  two\n\n  three", {"a": "one two\nthree"}),
        ("a:", {"a": ""}),
        ("a: ~\nb: null", {"a": "", "b": ""}),
        ("a: true\nb: 1.0", {"a": "true", "b": "1.0"}),
        ("a: [x, 'y, z', \"w\"]", {"a": ("x", "y, z", "w")}),
        ("a: []\nb: {}", {"a": (), "b": {}}),
        ("a:\n  - x\n  - 'y: z'\nb: c", {"a": ("x", "y: z"), "b": "c"}),
        ("a:\n- x\n- y\nb: c", {"a": ("x", "y"), "b": "c"}),
        ("a:\n  b: c\n  d: e", {"a": {"b": "c", "d": "e"}}),
        ("a:\n  b:\n    - c: 1\n      d: 2\n    - e", {"a": {"b": ({"c": "1", "d": "2"}, "e")}}),
        ('a: {"b": {"c": ["d"]}}', {"a": {"b": {"c": ("d",)}}}),
        ('a:\n  {\n    "b": [ "c", ],\n  }', {"a": {"b": ("c",)}}),
        ("a:\n  text\n  goes on", {"a": "text goes on"}),
        ("allowed-tools: Bash(git:*) Read", {"allowed-tools": "Bash(git:*) Read"}),
        ('"quoted key": x', {"quoted key": "x"}),
        # Text that needs quotes is read as if quoted.
        ("a: Use when: always", {"a": "Use when: always"}),
        ("a: Note: x\n  and: y\nb: c", {"a": "Note: x and: y", "b": "c"}),
        ("a: [Beta] does it", {"a": "[Beta] does it"}),
        ("a: *bold* words", {"a": "*bold* words"}),
        ("a: `code`", {"a": "`code`"}),
        ("a: &x b\nc: [*x]", {"a": "&x b", "c": "[*x]"}),
        ('a: "quoted" and more', {"a": '"quoted" and more'}),
    ],
)
def test_yaml_subset_is_read(block: str, expected: object) -> None:
    for text in (block, block.replace("\n", "\r\n")):
        assert read_front_matter(f"---\n{text}\n---\nbody").fields == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin"),
        ("--- x\na: b\n---", "does not begin"),
        ("---\na: b", "no closing line"),
        ("---\njust words\n---", "no key"),
        ("---\na: b\na: c\n---", "duplicate"),
        ("---\n\ta: b\n---", "cannot be read"),
        ("---\n  a: b\nc: d\n---", "cannot be read"),
        ("---\n- a\n---", "no key"),
        ("---\n" + "a: b\n" * (MAX_LINES + 1) + "---", "lines"),
        ("---\na: " + "b" * MAX_LENGTH + "\n---", "characters"),
        ("---\na:\n" + "".join(f"{' ' * n}a:\n" for n in range(1, MAX_DEPTH + 3)) + "---", "deep"),
        ("---\na:\n  " + "[" * 5000 + "\n---", "deep|read"),
        ("---\na:\n  {b: c, b: d}\n---", "duplicate"),
    ],
)
def test_other_yaml_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(FrontMatterError, match=why):
        read_front_matter(text)


PIECES = st.sampled_from(
    ["a", ": ", ":", "\n", "  ", "- ", "[", "]", "{", "}", ",", '"', "'", "\\", "#", "|", ">",
     "---", "\t", "&", "*", "ü", "\0", "\r", "~", "x: y\n", "\n  - z", '{"k": ["v"]}']
)  # fmt: skip


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_other_exception_is_raised(block: str) -> None:
    with suppress(FrontMatterError):
        read_front_matter(f"---\n{block}\n---\nbody")
