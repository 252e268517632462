"""The activity block and the list of /receipts."""

from datetime import UTC

import msgspec
import pytest

from elwood.agent.conversation.calls import Outcome
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Entry,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.reading.receipts import HEAD, MARKS, MAX_LINES, RULINGS, WORDS, activity
from elwood.agent.session.reading.records import CallRecord
from elwood.agent.session.reading.render import list_receipts, show_receipt


def make_ended(
    outcome: Outcome = "ok", tool: str = "write_file", target: str = "a.md", ruling: str = ""
) -> CallEnded:
    return CallEnded("t1", "c1", tool, outcome, "text", target, ruling=ruling)


@pytest.mark.parametrize("outcome", MARKS)
def test_every_outcome_has_a_mark_and_a_text(outcome: Outcome) -> None:
    head, line = activity([make_ended(outcome)]).split("\n")

    assert head == HEAD
    assert line.startswith(f"{MARKS[outcome]} write_file a.md")
    assert WORDS.get(outcome, "") in line
    assert len(set(MARKS.values())) == len(MARKS)


@pytest.mark.parametrize(("ruling", "words"), RULINGS.items())
def test_the_approver_is_named(ruling: str, words: str) -> None:
    assert activity([make_ended(ruling=ruling)]).endswith(f"✓ write_file a.md · {words}")


@pytest.mark.parametrize(
    ("tool", "target"),
    [
        ("x\n✓ send_message", "Anna"),
        ("x", "a\n✓ send_message Anna"),
        ("x", "a\u2028✓ send_message"),
        ("x\r✓ y", "\x85✓ z"),
    ],
)
def test_model_text_starts_no_line(tool: str, target: str) -> None:
    """The model wrote the target and the name of an unknown tool."""
    block = activity([make_ended("failed", tool, target)])

    assert len(block.splitlines()) == 2
    assert block.splitlines()[1].startswith("✗ ")


def test_model_text_is_shortened_and_approves_nothing() -> None:
    line = activity([make_ended(target="a.md · allowed once by you")])
    assert "· allowed" not in line
    assert len(activity([make_ended(tool="t" * 500, target="a" * 500)]).split("\n")[1]) < 160


def test_uncertain_and_pending_calls_are_never_cut() -> None:
    many = [make_ended(target=str(number)) for number in range(40)]
    open_ = [make_ended("unknown", target=str(n)) for n in range(10)]
    open_ += [make_ended("waiting", target=str(n)) for n in range(10)]

    lines = activity([*many, *open_]).split("\n")[1:]

    assert sum(line.startswith("? ") for line in lines) == 10
    assert sum(line.startswith("⏳ ") for line in lines) == 10
    assert lines[-1] == "… and 40 more"
    assert len(activity(many).split("\n")) == 1 + MAX_LINES + 1
    assert activity([make_ended(), make_ended()]).endswith("✓ write_file a.md (2 times)")


@pytest.mark.parametrize(("given", "count"), [("", 10), ("page 2", 10), ("page 9", 10), ("x", 0)])
def test_calls_are_listed_in_pages(given: str, count: int) -> None:
    calls = [
        CallRecord("s", "t1", "c1", "write_file", "ok", str(n), ended_at=60.0 * n, number=n)
        for n in range(1, 21)
    ]

    told = list_receipts(calls, given, UTC)

    assert len(told.footer.splitlines()) == count
    if count:
        assert ": 20. The newest is last." in told.text
        last = 20 if not given else 10
        assert told.footer.endswith(f"1970-01-01 00:{last} ✓ write_file {last} · #{last}")
    else:
        assert "/receipts 12" in told.text
    assert list_receipts([], "", UTC).text == "I have not used any tools in this conversation."


def make_numbered(number: int, target: str, looked: str = "", ruling: str = "") -> CallEnded:
    at = 36_000.0 + 60 * number
    call = make_ended(target=target, ruling=ruling)
    return msgspec.structs.replace(call, number=number, at=at, looked=looked)


def test_reads_share_one_line_and_every_line_has_its_number() -> None:
    calls = [make_numbered(n, f"{n}.md", "file") for n in (1, 2, 4)]
    calls += [
        make_numbered(3, "a.md"),
        make_numbered(5, "4.md", "page"),
        make_numbered(6, "1.md", "file"),
    ]

    assert activity(calls, UTC, numbered=True).split("\n")[1:] == [
        "✓ looked at 3 files, 1 page · 10:06 #1-2, 4-6",
        "✓ write_file a.md · 10:03 #3",
    ]
    # A single read is named, and so is an approved one.
    two = [make_numbered(1, "a.md", "file"), make_numbered(2, "b.md", "file", "once")]
    assert activity(two, UTC).split("\n")[1:] == [
        "✓ write_file a.md · 10:01",
        "✓ write_file b.md · allowed once by you · 10:02",
    ]
    many = activity([make_numbered(2 * n, "a.md") for n in range(1, 50)], UTC, numbered=True)
    assert len(many.split("\n")[1]) < 70


def test_an_opened_call_shows_everything_but_secrets() -> None:
    """Also if it waited under another name; its text cannot format the page."""
    route = Route("line")
    calls = (ToolCall("c1", "pay", '{"to": "Ann", "key": "sesam"}'), ToolCall("c2", "look", "{}"))
    said = Assistant(calls, "", "m", msgspec.Raw(b"null"))
    paid = CallEnded(
        "t2", "t1/c1", "pay", "ok", "sesam\n```\npaid", "*Ann*", Label(untrusted=True), "mail",
        "once tg:1", number=7,
    )  # fmt: skip
    found: list[Entry] = [
        TurnStarted("t1", (), 1, "pay"),
        Said("t1", said, Usage()),
        CallPending("t1", "c1", "pay", "hash", "*Ann*"),
        CallEnded("t1", "c1", "pay", "waiting", "", "*Ann*", number=7),
        Replied("t1", "t1", (), route, "It waits."),
        CallDecided("t1", "c1", "hash", "once", "tg:1"),
        TurnStarted("t2", (), 1, "", ("t1/c1",)),
        CallStarted("t2", "t1/c1", "pay", "once", "*Ann*", "hash", "once tg:1"),
        paid,
        CallEnded("t2", "c2", "look", "ok", "", number=8),
    ]
    log: list[tuple[int, float, Entry]] = [(n, float(n), e) for n, e in enumerate(found, 1)]

    told = show_receipt(log, 7, UTC, lambda text: text.replace("sesam", "***"))

    assert told.text == (
        "7: ✓ pay \\*Ann\\* · allowed once by you\n\n"
        "- when: 1970-01-01 00:00:09\n- took: 1.0 s\n"
        "- decided: allowed once by you (tg:1)\n- label: untrusted, from mail\n\n"
        'Arguments:\n```\n{"to": "Ann", "key": "***"}\n```\n\n'
        "Result:\n````\n***\n```\npaid\n````"
    )
    assert told.pages == {"8 →": "/receipts 8"}
    assert "no call" in show_receipt(log, 9, UTC, str).text.lower()
    log[8] = (9, 9.0, msgspec.structs.replace(paid, forgets=True))
    assert "paid" not in show_receipt(log, 7, UTC, str).text
    assert 'Ann"' not in show_receipt(log, 7, UTC, str).text
