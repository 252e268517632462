"""An exported conversation: all of the line, nothing else, and nothing that breaks out."""

import re
from datetime import UTC
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import (
    Archived,
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Entry,
    Joined,
    Received,
    Replied,
    Resumed,
    Retried,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.reading.records import History
from elwood.agent.session.reading.render import ExportItem, Format, items_of, written

ROUTE = Route("console")
HOSTILE = [
    "</pre></article><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "```\n# a heading\n[a link](javascript:alert(1))\n```",
    "````````\n<b>bold</b>\n~~~",
    "\u202eright to left\u202c \u2067isolate",
    '" onmouseover="alert(1)" x="',
    "</style><style>*{display:none}</style>",
    "--><!-- ]]> &lt;script&gt; &#60;",
    "\x1b[2J\x00\x85\u2028line",
    "\ud800 half",
]


def numbered(entries: list[Entry]) -> list[tuple[int, float, Entry]]:
    return [(seq, float(seq), entry) for seq, entry in enumerate(entries, 1)]


def received(id_: str, text: str, *, untrusted: bool = False) -> Received:
    return Received(id_, text, "tg:1", ROUTE, 0.0, untrusted=untrusted)


def turn(id_: str, asked: str, text: str, answer: str) -> list[Entry]:
    return [
        received(asked, text),
        TurnStarted(id_, (asked,), 1, text),
        Replied(id_, id_, (asked,), ROUTE, answer),
    ]


def shown(entries: list[Entry]) -> list[str]:
    history = History("s", numbered(entries))
    return [one.text for one in items_of(history, lambda text: text.replace("hunter2", "***"))]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            [
                *turn("t1", "a", "one", "re: one"),  # 1-3
                *turn("t2", "b", "two", "re: two"),  # 4-6
                received("c", "/undo"),  # 7
                Resumed(4),  # 8
                Replied("c", None, ("c",), ROUTE, "taken back"),
                *turn("t3", "d", "three", "re: three"),
            ],
            ["one", "re: one", "three", "re: three"],
        ),
        ([*turn("t1", "a", "one", "1"), Rewound(0), *turn("t2", "b", "two", "2")], ["two", "2"]),
        ([*turn("t1", "a", "one", "1"), Archived(), *turn("t2", "b", "two", "2")], ["two", "2"]),
        (
            [
                *turn("t1", "a", "one", "bad"),
                received("b", "/retry"),
                Resumed(1),
                Retried("b", "one"),
                TurnStarted("t2", ("b",), 1, "one"),
                Replied("t2", "t2", ("b",), ROUTE, "good"),
            ],
            ["one", "good"],
        ),
        (
            [
                Received("a", "wrong", "tg:1", ROUTE, 0.0, message="m1"),
                Received("b", "right", "tg:1", ROUTE, 0.0, message="m1", edits="m1"),
                TurnStarted("t1", ("a", "b"), 1, "right"),
            ],
            ["right"],
        ),
        (turn("t1", "a", "take hunter2", "hunter2 it is"), ["take ***", "*** it is"]),
    ],
    ids=["/undo", "/new", "put away", "/retry", "edited while it waited", "secrets"],
)
def test_the_present_line_is_exported_without_commands(
    log: list[Entry], expected: list[str]
) -> None:
    assert shown(log) == expected


CALLS: list[Entry] = [
    received("a", "do it"),
    TurnStarted("t1", ("a",), 1, "do it"),
    Said("t1", Assistant((ToolCall("c", "pay", "{}"),), "", "m", msgspec.Raw(b"0")), Usage()),
    CallPending("t1", "c", "pay", "plan", "rent"),
    CallDecided("t1", "c", "plan", "once", "tg:1"),
    CallStarted("t1", "c", "pay", "once", "rent", "plan", "once"),
    received("b", "and this"),
    Joined("t1", ("b",), "and this"),
    CallEnded("t1", "c", "pay", "ok", "done", "rent", Label(untrusted=True), "x", "once"),
    Replied("t1", "t1", ("a", "b"), ROUTE, "It is paid."),
]


@pytest.mark.parametrize("format_", ["md", "html"])
def test_calls_stand_between_the_words_with_outcome_and_approval(format_: Format) -> None:
    items = items_of(History("s", numbered(CALLS)), str)
    text = written("s", items, UTC, format_)

    line = "✓ pay rent · allowed once by you · 3.0 s"
    places = [text.index(words) for words in ("do it", "and this", line, "It is paid.")]
    assert places == sorted(places)
    assert "1970-01-01 00:00:02 UTC" in text


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


PLAIN = [ExportItem(0.0, "x", "x"), ExportItem(0.0, "Elwood", "x")]


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    text = written("x", PLAIN, UTC, "html")

    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|<script|<link|src=", text)
    assert "color-scheme: light dark" in text


def kinds(markdown: str) -> list[tuple[str, str]]:
    """What Markdown makes of it: the kinds of blocks, and of what stands in headings."""
    parser = MarkdownIt("commonmark", {"html": True})
    return [
        (token.type, " ".join(child.type for child in token.children or []))
        for token in parser.parse(markdown)
    ]


@pytest.mark.parametrize("format_", ["md", "html"])
def test_what_steers_terminals_or_turns_lines_around_is_left_out(format_: Format) -> None:
    items = [ExportItem(0.0, text, text) for text in HOSTILE]
    text = written("\u202e\x1bx", items, UTC, format_)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", text)
    text.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_out_of_its_block(text: str) -> None:
    check_blocks(text, text, text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_stays_in_its_block(text: str) -> None:
    check_blocks("x", "x", text)


def check_blocks(title: str, who: str, text: str) -> None:
    """Whatever is said, the file has the blocks that it has when nothing special is."""
    items = [ExportItem(0.0, who, text), ExportItem(0.0, "Elwood", text)]
    page, plain = (Page(written(t, i, UTC, "html")) for t, i in ((title, items), ("x", PLAIN)))
    assert (page.tags, page.attributes) == (plain.tags, plain.attributes)
    assert "script" not in page.tags
    made = kinds(written(title, items, UTC, "md"))
    assert [kind for kind, _ in made] == [kind for kind, _ in kinds(written("x", PLAIN, UTC, "md"))]
    for kind, inside in made:
        if kind == "inline":  # a heading
            assert set(inside.split()) <= {"text", "text_special"}
