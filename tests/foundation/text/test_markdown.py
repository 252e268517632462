"""The rendering of each Markdown construct, hidden text, and the cost of hostile text."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from elwood.foundation.text.lines import width
from elwood.foundation.text.markdown import (
    MAX_MARKDOWN,
    MAX_NESTING,
    MAX_WIDTH,
    REPEAT_MARK,
    Rich,
    mark_repeat,
    to_entities,
)
from elwood.foundation.text.splitting import LIMIT, split
from tests.foundation.text.entity_rules import check_entities, slice_of

Shown = list[tuple[str, str]]


def describe_entities(rich: Rich) -> Shown:
    """Return each entity as (type, covered text), with its URL or language after the type."""
    check_entities(rich)
    return [
        (" ".join(filter(None, (e.type, e.url, e.language))), slice_of(rich, e))
        for e in rich.entities
    ]


TEXT: list[tuple[str, str, Shown]] = [
    ("plain text", "plain text", []),
    ("**b** *i* __B__ _I_ ~~s~~ `c`", "b i B I s c",
     [("bold", "b"), ("italic", "i"), ("bold", "B"), ("italic", "I"),
      ("strikethrough", "s"), ("code", "c")]),
    ("***both***", "both", [("italic", "both"), ("bold", "both")]),
    ("**a *b* c**", "a b c", [("bold", "a b c"), ("italic", "b")]),
    ("**a **b** c**", "a b c", [("bold", "a b c")]),
    ("*a **b *c* d** e*", "a b c d e", [("italic", "a b c d e"), ("bold", "b c d")]),
    ("# Title *x*\ntext", "Title x\ntext", [("bold", "Title x"), ("italic", "x")]),
    ("# **T**", "T", [("bold", "T")]),
    ("Title\n=====\n\ntext", "Title\n\ntext", [("bold", "Title")]),
    ("||secret|| and a || b || c", "||secret|| and a || b || c", []),
    ("one\ntwo  \nthree\\\nfour", "one\ntwo\nthree\nfour", []),
    ("one\n\n\n\ntwo", "one\n\ntwo", []),
    ("a\n\n---\n\nb", "a\n\n———\n\nb", []),
    (r"\*not\* 2 * 3 * 4 a_b_c $x$ C:\dir", r"*not* 2 * 3 * 4 a_b_c $x$ C:\dir", []),
    ("<b>x</b> <script> &amp; &lt; &unknown;", "<b>x</b> <script> & < &unknown;", []),
    ("<div>\n**x**\n</div>", "<div>\nx\n</div>", [("bold", "x")]),
]  # fmt: skip


LISTS: list[tuple[str, str, Shown]] = [
    ("- a\n- b", "• a\n• b", []),
    ("- a\n\n- b", "• a\n\n• b", []),
    ("Here:\n- a", "Here:\n• a", []),
    ("Here:\n\n- a\n\nThere", "Here:\n\n• a\n\nThere", []),
    ("- a\n  - b\n    - c\n      - d", "• a\n  ◦ b\n    ▪ c\n      ▪ d", []),
    ("- a\nlazy\n\n  second", "• a\n  lazy\n\n  second", []),
    ("1. a\n1. b\n   - c\n2. d", "1. a\n2. b\n   • c\n3. d", []),
    ("7) a\n8) b", "7) a\n8) b", []),
    ("9. a\n10. b\n    more", "9. a\n10. b\n    more", []),
    ("- [ ] open\n- [x] done\n- [X] Done", "☐ open\n☑ done\n☑ Done", []),
    ("1. [ ] open", "1. ☐ open", []),
    ("- [ ]", "• [ ]", []),
    ("- [x](http://a.example)", "• x", [("text_link http://a.example", "x")]),
    ("-\n- b", "• \n• b", []),
    ("- # h\n- > q\n  > r", "• h\n• > q\n  > r", [("bold", "h")]),
]


QUOTES: list[tuple[str, str, Shown]] = [
    ("> a\n> b", "a\nb", [("blockquote", "a\nb")]),
    ("> a\n>\n> b\n\nc", "a\n\nb\n\nc", [("blockquote", "a\n\nb")]),
    ("a\n> b", "a\nb", [("blockquote", "b")]),
    ("> a\n> > b\n>\n> c", "a\n> b\n\nc", [("blockquote", "a\n> b\n\nc")]),
    ("> - a\n> - **b**", "• a\n• b", [("blockquote", "• a\n• b"), ("bold", "b")]),
    ("> ```\n> x\n> ```", "x", [("blockquote", "x"), ("pre", "x")]),
    (">\n\nx", "x", []),
]


# Code nests only in quotes.
CODE: list[tuple[str, str, Shown]] = [
    ("```python\na = 1\n\n\nb\n```", "a = 1\n\n\nb", [("pre python", "a = 1\n\n\nb")]),
    ("```c++ title=x\ny\n```", "y", [("pre c++", "y")]),
    ("```{.odd}\ny\n```", "y", [("pre", "y")]),
    ("```\nunclosed **x**", "unclosed **x**", [("pre", "unclosed **x**")]),
    ("a\n```\nx\n```\nb", "a\nx\nb", [("pre", "x")]),
    ("    indented\n      more", "indented\n  more", [("pre", "indented\n  more")]),
    ("```\n\n\n  a\n    b\n\n```", "a\n  b", [("pre", "a\n  b")]),
    ("```\nif x:\n\treturn\n```", "if x:\n    return", [("pre", "if x:\n    return")]),
    ("```\n```\nx", "x", []),
    ("1. a\n   ```sh\n   ls\n   ```\n2. b", "1. a\nls\n2. b", [("pre sh", "ls")]),
    ("**a `b` c**", "a b c", [("bold", "a"), ("code", "b"), ("bold", "c")]),
    ("**`b`**", "b", [("code", "b")]),
    ("# See `x` now", "See x now", [("bold", "See"), ("code", "x"), ("bold", "now")]),
    ("`` ` `` and ` `", "` and", [("code", "`")]),
    ("`<b>&amp;**x**`", "<b>&amp;**x**", [("code", "<b>&amp;**x**")]),
]


# A link hides only a safe URL.
LINKS: list[tuple[str, str, Shown]] = [
    ("[a b](https://x.example/p?q#f)", "a b", [("text_link https://x.example/p?q#f", "a b")]),
    ("[a](https://x.example/ä)", "a", [("text_link https://x.example/%C3%A4", "a")]),
    ("[a](<https://x.example/b c>)", "a", [("text_link https://x.example/b%20c", "a")]),
    ("[a](HTTPS://X.example:8080)", "a", [("text_link HTTPS://X.example:8080", "a")]),
    ("[a](tg://resolve?domain=x)", "a", [("text_link tg://resolve?domain=x", "a")]),
    ("[`c` **b**](http://x.example)", "c b",
     [("text_link http://x.example", "c b"), ("bold", "b")]),
    ("**a [b](http://x.example)**", "a b",
     [("bold", "a b"), ("text_link http://x.example", "b")]),
    ("[a](javascript:alert(1))", "a (javascript:alert(1))", []),
    ("[a](data:text/html,x)", "a (data:text/html,x)", []),
    ("[a](file:///etc/passwd)", "a (file:///etc/passwd)", []),
    ("[a](tg://user?id=1)", "a (tg://user?id=1)", []),
    ("[a](http://localhost:80)", "a (http://localhost:80)", []),
    ("[a](http://x.example:99999)", "a (http://x.example:99999)", []),
    ("[a](http://me:pw@x.example)", "a (http://me:pw@x.example)", []),
    ("[a](docs/x.md) [b](#c)", "a (docs/x.md) b (#c)", []),
    ("[mail](mailto:a@b.example)", "mail (a@b.example)", []),
    ("[https://bank.example](https://thief.example)",
     "https://bank.example (https://thief.example)", []),
    ("[x.example](https://x.example)", "x.example",
     [("text_link https://x.example", "x.example")]),
    ("[https://x.example](https://x.example)", "https://x.example", []),
    ("<https://x.example> <a@b.example>", "https://x.example a@b.example", []),
    ("[](https://x.example)", "https://x.example", []),
    ("f[i](x) and [](){} and [a]()", "f[i](x) and [](){} and [a]()", []),
    ("![alt](https://x.example/i.png)", "alt", [("text_link https://x.example/i.png", "alt")]),
    ("![](https://x.example/i.png)", "https://x.example/i.png", []),
    ("[![alt](https://x.example/i)](https://y.example)", "alt",
     [("text_link https://y.example", "alt")]),
    ("[a][1] and [1] and [2]\n\n[1]: https://x.example 'T'",
     "[a][1] and [1] and [2]\n\n[1]: https://x.example 'T'", []),
    ("[a](https://x.example/" + "b" * 3000 + ")",
     "a (https://x.example/" + "b" * 3000 + ")", []),
    ("[Note]: important\n\nrest", "[Note]: important\n\nrest", []),
    ("[<https://x.example>](https://y.example)", "https://x.example (https://y.example)", []),
]  # fmt: skip


# Joiners, a family, the flag of England, words of Khmer, a variant of a Chinese character.
VISIBLE = (
    "\u0645\u06cc\u200c\u0634",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u1780\u200b\u1781",
    "\u845b\U000e0100",
)
# Characters that cannot be sent are removed; those that can hide text are shown.
UNSENDABLE: list[tuple[str, str, Shown]] = [
    ("a\0b\x07c\x1b[31md\x7fe\x9bf", "abcdef", []),
    ("a\tb", "a\tb", []),
    ("a\r\nb\rc", "a\nb\nc", []),
    ("a\u2028b\u202ec", "a\nb⟨U+202E⟩c", []),
    ("x\ud83d y", "x\ufffd y", []),
    ("\u2066a\u200b\ufeff\U000e0041", "⟨U+2066⟩a⟨U+200B⟩⟨U+FEFF⟩⟨U+E0041⟩", []),
    *((text, text, []) for text in VISIBLE),
    ("\ud83d\ude00", "\N{GRINNING FACE}", []),
    ("**x** a&#13;b&#x202e;c&#0;", "x a\nb⟨U+202E⟩c\ufffd", [("bold", "x")]),
]


@pytest.mark.parametrize(
    ("markdown", "text", "entities"), TEXT + LISTS + QUOTES + CODE + LINKS + UNSENDABLE
)
def test_text_and_its_formatting(markdown: str, text: str, entities: Shown) -> None:
    rich = to_entities(markdown)
    assert rich.text == text
    assert describe_entities(rich) == entities


def test_a_table_is_aligned() -> None:
    rich = to_entities(
        "Prices:\n\n| Name | Qty | `Note` |\n|:--|--:|:-:|\n"
        "| Apple | 3 | **x** |\n| 漢字 | 12 |\n\nend"
    )
    drawn = "Name  | Qty | Note\n------+-----+-----\nApple |   3 |  x\n漢字  |  12 |"
    assert rich.text == f"Prices:\n\n{drawn}\n\nend"
    assert describe_entities(rich) == [("pre", drawn)]
    assert len({width(line.split("|")[0]) for line in drawn.split("\n") if "|" in line}) == 1


def test_a_table_never_starts_with_a_space() -> None:
    rich = to_entities("| | a |\n|--:|---|\n| row | b |")
    assert rich.text == "·   | a\n----+--\nrow | b"


def test_a_wide_table_is_listed_by_row() -> None:
    long = "word " * MAX_WIDTH
    rich = to_entities(
        f"| Name | About |\n|---|---|\n| **A** | {long} |\n| [B](https://b.example) | |"
    )
    assert rich.text == f"• Name: A\n  About: {long.strip()}\n• Name: B"
    assert describe_entities(rich) == [("bold", "A"), ("text_link https://b.example", "B")]


def test_offsets_count_utf16_units() -> None:
    rich = to_entities("\N{GRINNING FACE} **b\N{GRINNING FACE}** `c`")
    assert [(e.offset, e.length) for e in rich.entities] == [(3, 3), (7, 1)]


@pytest.mark.parametrize("nothing", ["", " \n\t ", ">", "```\n```", "\0", "&#10;"])
def test_empty_text_stays_empty(nothing: str) -> None:
    assert to_entities(nothing) == Rich("")


def test_a_repeat_is_marked_and_fits_a_message() -> None:
    piece = split(to_entities("**a** " * 3000))[0]
    marked = mark_repeat(piece)
    assert marked.text == REPEAT_MARK + piece.text
    assert describe_entities(marked) == describe_entities(piece)
    assert LIMIT + len(REPEAT_MARK) <= 4096


def count_calls(function: Callable[[str], object], argument: str) -> int:
    """Count the calls of Python and C functions that *function* makes; this needs no clock."""
    count = 0

    def note(frame: FrameType, event: str, value: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        function(argument)
    finally:
        sys.setprofile(None)
    return count


HOSTILE = [
    "*", "*a ", "_a", "**a *b ", "a**b", "~~a ", "`", "`` ` ", "**`a`", "[", "]", "![", "[a](",
    "[x][", '[](x "', "[a]: b\n", "[a\n", "[a](http://b.c)", "![a](b)", "<", "<a:", "&", "\\",
    ">", ">\n", "> - a\n", "- ", "- a\n", "1. a\n", "# ", "```\n", "    a\n", "|", "||a",
    "||a||", "a|b\n-|-\n", "\n", "\t", "&#10;", "\N{GRINNING FACE}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE, ids=ascii)
def test_the_work_is_linear(pattern: str) -> None:
    def work(size: int) -> int:
        return count_calls(lambda text: split(to_entities(text)), (pattern * size)[:size])

    work(1)  # the first call imports the library
    assert work(3200) <= 2.5 * work(1600) + 500


@pytest.mark.parametrize(
    "source",
    [
        "|".join(["header"] * 500) + "\n" + "|".join(["-"] * 500) + "\na" * 100,
        "a|" + "b" * 5000 + "\n-|-\n" + "a|c\n" * 2000,
        "a|" + "b" * 24 + "\n-|-\n|" + "wide " * 20 + "\n" + "a|c\n" * 2000,
        "1. a\n" * 2000,
        "- a\n  - b\n    - c\n      - d\n        - e\n" * 500,
        "```\n" + "\t" * 5000 + "x\n```",
    ],
)
def test_a_short_text_stays_bounded(source: str) -> None:
    """Wide tables repeat text, but only by a constant factor."""
    assert len(to_entities(source).text) <= 12 * len(source)


@pytest.mark.parametrize(
    "source",
    [
        "> " * 10_000 + "**deep**",
        "".join(" " * 2 * i + f"- {i} **x**\n" for i in range(60)),
        "- " * (MAX_NESTING // 2) + "**x**",
        "**x** " + "a" * MAX_MARKDOWN,
        "*" * 1_000_000,
    ],
)
def test_excess_depth_and_length_are_shown_raw(source: str) -> None:
    assert to_entities(source) == Rich(source.strip())
