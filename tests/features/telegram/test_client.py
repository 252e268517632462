"""Tolerant parsing of the Bot API, and the fake API."""

import json
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.features.telegram.bot_api import UnreadableUpdate, Update, read_updates
from elwood.features.telegram.client import Bot, TelegramError, remedy
from elwood.features.telegram.reading import (
    BotIdentity,
    format_text,
    has_foreign_text,
    identify,
    identify_press,
    name_of,
    order_of,
    question_text,
    quote,
    route_of,
)
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.text.markdown import Entity
from tests.fake_telegram import OWNER, TOKEN, FakeTelegram, fake_telegram

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=3,
)
FIELDS = st.sampled_from(
    [*Update.__struct_fields__, "text", "from", "chat", "photo", "quote", "entities", "id", "date"]
)
US = BotIdentity(bot=1, username="b", owners=frozenset({OWNER}))


@given(st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON)), st.integers(0, 2**31))
@settings(max_examples=50)
def test_a_bad_update_does_not_affect_others(strange: dict[str, Any], number: int) -> None:
    good = {"update_id": 1, "message": FakeTelegram().message("good")}
    batch = [strange | {"update_id": number}, good, strange]
    updates = read_updates(json.dumps(batch).encode())
    assert updates is not None
    assert updates[0].update_id == number
    assert isinstance(updates[1], Update)
    assert updates[1].message is not None
    assert updates[1].message.text == "good"
    for update in updates:
        order_of(update)
        message = update.message if isinstance(update, Update) else None
        query = update.callback_query if isinstance(update, Update) else None
        if query is not None and query.message is not None:
            identify_press(query, query.message, US)
        if message is not None:
            identify(message, US)
            has_foreign_text(message, US), question_text(message)
            quote(message), format_text(message, ""), route_of(message)
            if message.has_file and (file := message.file) is not None:
                name_of(message, file)


def test_an_update_without_an_id_is_skipped() -> None:
    assert read_updates(b'[7, {"update_id": "x"}, {"update_id": 3, "message": []}]') == [
        UnreadableUpdate(3, "$.message")
    ]
    assert read_updates(b"{}") is None
    assert read_updates(b"nonsense") is None


async def test_send_message_sends_the_parameters_of_the_api() -> None:
    async with fake_telegram() as fake, aclosing(Client()) as client:
        bot = Bot(TelegramSettings(token=Secret(TOKEN), base_url=fake.url + "/"), client)
        buttons = [("Yes", "a"), ("Perhaps", "b"), ("No", "c")]
        bold = (Entity("bold", 3, 4),)
        await bot.send_message(OWNER, "😀 bold", bold, reply_to=5, buttons=buttons, silent=True)
        sent = fake.sent[0].params
        assert sent["link_preview_options"] == {"is_disabled": True}
        assert sent["reply_parameters"]["allow_sending_without_reply"]
        assert sent["disable_notification"]
        rows = sent["reply_markup"]["inline_keyboard"]
        assert [[button["text"] for button in row] for row in rows] == [["Yes", "Perhaps"], ["No"]]
        await bot.answer_callback_query(fake.press("x"), "y" * 300)
        for inside in (Entity("bold", 1, 1), Entity("bold", 0, 99), Entity("huge", 0, 2)):
            with pytest.raises(TelegramError) as raised:
                await bot.send_message(OWNER, "😀", (inside,))
            assert remedy(raised.value) == "plain"
        assert len(fake.violations) == 3
        fake.violations.clear()
