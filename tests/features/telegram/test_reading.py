"""Who speaks in a message, in which session, and whether to us."""

from typing import Any

import msgspec
import pytest

from elwood.features.telegram.bot_api import TelegramMessage
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", None),
        ("@elwood_bot hello", "hello"),
        ("@ELWOOD_bot hello", "hello"),
        ("@elwood_bot2 hello", None),
        ("mail a@elwood_bot.example", None),
        ("hey 😀 @elwood_bot go", "hey 😀 go"),
        ("/status@elwood_bot", "/status"),
        ("well, /stop@elwood_bot now", "well, /stop now"),
        ("/status@other_bot", None),
        ("/status", None),
        ("@elwood_bot", "@elwood_bot"),
    ],
)
def test_in_a_group_only_our_name_addresses_us(text: str, expected: str | None) -> None:
    found = identify(message(text, chat=GROUP, sender=2), US)
    assert isinstance(found, Addressed)
    assert (found.text if found.for_us else None) == expected


def test_rights_hang_on_the_id_and_never_on_the_name() -> None:
    for sender, is_owner in ((1, True), (2, False)):
        found = identify(message(sender=sender), US)
        assert isinstance(found, Addressed)
        assert (found.principal.name, found.principal.owner) == ("Ann", is_owner)


@pytest.mark.parametrize("author", [7, 8])
def test_an_answer_to_us_is_for_us_and_one_to_others_is_not(author: int) -> None:
    answered = {"message_id": 2, "chat": {"id": GROUP}, "from": {"id": author}}
    reply = message("yes", chat=GROUP, sender=2, reply_to_message=answered)
    found = identify(reply, US)
    assert found is not None
    assert found.for_us == (author == 7)
