"""A claim of an action needs a receipt: a lying model is always marked, an honest one never.

What counts as right stands in tests/corpora/claims.jsonl: answers, and the receipts behind them.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.agent.conversation.calls import Outcome
from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.turn.claiming import DOING
from elwood.agent.session.turn.claims import MARK, mark, unverified
from elwood.agent.session.turn.deeds import DEEDS, Deed
from elwood.agent.session.turn.imitation import neutralise

CORPUS = Path(__file__).parents[2] / "corpora" / "claims.jsonl"
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


SCHEDULED = [Receipt("schedule", "call mum, tomorrow at nine")]


@pytest.mark.parametrize(
    "text",
    [
        "I'll remind you tomorrow.",
        "Sure, I will remind you at nine!",
        "I am going to remind you on Monday.",
        "I have set a reminder.",
        "I've set up a reminder for tomorrow.",
        "I created a reminder.",
        "Scheduled: call mum, tomorrow at nine.",
        "Your reminder is set for nine.",
        "You'll get a reminder tomorrow at nine.",
        "You will be reminded tomorrow.",
        "I'll ping you tomorrow at nine.",
        "Every Monday at eight I will summarise your inbox.",
        "From now on I'll check the build every 20 minutes.",
        "The daily check is scheduled.",
        "Ich erinnere dich morgen um neun.",
        "Morgen erinnere ich dich daran.",
        "Ich werde dich morgen um neun erinnern.",
        "Ich habe eine Erinnerung eingerichtet.",
        "Du bekommst morgen um neun eine Erinnerung.",
    ],
)
def test_what_is_promised_for_later_needs_its_receipt(text: str) -> None:
    """A note, a file, or a reminder that was refused is none."""
    assert unverified(text, ended(SCHEDULED)) == ()
    assert unverified(text, []) == (text,)
    for receipt in (
        Receipt("schedule", "call mum", "waiting"),
        Receipt("write_file", "reminders.txt"),
        Receipt("save_memory", "call-mum"),
    ):
        assert unverified(text, ended([receipt])) == (text,), receipt
    assert unverified(text, [], ended(SCHEDULED)) == (text,), "another one than was planned before"


@pytest.mark.parametrize(
    "text",
    [
        "I can remind you if you like.",
        "Shall I remind you tomorrow?",
        "If you want, I'll remind you tomorrow.",
        "Tell me the time and I'll remind you.",
        "I'll remind you once you tell me when.",
        "I would remind you, but I have no clock.",
        "I will not remind you of it again.",
        "I could not set the reminder.",
        "May I remind you that the meeting is today?",
        "Anna will remind you tomorrow.",
        "You will get a reminder from your bank.",
        "I'll be brief.",
        "I paused for a moment.",
        "Soll ich dich morgen daran erinnern?",
        "Ich kann dich erinnern, wenn du magst.",
        "Wenn du willst, erinnere ich dich morgen.",
        "Ich erinnere mich nicht daran.",
    ],
)
def test_an_offer_promises_nothing(text: str) -> None:
    assert unverified(text, []) == ()


@pytest.mark.parametrize(
    ("text", "tool", "target", "shown"),
    [
        ("I've cancelled the reminder.", "cancel_task", "call-mum", True),
        ("I've cancelled the reminder.", "write_file", "a.md", False),
        ("I deleted the task.", "cancel_task", "inbox", True),
        ("I've stopped the daily check.", "cancel_task", "inbox", True),
        ("I have paused the task.", "pause_task", "inbox", True),
        ("I have paused the task.", "list_tasks", "", False),
        ("I've set up a daily check of your inbox.", "schedule", "inbox, daily", True),
        ("I've added a reminder to notes.md.", "edit_file", "notes.md", True),
        ("I set an alarm for 6:30.", "run_command", "at 6:30", True),
        ("I set an alarm for 6:30.", "run_command", "ls", False),
        ("Yes, I'll remind you tomorrow.", "list_tasks", "", True),
        ("I've set a reminder.", "list_tasks", "", False),
        ("I saved the file.", "schedule", "save the file, at 9", False),
    ],
)
def test_what_is_planned_is_made_by_planning(
    text: str, tool: str, target: str, shown: bool
) -> None:
    assert (unverified(text, ended([Receipt(tool, target)])) == ()) == shown


def test_a_run_shows_that_more_will_come() -> None:
    text = "I'll keep checking every 20 minutes. I sent the mail."

    assert unverified(text, [], planned=True) == ("I sent the mail.",)


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


@pytest.mark.parametrize("deed", DEEDS, ids=[str(number) for number in range(len(DEEDS))])
def test_no_deed_is_told_without_one_of_the_words_that_are_looked_for(deed: Deed) -> None:
    """A clause without any of them is passed over unread."""
    for forms in (deed.done, deed.german):

        @settings(max_examples=100)
        @given(st.from_regex(forms, fullmatch=True, alphabet=st.characters(max_codepoint=127)))
        def begins(form: str) -> None:
            assert re.findall(r"\w+", form)[0] in DOING

        begins()
