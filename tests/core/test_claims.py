"""A claim of an action needs a receipt: a lying model is always marked, an honest one never.

What counts as right stands in tests/corpora/claims.jsonl: answers, and the receipts behind them.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from elwood.core.claims import MARK, mark, unverified
from elwood.core.imitation import neutralise
from elwood.core.session import CallEnded, Outcome

CORPUS = Path(__file__).parents[1] / "corpora" / "claims.jsonl"
# Of honest answers, how many may be marked: rules do not understand.
MAX_FALSE = 2


class Receipt(msgspec.Struct, frozen=True):
    """A receipt as the corpus writes it."""

    tool: str
    target: str = ""
    outcome: Outcome = "ok"
    text: str = ""


class Case(msgspec.Struct, frozen=True):
    """An answer, and what tools did."""

    id: str
    expected: str
    text: str
    receipts: tuple[Receipt, ...] = ()
    earlier: tuple[Receipt, ...] = ()

    @property
    def marked(self) -> str:
        """The answer as it would be delivered."""
        return mark(neutralise(self.text), ended(self.receipts), ended(self.earlier))


def ended(receipts: Sequence[Receipt]) -> list[CallEnded]:
    return [
        CallEnded("t1", f"c{number}", one.tool, one.outcome, one.text, one.target)
        for number, one in enumerate(receipts)
    ]


def cases(expected: str) -> list[Case]:
    lines = CORPUS.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Case) for line in lines]
    return [case for case in found if case.expected == expected]


LIES, HONEST = cases("marked"), cases("unmarked")


def test_no_lie_is_left_unmarked() -> None:
    assert len(LIES) >= 30
    assert [case.text for case in LIES if MARK not in case.marked] == []


def test_honest_answers_are_left_alone() -> None:
    assert len(HONEST) >= 60
    wrong = [case.text for case in HONEST if MARK in case.marked]
    assert len(wrong) <= MAX_FALSE, wrong


@pytest.mark.parametrize("case", LIES, ids=lambda case: case.id)
def test_marking_takes_nothing_away(case: Case) -> None:
    text = neutralise(case.text)

    assert case.marked.replace(f" {MARK}", "") == text


def test_each_claiming_sentence_is_marked_where_it_stands() -> None:
    text = "I saved a.md. The sky is blue. I also saved b.md! Fine?"

    assert mark(text, ended([Receipt("write_file", "a.md")])) == (
        f"I saved a.md. The sky is blue. I also saved b.md! {MARK} Fine?"
    )
    assert unverified(text, []) == ("I saved a.md.", "I also saved b.md!")


@pytest.mark.parametrize("outcome", ["failed", "denied", "unknown", "dry run", "waiting"])
def test_only_success_counts(outcome: Outcome) -> None:
    receipt = Receipt("send_message", "Anna", outcome)

    assert MARK in mark("I have sent it.", ended([receipt]))


@pytest.mark.parametrize(
    ("text", "tool", "target", "shown"),
    [
        ("I ran the tests.", "run_command", "make test", True),
        ("I ran the tests.", "write_file", "test.py", False),
        ("I saved it to notes.md.", "edit_file", "notes.md", True),
        ("I saved it to notes.md.", "read_file", "notes.md", False),
        ("I sent it.", "web_request", "POST https://example.org", True),
        ("I sent it.", "run_command", "ls", False),
        ("I sent it.", "run_command", "curl -d @a example.org", True),
        ("I searched the web.", "web_search", "weather", True),
        ("I searched the web.", "save_memory", "weather", False),
        ("I read the file a.md.", "grep", "x in a.md", True),
        ("I booked the table.", "opentable_book", "seven", True),
        ("I booked the table.", "list_events", "today", False),
        ("I sent it to anna@example.org.", "send_message", "anna@example.org", True),
        ("I sent it to anna@example.org.", "send_message", "bob@example.org", False),
        ("I sent it to anna@example.org.", "send_message", "Anna", True),
    ],
)
def test_the_tool_and_its_target_must_fit(text: str, tool: str, target: str, shown: bool) -> None:
    assert (MARK not in mark(text, ended([Receipt(tool, target)]))) == shown


def test_what_was_done_before_may_rest_on_earlier_receipts() -> None:
    earlier = ended([Receipt("send_message", "Anna")])

    assert unverified("I already sent it yesterday.", [], earlier) == ()
    assert unverified("I sent it.", [], earlier) == ("I sent it.",)


@pytest.mark.parametrize(
    "text",
    [
        "**I sent it.**",
        "# I sent it",
        "- I sent it\n",
        "_I \u0455\u0435nt it_",
        "I s\u200bent it",
        "I\nsent it",
    ],
)
def test_markup_and_alphabets_hide_no_claim(text: str) -> None:
    assert MARK in mark(text, [])


def test_a_mark_stands_on_the_line_of_its_claim() -> None:
    assert mark("- I sent it  \n- ok\n", []) == f"- I sent it {MARK}  \n- ok\n"
