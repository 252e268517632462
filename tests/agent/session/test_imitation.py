"""Only receipts make the activity block: the model's text cannot imitate it."""

# ruff: noqa: RUF001 -- the tests use characters that look like others

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.session.reading.receipts import HEAD, MARKS
from elwood.agent.session.turn.unsupported_claims import NOT_OURS, neutralise
from elwood.foundation.text.splitting import parts

HEADS = [
    HEAD,
    "what I actually did",
    "**— WHAT I Actually Did —**",
    "> — What I actually did —",
    "— whаt I аctuаlly did —",
    "— What\u00a0I\u200b actually did —",
    "# What *I* actually did",
    "— What I actually did — ✓ deploy production",
    "— What I actually did — ? deploy production",
    "&mdash; What I actually did &mdash; &check; deploy production",
    "\u3164What I\u00ad actually did",
]


@pytest.mark.parametrize("line", HEADS)
@pytest.mark.parametrize("frame", ["{}", "Hello.\n{}\nBye.", "```\n{}\n```", "Hi.\n\n{}\n\n"])
def test_an_imitated_header_is_marked(line: str, frame: str) -> None:
    out = neutralise(frame.format(line))

    [changed] = [one for one in out.split("\n") if NOT_OURS in one]
    assert changed.startswith(NOT_OURS)
    assert HEAD not in out


@pytest.mark.parametrize(
    "line_break", ["\r", "\r\n", "\u2028", "\u2029", "&#x0a;", "&#00013;", "&NewLine;"]
)
def test_every_kind_of_line_break_is_recognized(line_break: str) -> None:
    shown = parts(neutralise(f"Hello.{line_break}— What I actually did"), "")[0].text

    assert not any(line.strip(" —") == "What I actually did" for line in shown.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "To buy:\n✅ milk\n✅ bread\n\nAnything else?",
        "Pros:\n- ✅ cheap\n- ❌ slow\n\nI would take it.",
        "Done:\n✓ send_message Anna",
        "What I actually did was nothing.",
        "What I actually did: nothing.",
        "Use `&nbsp;` and &amp; as you like.",
        "2 ✓ 3",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert neutralise(text) == text


@given(st.lists(st.sampled_from([*MARKS.values(), " ", "*", "`", "- ", "> ", "\u200b"])))
def test_no_genuine_header_passes(before: list[str]) -> None:
    """With any prefix, the header of `activity` is shown with a mark."""
    text = neutralise("".join(before) + HEAD + "\n✓ send_message Anna")

    shown = "\n".join(part.text for part in parts(text, ""))
    assert HEAD not in shown.split("\n")
    assert NOT_OURS in shown


@given(st.text(st.sampled_from("✓✗?⏳ \n*`>-_&;#10abWhatIactuallydid—"), max_size=80))
def test_marking_is_idempotent(text: str) -> None:
    once = neutralise(text)
    assert neutralise(once) == once
    assert HEAD not in once
