"""The Bot API's forms, read tolerantly, and the fake that stands in for it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.features.telegram.bot_api import UnreadableUpdate, Update, read_updates
from elwood.features.telegram.client import Bot, TelegramError, remedy
from elwood.features.telegram.feature import TelegramSettings
from elwood.features.telegram.reading import (
    BotIdentity,
    asked,
    identify,
    identify_press,
    order_of,
    quote,
    route_of,
    said,
    says_others_words,
    unsupported,
)
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
def test_no_update_is_fatal_to_another(strange: dict[str, Any], number: int) -> None:
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
            says_others_words(message, US), asked(message)
            quote(message), unsupported(message), said(message, ""), route_of(message)


def test_an_update_without_an_id_is_passed_over() -> None:
    assert read_updates(b'[7, {"update_id": "x"}, {"update_id": 3, "message": []}]') == [
        UnreadableUpdate(3, "$.message")
    ]
    assert read_updates(b"{}") is None
    assert read_updates(b"nonsense") is None


@pytest.mark.parametrize(
    ("code", "description", "expected"),
    [
        (400, "Bad Request: chat not found", "nobody"),
        (400, "Bad Request: PEER_ID_INVALID", "nobody"),
        (400, "Bad Request: message is too long", "split"),
        (400, "Bad Request: message text is empty", "nobody"),
        (400, "Bad Request: message to be replied not found", "no reply"),
        (400, "Bad Request: message thread not found", "no topic"),
        (400, "Bad Request: TOPIC_CLOSED", "no topic"),
        (400, "Bad Request: anything else", "plain"),
        (401, "Unauthorized", "no access"),
        (403, "Forbidden: bot can't initiate conversation with a user", "nobody"),
        (404, "Not Found", "no access"),
        (413, "Request Entity Too Large", "split"),
        (429, "Too Many Requests: retry after 3", "wait"),
        (500, "Internal Server Error", "unknown"),
        (502, "an answer that is not the Bot API's", "unknown"),
        (200, "an answer that cannot be read", "unknown"),
    ],
)
def test_each_refusal_has_its_remedy(code: int, description: str, expected: str) -> None:
    error = TelegramError("sendMessage", code, description)
    assert remedy(error) == expected


async def test_the_real_calls_pass_the_fakes_checks() -> None:
    async with fake_telegram() as fake:
        client = Client()
        bot = Bot(TelegramSettings(token=Secret(TOKEN), base_url=fake.url + "/"), client)
        assert (await bot.get_me()).username == "elwood_bot"
        number = await bot.send_message(
            OWNER,
            "😀 bold",
            (Entity("bold", 3, 4),),
            reply_to=5,
            buttons=[("Yes", "a"), ("Perhaps", "b"), ("No", "c")],
            silent=True,
        )
        sent = fake.sent[0].params
        assert sent["link_preview_options"] == {"is_disabled": True}
        assert sent["reply_parameters"]["allow_sending_without_reply"]
        assert sent["disable_notification"]
        rows = sent["reply_markup"]["inline_keyboard"]
        assert [[button["text"] for button in row] for row in rows] == [["Yes", "Perhaps"], ["No"]]
        await bot.edit_message_text(OWNER, number, "new", (Entity("bold", 0, 3),))
        await bot.edit_message_reply_markup(OWNER, number)
        await bot.edit_message_reply_markup(OWNER, number)  # not modified: well
        await bot.send_message_draft(OWNER, 3, "", topic=4)
        await bot.send_chat_action(OWNER)
        await bot.answer_callback_query(fake.press("x"), "y" * 300)
        await bot.set_my_commands({"new": "Begin anew"})
        fake.webhook = "https://example.org"
        assert (await bot.get_webhook_info()).url == "https://example.org"
        await bot.delete_webhook()
        assert not fake.webhook
        (update,) = await bot.get_updates(None, wait=0)
        assert isinstance(update, Update)
        assert await bot.get_updates(update.update_id + 1, wait=0) == []
        for inside in (Entity("bold", 1, 1), Entity("bold", 0, 99), Entity("huge", 0, 2)):
            with pytest.raises(TelegramError) as raised:
                await bot.send_message(OWNER, "😀", (inside,))
            assert remedy(raised.value) == "plain"
        await client.aclose()
