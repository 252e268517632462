"""Drawings: never wider than the terminal, and without control characters."""

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from elwood.agent.channels.frames import Choice, HeardElsewhere, Message, ShownFile
from elwood.features.console import drawing
from elwood.features.console.drawing import Line

PIECES = [
    "# ", "\n", "\n\n", "- ", "  - ", "1. ", "> ", "```sh\n", "```\n", "`", "**", "~~", "---\n",
    "| a | b |\n", "|-|-|\n", "[a](https://example.org)", "![p](x)", "<b>", "&amp;", "\t", "word",
    "x" * 50, "漢字", "e\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "שלום", "[red]",
    ":smile:", "\u202e", "\u200b", "\ufeff", "\U000e0041", "\x1b[2J", "\x9b1m", "\r", "\x07",
]  # fmt: skip
ACTED_ON = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200b\ufeff\U000e0000-\U000e007f]"
)


def shown(drawn: list[Line]) -> list[str]:
    return ["".join(part.text for part in line) for line in drawn]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.integers(24, 200))
def test_any_text_fits_and_has_no_control_characters(text: str, width: int) -> None:
    message = Message(
        id="m",
        text=text,
        markdown=text,
        is_repeat=True,
        choices=(Choice(text, "/deny X"),) * 10,
        files=(ShownFile(text, 1, text),),
    )
    drawn = [
        *drawing.message(message, width),
        *drawing.box(message, width, 9),
        *drawing.draw_decision(message, width, text),
        *drawing.draw_message(HeardElsewhere(who=text, text=text), width),
        *drawing.draw_answer(text, [text], width),
        *drawing.tail(text * 40, width, 5),
    ]
    for line, parts in zip(shown(drawn), drawn, strict=True):
        assert not ACTED_ON.search(line)
        assert cell_len(line) <= width
        assert not any(part.control for part in parts)
    joined = "".join(part[1] for part in drawing.to_fragments(drawn))
    assert joined == "".join(f"{line}\n" for line in shown(drawn))


def test_markdown_is_drawn_completely() -> None:
    text = "# A\n\none\ntwo <b>[x](y) https://e.org ![p](q)\n\n1. i\n\n|a|b|\n|-|-|\n|1|2|\n"
    assert shown(drawing.markdown(f"{text}\n```\n\nc\n```", 60)) == [
        "A", "", "one", "two <b>x (y) https://e.org [picture p] (q)", "", "1. i", "",
        "a  b", "────", "1  2", "", "", "  c",
    ]  # fmt: skip


def test_only_prose_is_kept_short_on_a_wide_terminal() -> None:
    row = "wide " * 36
    text = f"{row}\n\n- {row}\n\n```\n{row}\n```\n\n| a | b |\n|-|-|\n| {row} | c |"
    drawn = shown(drawing.markdown(text, 200))
    prose = [line for line in drawn if "wide" in line][:4]
    assert all(len(line) < drawing.MAX_WIDTH + 4 for line in prose)
    assert next(line for line in drawn if row.strip() in line) == f"  {row.strip()}"
    assert drawn[-1].split() == [*row.split(), "c"]


def test_receipts_are_separate_and_not_markdown() -> None:
    footer = "— What I actually did —\n✓ write *a*.txt · allowed once by you"
    message = Message(id="m", text="x", markdown="Done.", records=footer)
    drawn = drawing.message(message, 80)
    assert shown(drawn) == ["Done.", "", *footer.splitlines()]
    assert {part.style for line in drawn[2:] for part in line} == {drawing.DIM}
    plain = Message(id="m", text=f"Done.\n\n{footer}")
    assert shown(drawing.message(plain, 80)) == shown(drawn)


def test_the_tail_of_an_unfinished_code_block_is_code() -> None:
    text = "```sh\n" + "# a *b*\n" * 2000
    assert shown(drawing.tail(text, 80, 2)) == ["  # a *b*"] * 2
    assert drawing.tail("a", 80, 0) == []


def test_the_command_of_a_call_is_drawn_as_code() -> None:
    command, change = "mv 'a b' c `d` ```", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y"
    text = f"May I?\n\n{command}\n\nWhy I ask: *x*\n{change}"
    drawn = drawing.message(Message(id="a", text=text, code=(command, change)), 80)
    code = [f"  {line}" for line in (command, *change.split("\n"))]
    assert [line for line in shown(drawn) if line] == [
        "May I?",
        code[0],
        "Why I ask: *x*",
        *code[1:],
    ]
    assert {str(part.style and part.style.color) for line in drawn for part in line} != {"None"}


def test_a_long_question_shows_both_ends_and_a_note() -> None:
    asked = Message(id="a", text="\n".join(map(str, range(99))), choices=(Choice("No", "/deny X"),))
    drawn = shown(drawing.box(asked, 80, 20))
    assert len(drawn) <= 20
    assert drawn[1:3] == ["│ 0", "│ 1"]
    assert [line for line in drawn if "84 more lines" in line]
    assert drawn[-4:-1] == ["│ 98", "│ ", "│ n No   r No, and say why"]
