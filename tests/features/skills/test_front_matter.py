"""Front matter: what is read, what is refused, and that nothing raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.skills.flow import MAX_DEPTH
from elwood.features.skills.front_matter import (
    MAX_LENGTH,
    MAX_LINES,
    Malformed,
    Matter,
    read,
)


def fields(block: str) -> object:
    found = read(f"---\n{block}\n---\nbody")
    return found.fields if isinstance(found, Matter) else found.why


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
        ("a: >-\n  one\n  two\n\n  three", {"a": "one two\n\nthree"}),
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
    ],
)
def test_what_yaml_says_is_read(block: str, expected: object) -> None:
    assert fields(block) == expected
    assert fields(block.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("a: Use when: always", {"a": "Use when: always"}),
        ("a: Note: x\n  and: y\nb: c", {"a": "Note: x and: y", "b": "c"}),
        ("a: [Beta] does it", {"a": "[Beta] does it"}),
        ("a: *bold* words", {"a": "*bold* words"}),
        ("a: `code`", {"a": "`code`"}),
        ('a: "quoted" and more', {"a": '"quoted" and more'}),
    ],
)
def test_what_should_be_in_quotes_is_read_as_if_it_were(block: str, expected: object) -> None:
    found = read(f"---\n{block}\n---\n")
    assert isinstance(found, Matter)
    assert (found.fields, found.mended) == (expected, True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin"),
        ("--- x\na: b\n---", "does not begin"),
        ("---\na: b", "no end"),
        ("---\njust words\n---", "line 2 has no key"),
        ("---\na: b\na: c\n---", "a second time"),
        ("---\n\ta: b\n---", "tab"),
        ("---\n  a: b\nc: d\n---", "no key|indented"),
        ("---\na:\n  b: c\n d: e\n---", "indented|no key"),
        ("---\na: [x\n  y\n---", "brackets"),
        ("---\n- a\n---", "no key"),
        ("---\n" + "a: b\n" * (MAX_LINES + 1) + "---", "lines"),
        ("---\na: " + "b" * MAX_LENGTH + "\n---", "chars"),
        ("---\na: " + "[" * 400 + "\n  x\n---", "deep"),
        ("---\n" + "".join(f"{' ' * n}a:\n" for n in range(MAX_DEPTH + 3)) + "---", "deep"),
        ("---\na: {b: c, b: d}\n  x\n---", "twice"),
    ],
)
def test_the_rest_is_refused_with_a_reason(text: str, why: str) -> None:
    found = read(text)
    assert isinstance(found, Malformed), found
    assert any(part in found.why for part in why.split("|")), found.why


PIECES = st.sampled_from(
    ["a", ": ", ":", "\n", "  ", "- ", "[", "]", "{", "}", ",", '"', "'", "\\", "#", "|", ">",
     "---", "\t", "&", "*", "ü", "\0", "\r", "~", "x: y\n", "\n  - z", '{"k": ["v"]}']
)  # fmt: skip


@given(st.lists(PIECES, max_size=60).map("".join))
def test_nothing_raises(block: str) -> None:
    found = read(f"---\n{block}\n---\nbody")
    assert isinstance(found, Matter | Malformed)


texts = st.text(max_size=20)
trees = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def frozen(value: object) -> object:
    match value:
        case list():
            return tuple(map(frozen, value))
        case dict():
            return {key: frozen(one) for key, one in value.items()}
        case _:
            return value


@given(st.dictionaries(st.sampled_from("abcd"), trees, min_size=1))
def test_json_is_read_as_it_is(tree: dict[str, object]) -> None:
    found = read(f"---\nm: {json.dumps(tree)}\n---\n")
    assert isinstance(found, Malformed) or found.mended or found.fields == {"m": frozen(tree)}
    if isinstance(found, Malformed) or found.mended:
        assert depth(tree) > MAX_DEPTH


def depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0) if isinstance(value, list | dict) else 0
