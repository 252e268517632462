"""An exported conversation: the whole branch, nothing else, and nothing that breaks out."""

import re
from collections import Counter
from datetime import UTC
from pathlib import Path

import lxml.html
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
from elwood.agent.session.reading.export import Format, export_conversation, lines_of
from elwood.agent.session.reading.records import History
from tests import corpora

ROUTE = Route("console")
HOSTILE = [
    "</pre></article><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "```\n# a heading\n[a link](javascript:alert(1))\n```",
    "````````\n<b>bold</b>\n~~~",
    "\u202eright to left\u202c \u2067isolate \u200b \u2066 \U000e0041",
    '" onmouseover="alert(1)" x="',
    "</style></title><style>*{display:none}</style>",
    "--><!-- ]]> &lt;script&gt; &#60;",
    "\x1b[2J\x00\x85\u2028line",
    "\ud800 half",
]


def number_entries(entries: list[Entry]) -> list[tuple[int, float, Entry]]:
    return [(seq, float(seq), entry) for seq, entry in enumerate(entries, 1)]


def make_received(id_: str, text: str, *, untrusted: bool = False) -> Received:
    return Received(id_, text, "tg:1", ROUTE, 0.0, untrusted=untrusted)


def turn(id_: str, asked: str, text: str, answer: str) -> list[Entry]:
    return [
        make_received(asked, text),
        TurnStarted(id_, (asked,), 1, text),
        Replied(id_, id_, (asked,), ROUTE, answer),
    ]


def read_fences(entries: list[Entry]) -> list[str]:
    """Return the contents of the fenced blocks."""
    text = export_conversation("s", History("s", number_entries(entries)), UTC, "md", redact)
    return re.findall(r"^```text\n(.*)\n```$", text, re.M)


def redact(text: str) -> str:
    return text.replace("hunter2", "***")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            [
                *turn("t1", "a", "one", "re: one"),  # 1-3
                *turn("t2", "b", "two", "re: two"),  # 4-6
                make_received("c", "/undo"),  # 7
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
                make_received("b", "/retry"),
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
def test_the_current_branch_is_exported_without_commands(
    log: list[Entry], expected: list[str]
) -> None:
    assert read_fences(log) == expected


CALLS: list[Entry] = [
    make_received("a", "do it"),
    TurnStarted("t1", ("a",), 1, "do it"),
    Said("t1", Assistant((ToolCall("c", "pay", "{}"),), "", "m", msgspec.Raw(b"0")), Usage()),
    CallPending("t1", "c", "pay", "plan", "rent"),
    CallDecided("t1", "c", "plan", "once", "tg:1"),
    CallStarted("t1", "c", "pay", "once", "rent", "plan", "once"),
    make_received("b", "and this"),
    Joined("t1", ("b",), "and this"),
    CallEnded("t1", "c", "pay", "ok", "done", "rent", Label(untrusted=True), "x", "once"),
    Replied("t1", "t1", ("a", "b"), ROUTE, "It is paid."),
]


@pytest.mark.parametrize("format_", ["md", "html"])
def test_calls_are_shown_between_messages(format_: Format) -> None:
    text = export_conversation("s", History("s", number_entries(CALLS)), UTC, format_, str)

    line = "✓ pay rent · allowed once by you · 3.0 s"
    places = [text.index(words) for words in ("do it", "and this", line, "It is paid.")]
    assert places == sorted(places)
    assert "1970-01-01 00:00" in text


@pytest.mark.parametrize("format_", ["md", "html"])
def test_an_unloaded_branch_has_no_file(format_: Format) -> None:
    history = History("s", number_entries([*turn("t1", "a", "one", "1"), Archived()]))
    assert export_conversation("s", history, UTC, format_, str) == ""


# --- a page ---------------------------------------------------------------------------------------

TREE: list[Entry] = [
    *turn("t1", "a", "put away", "1"),  # 1-3
    Rewound(0),
    *turn("t2", "b", "two", "2"),  # 5-7
    *turn("t3", "c", "three", "3"),  # 8-10
    *turn("t4", "d", "four", "4"),  # 11-13
    Resumed(7),
    *turn("t5", "e", "five", "5"),  # 15-17
    Resumed(10),
    *turn("t6", "f", "six", "6"),  # 19-21
    Resumed(17),
    *turn("t7", "g", "seven", "7"),  # 23-25
    Resumed(5),
    *turn("t8", "h", "eight", "8"),
    Resumed(25),
]


def export_page(log: list[Entry], title: str = "x") -> lxml.html.HtmlElement:
    history = History("s", number_entries(log))
    return lxml.html.document_fromstring(export_conversation(title, history, UTC, "html", str))


def test_the_page_shows_the_branches() -> None:
    lines = lines_of(History("s", number_entries(TREE)))
    assert [[one.number for one in line] for line in lines] == [[2, 5, 7], [3, 4], [6], [8]]

    page = export_page(TREE)

    contents, main = page.find(".//nav"), page.find(".//main")
    assert contents is not None
    assert main is not None
    links = {link.get("href"): link for link in contents.iter("a")}
    assert {f"#{one.get('id')}" for one in main.iter("section")} == links.keys()
    within = {
        href[2:]: [one.get("value") for one in link.iterancestors("li")][1:]
        for href, link in links.items()
    }
    assert within == {
        "2": [], "5": [], "7": [], "3": ["2"], "4": ["2"], "6": ["3", "2"], "8": [],
    }  # fmt: skip
    first, *folded = [
        [one.get("id") for one in line.findall("section")] for line in main.iter("main", "details")
    ]
    assert (first, folded) == (["t2", "t5", "t7"], [["t3", "t4"], ["t6"], ["t8"]])
    assert "put away" not in page.text_content()


def test_an_answer_keeps_its_formatting() -> None:
    text = "# Sum\n\n*all* `x`\n\n|a|b|\n|-|-:|\n|1|2|\n\n```sh\nls <b>\n```\n[y](https://e.org)"
    page = export_page(turn("t1", "a", "*a*\nb", text))

    [answer] = page.find_class("answer")
    assert answer.findtext("h1") == "Sum"
    assert [one.text for one in answer.iter("em", "td")] == ["all", "1", "2"]
    code = answer.find("pre/code")
    assert code is not None
    assert (code.get("data-language"), code.text) == ("sh", "ls <b>\n")
    [said] = page.find_class("person")
    assert said.findtext("p") == "*a*\nb"


def test_the_page_loads_and_runs_nothing() -> None:
    text = export_conversation("x", History("s", number_entries(CALLS)), UTC, "html", str)

    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|<script|<link|src=", text)
    assert "color-scheme: light dark" in text


OURS = ("article", "details", "header", "main", "nav", "section", "style", "summary", "time")
ITS = {
    "a", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol",
    "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


def build_conversation(text: str) -> list[Entry]:
    """Return a conversation with *text* wherever a person or a model can write.

    A blank message has no entry in a real log, so "x" replaces it.
    """
    words = text if text.strip() else "x"
    return [
        Received("a", words, text, ROUTE, 0.0, untrusted=True, speaker=text),
        TurnStarted("t1", ("a",), 1, text),
        CallStarted("t1", "c", text, "once", text),
        CallEnded("t1", "c", text, "failed", text, text),
        Replied("t1", "t1", ("a",), ROUTE, words),
        *turn("t2", "b", words, words),
        Resumed(5),
        *turn("t3", "d", words, words),
    ]


PLAIN_PAGE = export_page(build_conversation(""))


def check_page(text: str) -> None:
    """Check that *text* adds no element of ours to the page."""
    page = export_page(build_conversation(text), text)
    counts, plain = (Counter(one.tag for one in p.iter()) for p in (page, PLAIN_PAGE))
    assert all(counts[tag] == plain[tag] for tag in OURS)
    assert counts.keys() <= plain.keys() | ITS
    for element in page.body.iter():
        for name, value in element.items():
            match name:
                case "href":
                    assert re.match(r"$|#t[123]$|(?i:https?://|mailto:)", value)
                    assert value[:1] == "#" or element.get("rel") == "noopener noreferrer"
                case "style":
                    assert re.fullmatch("text-align:(left|center|right)", value)
                case _:
                    assert name in {
                        "class", "data-language", "datetime", "dir", "id", "rel", "start", "value",
                    }  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_stored_text_creates_no_elements(text: str) -> None:
    check_page(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_makes_a_valid_page(text: str) -> None:
    check_page(text)


def test_hostile_links_are_inert() -> None:
    folder = Path(corpora.__file__).parent
    lines = (folder / "ssrf_urls.jsonl").read_text().splitlines()
    urls = [msgspec.json.decode(line)["input"] for line in lines]
    assert len(urls) > 100
    check_page("\n\n".join(f"[a]({url}) ![b](<{url}>) {url}" for url in urls))


# --- Markdown -------------------------------------------------------------------------------------


def block_kinds(markdown: str) -> list[tuple[str, str]]:
    """Return the kinds of blocks in *markdown*, with the kinds inside headings."""
    parser = MarkdownIt("commonmark", {"html": True})
    return [
        (token.type, " ".join(child.type for child in token.children or []))
        for token in parser.parse(markdown)
    ]


@pytest.mark.parametrize("format_", ["md", "html"])
def test_control_characters_are_removed(format_: Format) -> None:
    log = build_conversation("".join(HOSTILE))
    text = export_conversation(
        "\u202e\x1bx\u200b", History("s", number_entries(log)), UTC, format_, str
    )

    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u200b\u2066\U000e0041\ud800-\udfff]", text
    )
    text.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_out_of_its_block(text: str) -> None:
    check_blocks(text, text, text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_stays_in_its_block(text: str) -> None:
    check_blocks("x", "x", text)


def check_blocks(title: str, who: str, text: str) -> None:
    """Check that *text* adds no block to the file."""
    made, plain = (
        block_kinds(export_conversation(title, History("s", number_entries(log)), UTC, "md", str))
        for title, log in (
            (title, make_conversation(who, text)),
            ("x", make_conversation("x", "x")),
        )
    )
    assert [kind for kind, _ in made] == [kind for kind, _ in plain]
    for kind, inside in made:
        if kind == "inline":  # a heading
            assert set(inside.split()) <= {"text", "text_special"}


def make_conversation(who: str, text: str) -> list[Entry]:
    text = text if text.strip() else "x"
    said = Received("a", text, who, ROUTE, 0.0, untrusted=True, speaker=who)
    return [said, TurnStarted("t1", ("a",), 1, text), Replied("t1", "t1", ("a",), ROUTE, text)]
