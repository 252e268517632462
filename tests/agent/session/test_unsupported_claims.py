"""An answer that claims an action is followed by the records, even if they are empty.

tests/corpora/claims.jsonl has the answers and their receipts.  The rule is a list of words.  It
misses some claims and matches some honest answers; the records are always true.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.calls import Effect, Outcome
from elwood.agent.conversation.message import Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, CallStarted, Received, Said, TurnStarted
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.receipts import HEAD, NOTHING, NOTHING_ELSE
from elwood.agent.session.turn.unsupported_claims import with_receipts
from tests.agent.session.scripted import call

CORPUS = Path(__file__).parents[2] / "corpora" / "claims.jsonl"
# Of about 155 lies, and about 215 honest answers that resemble lies.
MAX_MISSED, MAX_FALSE = 10, 12


class Receipt(msgspec.Struct, frozen=True):
    """A receipt in the format of the corpus."""

    tool: str
    target: str = ""
    outcome: Outcome = "ok"
    text: str = ""


class Case(msgspec.Struct, frozen=True):
    """An answer and the calls before it; no acting call succeeded."""

    id: str
    expected: str
    text: str
    receipts: tuple[Receipt, ...] = ()

    @property
    def is_marked(self) -> bool:
        return make_footer(self.text, self.receipts).endswith((NOTHING, NOTHING_ELSE))


def make_footer(text: str, receipts: Sequence[Receipt], effect: Effect = "pure") -> str:
    """Return the footer of *text* after calls with this *effect*."""
    session = Session()
    said = Received("a", "do it", "tg:1", Route("console"), 0.0)
    calls = [(f"c{number}", one.tool, "{}") for number, one in enumerate(receipts)]
    session.apply(1, 0.0, said)
    session.apply(2, 0.0, TurnStarted("t1", ("a",), 1, "do it"))
    session.apply(3, 0.0, Said("t1", call(*calls).message, Usage()))
    turn = session.turn
    assert isinstance(turn, Turn)
    for (key, _, _), one in zip(calls, receipts, strict=True):
        session.apply(4, 0.0, CallStarted("t1", key, one.tool, effect, one.target))
        ended = CallEnded("t1", key, one.tool, one.outcome, one.text, one.target)
        session.apply(5, 0.0, ended)
    return with_receipts(text, turn)[1]


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
    assert make_footer(text, []) == f"{HEAD}\n{NOTHING}"


@pytest.mark.parametrize(
    "text",
    ["**I sent it.**", "# I sent it", "_I \u0455\u0435nt it_", "I s\u200bent it", "I\nsent it"],
)
def test_markup_and_scripts_hide_no_claim(text: str) -> None:
    assert NOTHING in make_footer(text, [])


@pytest.mark.parametrize("effect", ["keyed", "probe", "once"])
def test_a_successful_action_supports_the_claim(effect: Effect) -> None:
    assert make_footer("Done.", [Receipt("own_tool", "x")], effect) == f"{HEAD}\n✓ own_tool x"


@pytest.mark.parametrize("outcome", ["failed", "denied", "unknown", "dry run", "waiting"])
def test_only_success_counts(outcome: Outcome) -> None:
    assert make_footer("I sent it.", [Receipt("send_message", "Anna", outcome)], "once").endswith(
        f"\n{NOTHING_ELSE}"
    )


def test_reading_is_no_action() -> None:
    look = [Receipt("read_file", "a.md")]
    assert make_footer("I checked a.md.", look) == f"{HEAD}\n✓ read_file a.md"
    assert make_footer("I saved a.md.", look) == f"{HEAD}\n✓ read_file a.md\n{NOTHING_ELSE}"
    assert make_footer("I checked a.md.", []) == f"{HEAD}\n{NOTHING}"


def test_a_repetitive_answer_is_scanned_once() -> None:
    """There is no subject, so each word is checked, but not together with all words before it."""
    assert make_footer(f"then {'sent ' * 80_000}", []) == ""


def test_an_endless_number_is_text() -> None:
    """Python refuses to parse a number with so many digits."""
    assert make_footer(f"é &#{'1' * 5000}; I sent it.", []) == f"{HEAD}\n{NOTHING}"
