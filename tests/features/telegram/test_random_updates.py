"""Updates of random shapes: every field there, absent, null or of the wrong type; none is fatal."""

import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.people.messages import Known, Stranger
from tests.fake_telegram import BOT, OWNER, fake_telegram
from tests.features.telegram.neighbours import intake

GROUP = -100123
Json = Any

PERSON = {
    "id": OWNER, "is_bot": False, "first_name": "Ann", "last_name": "B", "username": "ann",
    "language_code": "en",
}  # fmt: skip
CHATS = [
    {"id": OWNER, "type": "private", "first_name": "Ann"},
    {"id": GROUP, "type": "supergroup", "title": "G", "is_forum": True},
    {"id": -5, "type": "group", "title": "Old"},
    {"id": -9, "type": "channel", "title": "News"},
]
FILE = {
    "file_id": "f", "file_unique_id": "u", "file_size": 9, "file_name": "a.txt",
    "mime_type": "text/plain", "width": 9, "height": 9, "duration": 3, "thumbnail": {},
}  # fmt: skip
ENTITY = {"type": "mention", "offset": 0, "length": 11, "url": "https://a", "user": PERSON}
QUOTE = {"text": "quoted", "position": 0, "entities": [ENTITY], "is_manual": True}
ORIGIN = {
    "type": "user", "sender_user": PERSON, "sender_user_name": "N", "sender_chat": CHATS[1],
    "chat": CHATS[3], "message_id": 1, "date": 1, "author_signature": "s",
}  # fmt: skip
MARKUP = {"inline_keyboard": [[{"text": "tea", "callback_data": "q:0", "url": "https://a"}]]}
OLD = {"message_id": 4, "date": 1, "chat": CHATS[0], "from": BOT, "text": "Which?"}
MESSAGE: dict[str, Json] = {
    "message_id": 5, "date": 1_790_000_000, "from": PERSON, "sender_chat": CHATS[1],
    "message_thread_id": 9, "is_topic_message": True,
    "reply_to_message": OLD | {"reply_markup": MARKUP}, "external_reply": {"origin": ORIGIN},
    "quote": QUOTE, "via_bot": BOT, "edit_date": 1_790_000_001, "media_group_id": "m",
    "text": "@elwood_bot hi", "entities": [ENTITY], "caption": "look", "caption_entities": [ENTITY],
    "photo": [FILE], "document": FILE, "voice": FILE, "audio": FILE, "video": FILE,
    "video_note": FILE, "animation": FILE, "sticker": FILE | {"emoji": "x"},
    "location": {"latitude": 1.0, "longitude": 2.0, "live_period": 60},
    "venue": {"location": {"latitude": 1.0, "longitude": 2.0}, "title": "t", "address": "a"},
    "contact": {"phone_number": "1", "first_name": "C", "user_id": 3, "vcard": "v"},
    "poll": {"id": "p", "question": "q", "options": [{"text": "o"}]}, "dice": {"emoji": "x"},
    "forward_origin": ORIGIN, "rich_message": {"blocks": [{"type": "paragraph", "text": "x"}]},
    "migrate_to_chat_id": GROUP, "migrate_from_chat_id": -5, "new_chat_members": [BOT],
    "left_chat_member": PERSON, "has_protected_content": True, "reply_markup": MARKUP,
    "forum_topic_created": {"name": "T", "icon_color": 1}, "forum_topic_closed": {},
    "pinned_message": OLD, "show_caption_above_media": True, "is_from_offline": True,
    "ephemeral_message_id": 1, "receiver_user": PERSON, "effect_id": "e",
}  # fmt: skip
AT_ONCE = 500
# Rare fields of a message: without this most would be of one kind.
RARE = MESSAGE.keys() - {"message_id", "date", "from", "text"}
MEMBER = {"user": BOT, "status": "kicked", "until_date": 0, "can_send_messages": False}
KINDS: dict[str, dict[str, Json]] = {
    "message": MESSAGE,
    "edited_message": MESSAGE,
    "channel_post": MESSAGE,
    "guest_message": MESSAGE,
    "callback_query": {
        "id": "q", "from": PERSON, "message": OLD | {"reply_markup": MARKUP}, "data": "q:0",
        "chat_instance": "1", "inline_message_id": "i", "game_short_name": "g",
    },
    "stopped_message_generation": {"chat": CHATS[0], "message_thread_id": 9, "draft_id": 1},
    "my_chat_member": {
        "chat": CHATS[1], "from": PERSON, "date": 1, "old_chat_member": MEMBER,
        "new_chat_member": MEMBER, "invite_link": {}, "via_join_request": True,
    },
    "message_reaction": {
        "chat": CHATS[0], "message_id": 5, "user": PERSON, "actor_chat": CHATS[1], "date": 1,
        "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "x"}],
    },
    "inline_query": {"id": "i", "from": PERSON, "query": "q", "offset": ""},
    "poll_answer": {"poll_id": "p", "user": PERSON, "option_ids": [0]},
    "from_the_future": {"x": 1},
}  # fmt: skip
WRONG: list[Json] = [
    None, "", "x", "\ud83d", "a\0\u202e", 0, -1, 5, 2**31, 2**63, 2**70, -(2**70), 1.5, 1e300, True,
    False, [], {}, [None], [[]], [5], ["x"], [{}], {"id": None}, {"id": "x"}, {"": ""},
    {"id": 2**70},
    {"type": 5}, {"inline_keyboard": [[None]]}, {"inline_keyboard": 5}, {"text": None}, "x" * 5000,
]  # fmt: skip


class Shapes:
    """Makes updates; the same again with the same *seed*."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def update(self) -> dict[str, Json]:
        kinds = self._random.choices(list(KINDS), [10, 4, 1, 1, 3, 2, 3, 2, 1, 1, 1])
        if self._random.random() < 0.05:
            kinds += self._random.choices(list(KINDS))
        return {kind: self._of(kind) for kind in kinds}

    def _of(self, kind: str) -> Json:
        chance = self._random.random
        if chance() < 0.02:
            return self._random.choice(WRONG)
        shape = dict(KINDS[kind])
        if shape.keys() >= {"message_id", "from"}:
            few = chance() < 0.8
            shape = {k: v for k, v in shape.items() if k not in RARE or chance() < 0.05 * (1 + few)}
            shape["chat"] = self._random.choice(CHATS)
            shape["from"] = PERSON | {"id": self._random.choice([OWNER, OWNER, 666])}
        return self._spoilt(shape, self._random.choice([0.0, 0.01, 0.1, 0.5]))

    def _spoilt(self, value: Json, most: float) -> Json:
        chance = self._random.random()
        if chance < most:
            return self._random.choice(WRONG)
        if isinstance(value, dict):
            items = value.items()
            kept = {k: self._spoilt(v, most) for k, v in items if self._random.random() > most}
            return kept | {"unknown": 1} if chance > 0.9 else kept
        if isinstance(value, list):
            return [self._spoilt(one, most) for one in value]
        return value


@pytest.mark.parametrize("seed", [1])
async def test_no_shape_of_an_update_is_fatal_or_blocks_others(
    seed: int, jumping_clock: MockClock, pytestconfig: pytest.Config
) -> None:
    many = pytestconfig.getoption("--updates")
    shapes = Shapes(seed)
    async with fake_telegram() as fake, intake(fake, groups=(GROUP,), owners=(OWNER,)) as house:
        house.meet = lambda meet: Stranger("ABCD2345") if len(house.met) % 2 else Known()
        with trio.fail_after(many):
            for _ in range(many // AT_ONCE):
                for _ in range(AT_ONCE):
                    fake.push(shapes.update())
                await fake.until(lambda: not fake.unconfirmed)
        fake.say("the last word")
        await house.until_text("the last word")
        # Most get no answer; all readable ones were parsed.
        assert len(house.inbound) > many / 20
        assert house.presses
        assert house.moved
        assert house.met
