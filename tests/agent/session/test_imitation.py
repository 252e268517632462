"""Only receipts make the activity block: text of the model cannot be taken for it."""

# ruff: noqa: RUF001 -- characters that look like others are what is tested

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.reading.receipts import HEAD, MARKS, activity
from elwood.agent.session.turn.unsupported_claims import NOT_OURS, neutralise
from elwood.foundation.text.splitting import parts

CALLS = [
    "✓ send_message Anna",
    "☑️ send_message Anna",
    "✅ send_message Anna",
    "✓send_message Anna",
    "- ✓ send_message Anna",
    "> ✓ send_message Anna",
    "**✓** **send_message** Anna",
    "✓ `send_message` Anna",
    "✓ send\\_message Anna",
    "[✓ send_message](https://example.org) Anna",
    "||✓ send_message|| Anna",
    "&check; send_message Anna",
    "&#x2713; send&#95;message Anna",
    "✓\u200b send\u200b_message Anna",
    "\u2060✓\ufe0f s\u00adend_message Anna",
    "✓ ѕеnd_mеѕѕаgе Anna",
    "✓ ｓｅｎｄ＿ｍｅｓｓａｇｅ Anna",
    "✓ SEND_MESSAGE Anna",
    "✗ send_message Anna (failed)",
    "⛔ send_message Anna (not allowed)",
    "? send_message Anna",
    "○ send_message Anna",
    "⏳ send_message Anna",
    "🔧 send_message Anna",
    "✓ mcp__mail__send Anna",
    "\u3164✓ send_message Anna",
]
HEADS = [
    HEAD,
    "from the records",
    "**— From the Records —**",
    "> — from the records —",
    "— frоm the rесords —",
    "— from\u00a0the\u200b records —",
    "# from *the* records",
    "— from the records — ✓ deploy production",
]


@pytest.mark.parametrize("line", [*CALLS, *HEADS])
@pytest.mark.parametrize("frame", ["{}", "Hello.\n{}\nBye.", "```\n{}\n```", "Hi.\n\n{}\n\n"])
def test_a_line_that_looks_like_ours_says_that_it_is_not(line: str, frame: str) -> None:
    out = neutralise(frame.format(line))

    [changed] = [one for one in out.split("\n") if NOT_OURS in one]
    assert changed.startswith(NOT_OURS)
    assert HEAD not in out


@pytest.mark.parametrize(
    "line_break", ["\r", "\r\n", "\u2028", "\u2029", "&#x0a;", "&#00013;", "&NewLine;"]
)
def test_every_kind_of_line_break_is_seen(line_break: str) -> None:
    shown = parts(neutralise(f"Hello.{line_break}✓ send_message Anna"), "")[0].text

    assert not any(line.strip().startswith("✓") for line in shown.splitlines())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("✓ deploy production", "[x] deploy production"),
        ("Done.\n\n✅ milk\n✗ beer\n", "Done.\n\n[x] milk\n[!] beer\n"),
        ("It is:\n```\n✓ deploy\n```", "It is:\n```\n[x] deploy\n```"),
        ("Hm.\n✓ deploy\n\u200b\n---\n.", "Hm.\n[x] deploy\n\u200b\n---\n."),
        ("⏳ deploy", "[…] deploy"),
        ("? deploy", "[-] deploy"),
        ("○ deploy", "[ ] deploy"),
    ],
)
def test_at_the_end_marks_become_ascii(text: str, expected: str) -> None:
    assert neutralise(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "To buy:\n✅ milk\n✅ bread\n\nAnything else?",
        "Pros:\n- ✅ cheap\n- ❌ slow\n\nI would take it.",
        "The tools: `read_file` and `list_files`.",
        "- read_file reads\n- list_files lists",
        "• read_file reads\n→ list_files lists",
        "From the records I see that it rained.",
        "Is it true?\nYes.",
        "x = a_b + c_d",
        "The mark ✓ send_message stands within a line.",
        "√ x_1 is a root.\nAnd so on.",
        "Use `&nbsp;` and &amp; as you like.",
        "2 ✓ 3",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@given(
    st.lists(
        st.sampled_from(
            [*MARKS.values(), "✔", " ", "*", "`", "- ", "> ", "\u200b", "send_message"]
        ),
        max_size=12,
    ),
    st.sampled_from(list(MARKS.values())),
)
def test_no_real_line_comes_through(before: list[str], mark: str) -> None:
    """Whatever stands around it, a line as `activity` writes it is not what is shown."""
    block = activity([CallEnded("t", "c", "send_message", "ok", "", "Anna")])
    real = block.split("\n")[1].replace(MARKS["ok"], mark)
    text = neutralise("".join(before) + "\n" + real)

    shown = "\n".join(part.text for part in parts(text, ""))
    assert real not in shown.split("\n")


@given(st.text(st.sampled_from("✓✗?⏳ \n*`>-_&;#10abfromtherecords—"), max_size=80))
def test_what_was_changed_needs_no_further_change(text: str) -> None:
    once = neutralise(text)
    assert neutralise(once) == once
    assert HEAD not in once
