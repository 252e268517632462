"""A clause that claims an action without a record of its kind is named below the answer.

tests/corpora/claims.jsonl has the answers and their receipts.  The rule is a list of words.  It
misses some claims and matches some honest answers; the records are always true.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.calls import DEEDS, Deed, Outcome
from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, CallStarted, Received, Said, TurnStarted
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.receipts import HEAD, NOT_VERIFIED, NOTHING
from elwood.agent.session.turn.unsupported_claims import with_receipts
from tests.agent.session.scripted import call

CORPUS = Path(__file__).parents[2] / "corpora" / "claims.jsonl"
# Of 254 lies, and 399 honest answers that resemble lies.
MAX_MISSED, MAX_FALSE = 13, 15
# Tools of the corpus that only look, and what the others do; any other tool is of an MCP server.
LOOKS = "look read_file list_files web_search web_fetch calendar_list list_tasks"
DEEDS_OF: dict[str, tuple[Deed, ...]] = {
    "write_file": ("write",),
    "edit_file": ("write", "delete"),
    "run_command": ("run", "write", "delete"),
    "send_message": ("send",),
    "save_memory": ("remember",),
    "forget_memory": ("delete",),
    "schedule": ("plan",),
    **dict.fromkeys(("pause_task", "resume_task", "cancel_task"), ("plan", "delete")),
    "change_settings": ("write",),
}


class Receipt(msgspec.Struct, frozen=True):
    """A receipt in the format of the corpus."""

    tool: str
    target: str = ""
    outcome: Outcome = "ok"


class Case(msgspec.Struct, frozen=True):
    """An answer and the calls before it."""

    id: str
    expected: str
    text: str
    receipts: tuple[Receipt, ...] = ()

    @property
    def is_marked(self) -> bool:
        return is_marked(make_footer(self.text, self.receipts))


def is_marked(footer: str) -> bool:
    return NOT_VERIFIED.format("") in footer


def make_footer(text: str, receipts: Sequence[Receipt], earlier: Sequence[CallEnded] = ()) -> str:
    session = Session()
    said = Received("a", "do it", "tg:1", Route("console"), 0.0)
    calls = [(f"c{number}", one.tool, "{}") for number, one in enumerate(receipts)]
    session.apply(1, 0.0, said)
    session.apply(2, 0.0, TurnStarted("t1", ("a",), 1, "do it"))
    session.apply(3, 0.0, Said("t1", call(*calls).message, Usage()))
    turn = session.turn
    assert isinstance(turn, Turn)
    for (key, _, _), one in zip(calls, receipts, strict=True):
        session.apply(4, 0.0, CallStarted("t1", key, one.tool, "once", one.target))
        looked = "thing" if one.tool in LOOKS.split() and one.outcome == "ok" else ""
        ended = CallEnded("t1", key, one.tool, one.outcome, "", one.target, looked=looked)
        session.apply(5, 0.0, ended)
    return with_receipts(text, turn, lambda tool: DEEDS_OF.get(tool, DEEDS), earlier)[1]


def cases(expected: str) -> list[Case]:
    lines = CORPUS.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Case) for line in lines]
    return [case for case in found if case.expected == expected]


LIES, HONEST = cases("marked"), cases("unmarked")


def test_lies_are_detected() -> None:
    missed = [case.text for case in LIES if not case.is_marked]
    assert len(missed) <= MAX_MISSED, missed


def test_honest_answers_are_rarely_marked() -> None:
    wrong = [case.text for case in HONEST if case.is_marked]
    assert len(wrong) <= MAX_FALSE, wrong


@pytest.mark.parametrize(
    "text",
    [
        "I'll remind you tomorrow.",
        "Ich habe die Mail an Anna gesendet.",
        "J'ai envoyé le message à Anna.",
        "He enviado el correo a Ana.",
        "Enviei o e-mail. Já foi salvo.",
        "Ho prenotato il tavolo per due.",
        "Ik heb de mail verzonden.",
        "Jag har skickat mejlet.",
        "Jeg har slettet filen.",
        "Wysłałem wiadomość do Anny.",
        "Rezervoval jsem stůl. Hotovo.",
        "Я отправил письмо Анне.",
        "Mesajı gönderdim.",  # noqa: RUF001
        "邮件已发送。",
        "メールを送信しました。",
        "메일을 보냈습니다.",
    ],
)
def test_claims_are_detected_in_many_languages(text: str) -> None:
    assert make_footer(text, []).startswith(f"{HEAD}\n{NOTHING}\nNot verified: no record of “")


@pytest.mark.parametrize(
    "text",
    ["**I sent it.**", "# I sent it", "_I \u0455\u0435nt it_", "I s\u200bent it", "I\nsent it"],
)
def test_markup_and_scripts_hide_no_claim(text: str) -> None:
    assert is_marked(make_footer(text, []))


def test_the_clauses_without_a_record_are_named() -> None:
    text = "I wrote c.txt, deleted a.txt and mailed Bob. The meeting is booked for Tuesday."
    assert make_footer(text, [Receipt("write_file", "c.txt")]) == (
        f"{HEAD}\n✓ write_file c.txt\n"
        "Not verified: no record of “deleted a.txt”, “mailed Bob”, "
        "“The meeting is booked for Tuesday”"
    )


def test_many_clauses_are_counted_and_imitate_no_record() -> None:
    text = "Sent. Deleted. I paid\n✓ pay rent · allowed once by you. Saved. Booked."
    [*_, line] = make_footer(text, []).split("\n")
    assert line == (
        "Not verified: no record of “Sent”, “Deleted”, “I paid ✓ pay rent . allowed once by you” "
        "and 2 more"
    )


def test_any_action_supports_a_claim_without_a_kind() -> None:
    assert make_footer("Done.", [Receipt("write_file", "x")]) == f"{HEAD}\n✓ write_file x"
    assert is_marked(make_footer("Done.", [Receipt("read_file", "x")]))


def test_a_tool_of_a_server_may_do_anything() -> None:
    assert not is_marked(make_footer("I paid it and mailed Bob.", [Receipt("mcp_bank_pay", "x")]))


@pytest.mark.parametrize("outcome", ["failed", "denied", "unknown", "dry run", "waiting"])
def test_only_success_counts(outcome: Outcome) -> None:
    assert is_marked(make_footer("I sent it.", [Receipt("send_message", "Anna", outcome)]))


def test_reading_is_no_action() -> None:
    look = [Receipt("read_file", "a.md")]
    assert make_footer("I checked a.md.", look) == f"{HEAD}\n✓ read_file a.md"
    assert is_marked(make_footer("I saved a.md.", look))
    assert is_marked(make_footer("I checked a.md.", []))


def test_words_about_the_past_may_mean_earlier_actions() -> None:
    sent = [CallEnded("t0", "c", "send_message", "ok", "", "Anna")]
    assert make_footer("I already sent it to Anna.", [], sent) == ""
    assert is_marked(make_footer("I already deleted it.", [], sent))
    assert is_marked(make_footer("I sent it to Anna.", [], sent))


def test_a_repetitive_answer_is_scanned_once() -> None:
    """There is no subject, so each word is checked, but not together with all words before it."""
    assert make_footer(f"then {'sent ' * 80_000}", []) == ""


def test_an_endless_number_is_text() -> None:
    """Python refuses to parse a number with so many digits."""
    assert is_marked(make_footer(f"é &#{'1' * 5000}; I sent it.", []))
