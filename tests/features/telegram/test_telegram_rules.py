"""The fake Bot API refuses what the real one would, and no text of a model makes us send that."""

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
def test_a_request_is_refused_for_what_is_wrong(more: dict[str, Any], word: str | None) -> None:
    why = wrong("sendMessage", HELLO | more)
    assert why is None if word is None else word in (why or "")


def test_what_is_missing_is_refused() -> None:
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
def test_formatting_is_refused_that_does_not_fit(entities: list[Any], word: str | None) -> None:
    why = wrong_entities("😀ab", entities)
    assert why is None if word is None else word in (why or "")


def test_the_world_may_refuse_and_a_wrong_request_may_not() -> None:
    assert is_fault_of_ours("Bad Request: message is too long")
    assert is_fault_of_ours("Not Found: method not found")
    assert not is_fault_of_ours("Bad Request: message to edit not found")


def test_who_speaks_too_often_is_told_for_how_long_to_wait() -> None:
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
def test_no_text_of_a_model_makes_a_message_that_telegram_refuses(text: str, footer: str) -> None:
    for part in parts(text, footer):
        trimmed = part.text.strip()
        assert trimmed
        assert units(trimmed) <= MAX_TEXT
        assert wrong_entities(trimmed, [to_builtins(one) for one in part.entities]) is None
