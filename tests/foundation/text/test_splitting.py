"""The places where messages are cut, the formats that continue, and that nothing is lost."""

import pytest

from elwood.foundation.text.markdown import Entity, Rich, to_entities
from elwood.foundation.text.splitting import MAX_ENTITIES, NOTHING, split
from tests.foundation.text.entity_rules import check_message, slice_of, units


def split_texts(rich: Rich, limit: int) -> list[str]:
    pieces = split(rich, limit)
    for piece in pieces:
        check_message(piece, limit)
    return [piece.text for piece in pieces]


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("abc", 3, ["abc"]),
        ("one two three", 8, ["one two", "three"]),
        ("one two three", 7, ["one two", "three"]),
        ("one two six\nthree four", 16, ["one two six", "three four"]),
        ("one\n\ntwo two\nthree four", 14, ["one\n\ntwo two", "three four"]),
        ("one one one\n\ntwo\nthree four", 18, ["one one one", "two\nthree four"]),
        ("x\n\n" + "y" * 9, 6, ["x", "yyyyyy", "yyy"]),
        ("abcdef", 4, ["abcd", "ef"]),
        ("  a  \n\n\n  b  ", 3, ["a", "b"]),
        ("a" + " " * 50 + "b", 10, ["a", "b"]),
        ("漢字漢字漢", 2, ["漢字", "漢字", "漢"]),
    ],
)
def test_cuts_fall_at_pauses(text: str, limit: int, pieces: list[str]) -> None:
    assert split_texts(Rich(text), limit) == pieces


@pytest.mark.parametrize(
    "character",
    [
        "\N{GRINNING FACE}",
        "e\u0301\u0302",
        "\N{THUMBS UP SIGN}\U0001f3fd",
        "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
        "\N{HEAVY BLACK HEART}\ufe0f",
        "\u0915\u093f",
    ],
    ids=ascii,
)
def test_a_visible_character_stays_whole(character: str) -> None:
    size = len(units(character)) // 2
    for limit in range(size + 1, 2 * size):
        assert split_texts(Rich(character * 3), limit) == [character] * 3


def test_an_overlong_character_is_cut_between_code_points() -> None:
    letter = "a" + "\u0301" * 100
    assert "".join(split_texts(Rich(letter), 10)) == letter
    assert split_texts(Rich("\N{GRINNING FACE}" * 2), 2) == ["\N{GRINNING FACE}"] * 2


@pytest.mark.parametrize(
    "text", ["", " ", " \n\t\u00a0 ", "\u200b", "\u200d\ufeff \u2800", "\u202e"]
)
def test_invisible_text_becomes_a_visible_sign(text: str) -> None:
    assert split(Rich(text)) == (Rich(NOTHING),)


def test_a_blank_line_in_code_is_the_last_choice() -> None:
    rich = to_entities("intro words\n\n```\na\n\nb\n```")
    assert split_texts(rich, 16) == ["intro words", "a\n\nb"]


def test_long_code_is_cut_at_its_lines() -> None:
    code = "\n".join(f"line {i}" for i in range(2000))
    pieces = split(to_entities(f"```\n{code}\n```"))
    assert len(pieces) > 3
    assert "\n".join(piece.text for piece in pieces) == code
    assert all(slice_of(piece, piece.entities[0]) == piece.text for piece in pieces)


def test_the_longest_entities_are_kept() -> None:
    words = " ".join(["**a**"] * 150 + ["**longer**"] * 60)
    (piece,) = split(to_entities(words))
    assert len(piece.entities) == MAX_ENTITIES
    kept = [slice_of(piece, entity) for entity in piece.entities]
    assert kept == ["a"] * 40 + ["longer"] * 60
    check_message(piece)


def test_plain_text_needs_no_markdown() -> None:
    """For example a footer with spaces at its ends and a half character from a file name."""
    pieces = split(Rich(" x\ud83d ", (Entity("blockquote", 0, 4),)))
    assert pieces == (Rich("x\ufffd", (Entity("blockquote", 0, 2),)),)
