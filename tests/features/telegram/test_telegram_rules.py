"""The fake Bot API refuses the same requests as the real one; no model text causes such a one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from elwood.foundation.text.splitting import parts
from tests.telegram_rules import MAX_TEXT, Rates, is_fault_of_ours, units, wrong, wrong_entities

HELLO = {"chat_id": 1, "text": "hello"}


def bold(offset: int, length: int, kind: str = "bold") -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length}


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({}, None),
        ({"colour": "red"}, "colour"),
        ({"chat_id": "1"}, "chat_id"),
        ({"message_thread_id": True}, "message_thread_id"),
        ({"reply_parameters": {"allow_sending_without_reply": True}}, "message_id"),
        ({"reply_parameters": {"message_id": 1, "text": "x"}}, "text"),
        (
            {"reply_markup": {"inline_keyboard": [[{"text": "a", "callback_data": "é" * 33}]]}},
            "DAT",
        ),
        ({"reply_markup": {"inline_keyboard": [[{"text": "a"}]]}}, "one thing"),
        ({"reply_markup": {"inline_keyboard": [[]]}}, "empty row"),
        ({"reply_markup": {"inline_keyboard": [[{"text": " ", "url": "https://a"}]]}}, "empty"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(more: dict[str, Any], word: str | None) -> None:
    why = wrong("sendMessage", HELLO | more)
    assert why is None if word is None else word in (why or "")


def test_a_request_without_required_fields_is_refused() -> None:
    assert "text" in (wrong("sendMessage", {"chat_id": 1}) or "")


@pytest.mark.parametrize(
    ("entities", "word"),
    [
        ([bold(0, 2), bold(2, 1)], None),
        ([bold(0, 3), bold(2, 1, "italic")], None),
        ([bold(0, 4, "blockquote"), bold(1, 1, "code")], "inside of a character"),
        ([bold(0, 4, "blockquote"), bold(2, 1, "code")], None),
        ([bold(0, 3), bold(2, 2, "italic")], "cross"),
        ([bold(0, 3), bold(2, 1, "code")], "nested"),
        ([bold(0, 3), bold(2, 1)], "nested"),
        ([bold(3, 2)], "bounds"),
        ([bold(0, 0)], "bounds"),
        ([bold(0, 2, "text_link")], "URL"),
        ([bold(0, 2) | {"colour": 1}], "colour"),
    ],
)
def test_formatting_outside_the_text_is_refused(entities: list[Any], word: str | None) -> None:
    why = wrong_entities("😀ab", entities)
    assert why is None if word is None else word in (why or "")


def test_faults_of_ours_are_recognized() -> None:
    assert is_fault_of_ours("Bad Request: message is too long")
    assert is_fault_of_ours("Not Found: method not found")
    assert not is_fault_of_ours("Bad Request: message to edit not found")


def test_flood_control_returns_the_wait() -> None:
    rates = Rates()
    assert [rates.refuse("sendMessageDraft", 1, n / 10) for n in range(20)] == [None] * 20
    assert rates.refuse("sendChatAction", 1, 2.0) == pytest.approx(3.0)
    assert rates.refuse("sendMessage", 1, 2.0) is None  # another budget
    assert rates.refuse("sendMessageDraft", 2, 2.0) is None  # another chat


_WORDS = st.sampled_from(
    ["*", "**", "_", "`", "```", "~~", "||", "> ", "- ", "# ", "[a](https://b.example)", "|a|b|\n",
     "|-|-|\n", "😀", "a b", " ", "\n", "\n\n", "\u200b", "<b>", "&amp;", "1. ", "\\", "x" * 1500]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=30).map("".join), st.sampled_from(["", "footer"]))
def test_no_text_of_a_model_makes_an_invalid_message(text: str, footer: str) -> None:
    for part in parts(text, footer):
        trimmed = part.text.strip()
        assert trimmed
        assert units(trimmed) <= MAX_TEXT
        assert wrong_entities(trimmed, [to_builtins(one) for one in part.entities]) is None
