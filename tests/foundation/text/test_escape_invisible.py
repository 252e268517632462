"""The owner sees exactly the text that will run (AP-16)."""

import re
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.text.characters import (
    describe_unusual,
    escape_invisible,
    printable,
    printable_json,
)
from elwood.foundation.text.lines import one_line

ESCAPE = re.compile(r"⟨U\+([0-9A-F]{4,6})(?: (\d+) times)?⟩(\n?)")
TEXT = st.text(st.one_of(st.characters(), st.sampled_from(" \n\t\r\u202e\u200b\u0301⟨⏎a")))


def read_back(shown: str) -> str:
    """Undo the escaping: if that is possible, nothing is hidden or disguised."""
    shown = shown.replace("⏎\n", "\n").replace("⇥\t", "\t")

    def char(found: re.Match[str]) -> str:
        text = chr(int(found[1], 16)) * int(found[2] or 1)
        return text + (found[3] if text[0] != "\n" else "")

    return ESCAPE.sub(char, shown)


@given(TEXT)
def test_escaping_is_reversible(text: str) -> None:
    assert read_back(escape_invisible(text)) == text


@given(TEXT)
def test_nothing_invisible_remains(text: str) -> None:
    left = escape_invisible(text).replace("⏎\n", "").replace("⇥\t", "")

    assert ESCAPE.sub("", left).isprintable()


@pytest.mark.parametrize(
    "char",
    [
        *"\x00\x07\x08\r\x1b\x7f\x85\x9b",  # control, ANSI
        *"\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c",  # bidi
        *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e",  # zero width
        *"\u2028\u2029\u00a0\u2003\u3000",  # separators and other spaces
        *"\u115f\u1160\u3164\uffa0\u2800\u034f\ufe0f\U000e0100\U000e0041",  # fillers, tags
        *"\ue000\U000f0000\U0010fffd\ufdd0\ud800\udfff",  # private, unassigned, surrogates
        *"\u20dd",  # enclosing marks
        *"⟨⟩⏎⇥",  # our own escape marks
    ],
    ids=lambda char: f"U+{ord(char):04X}",
)
def test_invisible_characters_are_spelled_out(char: str) -> None:
    assert escape_invisible(f"rm {char}x") == f"rm ⟨U+{ord(char):04X}⟩x"


@pytest.mark.parametrize(
    "text",
    ["ls -l 'a b' | grep \\(x\\)", "Größe, naïve, 日本語, Привет", "नमस्ते", "สวัสดี", "e\u0301"],
)
def test_plain_words_of_any_language_are_unchanged(text: str) -> None:
    assert escape_invisible(text) == text


def test_nothing_is_pushed_out_of_sight() -> None:
    shown = escape_invisible("ls" + " " * 5000 + "\n" * 500 + "\u200b" * 3000 + "; reboot")

    assert shown == "ls⟨U+0020 5000 times⟩⟨U+000A 500 times⟩\n⟨U+200B 3000 times⟩; reboot"


def test_only_non_ascii_characters_are_reported() -> None:
    assert describe_unusual("rm -rf x") == ""
    found = describe_unusual("c\u0430t f\u043eo\u037e")
    assert "CYRILLIC SMALL LETTER A (U+0430)" in found
    assert "GREEK QUESTION MARK (U+037E)" in found
    many = describe_unusual("".join(map(chr, range(0x430, 0x450))))
    assert many.endswith("and 22 more")
    assert "⟨U+202E⟩" in describe_unusual("\u202e\ud800")


@given(st.text(), st.integers(1, 80))
def test_a_flat_name_is_short_and_on_one_line(name: str, limit: int) -> None:
    flat = one_line(name, limit)
    assert len(flat) <= limit
    assert flat == "" or flat.isprintable()
    flat.encode()


def test_printable_text_cannot_control_a_terminal() -> None:
    every = "".join(map(chr, range(0x3000))) + "\ud800\udfff"
    left = printable(every)
    assert "\t\n" in left
    assert [c for c in left if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")] == ["\t", "\n"]
    overrides = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert [c for c in left if unicodedata.bidirectional(c) in overrides] == []
    assert printable("ä漢👋 \u200f") == "ä漢👋 \u200f", "what people write stays"


def test_json_is_equal_on_a_terminal() -> None:
    said = {"a": "".join(map(chr, range(0x2100)))}
    shown = printable_json(msgspec.json.encode(said).decode())
    assert msgspec.json.decode(shown) == said
    assert printable(shown) == shown
