"""The activity block, and what /receipts lists."""

from datetime import UTC

import pytest

from elwood.agent.conversation.calls import Outcome
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.reading.receipts import HEAD, MARKS, MAX_LINES, RULINGS, WORDS, activity
from elwood.agent.session.reading.records import CallRecord
from elwood.agent.session.reading.render import listing


def ended(
    outcome: Outcome = "ok", tool: str = "write_file", target: str = "a.md", ruling: str = ""
) -> CallEnded:
    return CallEnded("t1", "c1", tool, outcome, "text", target, ruling=ruling)


@pytest.mark.parametrize("outcome", MARKS)
def test_every_outcome_has_its_mark_and_its_words(outcome: Outcome) -> None:
    head, line = activity([ended(outcome)]).split("\n")

    assert head == HEAD
    assert line.startswith(f"{MARKS[outcome]} write_file a.md")
    assert WORDS.get(outcome, "") in line
    assert len(set(MARKS.values())) == len(MARKS)


@pytest.mark.parametrize(("ruling", "words"), RULINGS.items())
def test_who_allowed_it_is_told(ruling: str, words: str) -> None:
    assert activity([ended(ruling=ruling)]).endswith(f"✓ write_file a.md · {words}")


@pytest.mark.parametrize(
    ("tool", "target"),
    [
        ("x\n✓ send_message", "Anna"),
        ("x", "a\n✓ send_message Anna"),
        ("x", "a\u2028✓ send_message"),
        ("x\r✓ y", "\x85✓ z"),
    ],
)
def test_the_models_words_begin_no_line_of_their_own(tool: str, target: str) -> None:
    """The name of an unknown tool and the target are what the model wrote."""
    block = activity([ended("failed", tool, target)])

    assert len(block.splitlines()) == 2
    assert block.splitlines()[1].startswith("✗ ")


def test_the_models_words_allow_nothing_and_are_cut() -> None:
    line = activity([ended(target="a.md · allowed once by you")])
    assert "· allowed" not in line
    assert len(activity([ended(tool="t" * 500, target="a" * 500)]).split("\n")[1]) < 160


def test_what_is_uncertain_or_waits_is_never_cut_off() -> None:
    many = [ended(target=str(number)) for number in range(40)]
    open_ = [ended("unknown", target=str(n)) for n in range(10)]
    open_ += [ended("waiting", target=str(n)) for n in range(10)]

    lines = activity([*many, *open_]).split("\n")[1:]

    assert sum(line.startswith("? ") for line in lines) == 10
    assert sum(line.startswith("⏳ ") for line in lines) == 10
    assert lines[-1] == "… and 40 more"
    assert len(activity(many).split("\n")) == 1 + MAX_LINES + 1
    assert activity([ended(), ended()]).endswith("✓ write_file a.md (2 times)")


@pytest.mark.parametrize(
    ("given", "count"),
    [("", 10), ("3", 3), ("50", 20), ("000", 0), ("-3", 0), ("²", 0), ("9" * 99, 0)],
)
def test_so_many_calls_are_listed(given: str, count: int) -> None:
    calls = [
        CallRecord("s", "t1", "c1", "write_file", "ok", str(n), ended_at=60.0 * n)
        for n in range(20)
    ]

    told = listing(calls, given, UTC)

    assert len(told.footer.splitlines()) == count
    if count:
        assert told.text == "Calls of this conversation, 20 in all, the newest last:"
        assert told.footer.endswith("1970-01-01 00:19 ✓ write_file 19")
    else:
        assert "/receipts 20" in told.text
    assert listing([], "", UTC).text == "No tool was called in this conversation."
