"""The format of questions, with any content."""

import re
from datetime import UTC

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.agent.approvals.prompt_text import (
    ENDS,
    MAX_ARGUMENTS,
    answer_of,
    button_pressed,
    buttons,
    details_message,
    format_decision,
    overview,
    request_messages,
)
from elwood.agent.approvals.state import ApprovalRequest, Question
from elwood.agent.conversation.calls import ApprovalScope
from elwood.agent.conversation.route import Route
from elwood.agent.people.text import access_pressed
from elwood.foundation.text.characters import escape_invisible, utf16_length
from elwood.foundation.text.markdown import Rich, mark_repeat
from elwood.foundation.text.splitting import STANDARD
from tests.channels import two_channels
from tests.foundation.text.entity_rules import slice_of

HOME = Route("telegram", "1")
CHANNELS = two_channels(HOME)
# Telegram's limit, in UTF-16 units.
TELEGRAM = 4096
EVIL = st.text(
    st.sampled_from("ab \n\t\u202e\u200b\x1b\0\u3164\ufe0f\U0001f600⟨⟩↵/<*_`"), max_size=40
)
SUBJECTS = st.tuples(EVIL, st.sampled_from([0, 1, 7, 30, 90])).map(lambda t: t[0] * t[1] + t[0])
# A bidi override, a zero-width space, ANSI, a Hangul filler: characters that hide or disguise text.
INVISIBLE = set("\u202e\u200b\x1b\0\u3164\ufe0f")


def make_request(subject: str, id: str = "x" * 22, **more: str) -> ApprovalRequest:
    question = Question(
        session=more.get("session", "tg-1"),
        call="c",
        tool=more.get("tool", "run_command"),
        plan="",
        exact="",
        subject=subject,
        why=more.get("why", "it writes"),
        route=HOME,
        principal="tg:1",
        offered=("conversation", "always", "source"),
        origins=tuple(more.get("origins", "").split("|")),
        arguments=subject[:MAX_ARGUMENTS],
    )
    return ApprovalRequest(0.0, id, "ABC234", question, 300.0)


def check_text(rich: Rich) -> None:
    assert utf16_length(mark_repeat(rich).text) <= TELEGRAM
    assert not INVISIBLE & set(rich.text)
    assert len(rich.entities) <= 100
    for entity in rich.entities:
        assert slice_of(rich, entity)


def join_code(parts: tuple[Rich, ...]) -> str:
    return "".join(slice_of(part, entity) for part in parts for entity in part.entities)


@settings(max_examples=50, deadline=None)
@given(SUBJECTS, EVIL, EVIL)
@example("x" * 5000, "it writes", "a")
def test_a_question_shows_the_call_in_full(subject: str, why: str, origin: str) -> None:
    asked = make_request(
        subject, why=why * 100, origins=f"{origin * 50}|b", session=origin, tool=why
    )
    parts = request_messages(asked, HOME, CHANNELS)
    for part in parts:
        check_text(part)
    shown = escape_invisible(subject) or "(nothing)"
    whole = parts if len(parts) == 1 else parts[:-1]
    assert join_code(whole) == shown
    spans = [slice_of(parts[-1], entity) for entity in parts[-1].entities]
    assert shown.startswith(spans[0])
    assert shown.endswith(spans[-1])
    assert min(map(len, spans)) >= min(ENDS, len(shown))
    if len(parts) > 1:
        assert f"[… {len(shown) - sum(map(len, spans))} characters; " in parts[-1].text
    details = details_message(asked, STANDARD)
    check_text(details)
    assert "/allow ABC234 once" in details.text
    decided = msgspec.structs.replace(asked, ruling="once", by="tg:1")
    settled = format_decision(decided, HOME, CHANNELS, UTC)
    check_text(settled)
    assert settled.text.endswith("\n\n✓ Allowed once by you, Thu 00:00.")
    assert join_code((settled,))[:ENDS] == shown[:ENDS]


@given(st.text(max_size=64))
def test_every_label_and_word_can_be_read(data: str) -> None:
    assert button_pressed(data) is None or data.startswith("a:")
    assert access_pressed(data) is None or data.startswith("p:")
    answer_of(data)


@given(EVIL)
def test_a_label_is_short_and_plain(origin: str) -> None:
    asked = make_request("x", origins=origin)
    scope = ApprovalScope(("k",), f"python3 {origin * 9}", f"run {origin * 99}", " (same files)")
    for question in (asked.question, replace(asked.question, scope=scope)):
        check_label(replace(asked, question=question))


def check_label(asked: ApprovalRequest) -> None:
    check_text(request_messages(asked, HOME, CHANNELS)[-1])
    for one in buttons(asked):
        label, data = one.text, one.data
        assert not INVISIBLE & set(label)
        if asked.question.scope and data[-1] in "ca":
            assert "python3" in label
            assert label.endswith("(same files)")
        assert len(label) <= 40
        assert "\n" not in label
        assert len(data.encode()) <= 64


@given(EVIL)
def test_an_overview_has_one_line_per_question(subject: str) -> None:
    assert overview([make_request(subject)], []).count("\n") == 2


def test_a_question_shortens_reason_and_sources() -> None:
    """Show 60 characters of the tool, 300 of the reason, 80 of each of five sources."""
    sources = ["s" * 200, *"abcdef"]
    asked = make_request("rm -rf /", tool="t" * 100, why="x" * 900, origins="|".join(sources))
    (rich,) = request_messages(asked, HOME, CHANNELS)
    runs = [len(run) for run in re.findall("t{20,}|x{20,}|s{20,}", rich.text)]
    assert runs == [59, 299, 79]  # and an ellipsis
    assert "a, b, c, d and 2 more." in rich.text
