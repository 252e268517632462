"""Who speaks in a message, in which session, and whether to us."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.telegram.bot_api import MessageEntity, TelegramMessage, TelegramUser
from elwood.features.telegram.reading import Addressed, BotIdentity, identify

GROUP = -100123
US = BotIdentity(
    bot=7,
    username="elwood_bot",
    owners=frozenset({1}),
    groups=frozenset({GROUP, -5}),
    moved={-100999: -5},
)


def message(
    text: str = "x", *, chat: int = 1, sender: int | None = 1, bot: bool = False, **more: Any
) -> Any:
    given = {"message_id": 1, "chat": {"id": chat, "type": "private" if chat > 0 else "group"}}
    given |= {
        "text": text,
        "from": sender and {"id": sender, "first_name": "Ann", "is_bot": bot},
    } | more
    return msgspec.convert(given, TelegramMessage)


def mark(type: str, offset: int, length: int, user: int | None = None) -> MessageEntity:
    return MessageEntity(type, offset, length, None if user is None else TelegramUser(user))


@pytest.mark.parametrize(
    ("text", "marks", "expected"),
    [
        ("hello", (), None),
        ("@elwood_bot hello", (), None),  # a name in the text alone is no mention
        ("@elwood_bot hello", (mark("mention", 0, 11),), "hello"),
        ("@ELWOOD_bot hello", (mark("mention", 0, 11),), "hello"),
        ("@elwood_bot2 hello", (mark("mention", 0, 12),), None),
        ("hey 😀 @elwood_bot go", (mark("mention", 7, 11),), "hey 😀 go"),
        ("Elwood, go", (mark("text_mention", 0, 6, 7),), ", go"),
        ("Elwood, go", (mark("text_mention", 0, 6, 8),), None),
        ("/status@elwood_bot", (mark("bot_command", 0, 18),), "/status"),
        ("/status@other_bot", (mark("bot_command", 0, 17),), None),
        ("/status", (mark("bot_command", 0, 7),), None),
        ("@elwood_bot", (mark("mention", 0, 11),), "@elwood_bot"),
        ("x", (mark("mention", -4, 900),), None),
    ],
)
def test_in_a_group_only_a_real_mention_addresses_us(
    text: str, marks: tuple[MessageEntity, ...], expected: str | None
) -> None:
    found = identify(message(text, chat=GROUP, sender=2, entities=list(marks)), US)
    assert (found.text if isinstance(found, Addressed) else None) == expected


def test_rights_hang_on_the_id_and_never_on_the_name() -> None:
    for sender, is_owner in ((1, True), (2, False)):
        found = identify(message(sender=sender), US)
        assert isinstance(found, Addressed)
        assert (found.principal.name, found.principal.owner) == ("Ann", is_owner)


@pytest.mark.parametrize("author", [7, 8])
def test_an_answer_to_us_is_for_us_and_one_to_others_is_not(author: int) -> None:
    answered = {"message_id": 2, "chat": {"id": GROUP}, "from": {"id": author}}
    reply = message("yes", chat=GROUP, sender=2, reply_to_message=answered)
    assert (identify(reply, US) is not None) == (author == 7)


MARKS = st.builds(
    mark,
    st.sampled_from(["mention", "text_mention", "bot_command", "bold"]),
    st.integers(-5, 40),
    st.integers(-5, 40),
    st.sampled_from([None, 7, 8]),
)


@given(st.text(max_size=30), st.lists(MARKS, max_size=5))
def test_no_marks_break_it_or_add_text(text: str, marks: list[MessageEntity]) -> None:
    found = identify(message(text + "@elwood_bot", entities=marks), US)
    assert isinstance(found, Addressed)
    assert len(found.text) <= len(text) + len("@elwood_bot")
