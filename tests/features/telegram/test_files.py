"""Outbox: messages with files, their order and their errors."""

import pytest

from elwood.agent.channels.messages import Attachment, Button, Sent, Undeliverable, Unsure
from elwood.agent.conversation.route import Route
from elwood.foundation.text.markdown import Entity, Rich
from tests.fake_telegram import fake_telegram
from tests.features.telegram.neighbours import outbox

A, B = Attachment("a.txt", b"aaa"), Attachment("b.txt", b"bbb")
YES = (Button("Yes", "p:x:y"),)


async def test_a_short_text_is_the_first_caption_and_buttons_are_on_the_last() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        part = Rich("two files", (Entity("bold", 0, 3),))
        assert isinstance(await out.post("", part=part, files=(A, B), buttons=YES), Sent)
        assert [(m.text, m.buttons) for m in fake.sent] == [("two files", []), ("", ["p:x:y"])]
        assert fake.sent[0].params["caption_entities"] == [
            {"type": "bold", "offset": 0, "length": 3}
        ]
        assert list(fake.files.values()) == [("a.txt", b"aaa"), ("b.txt", b"bbb")]


@pytest.mark.parametrize(("length", "under"), [(1024, True), (1025, False)])
async def test_a_long_text_is_sent_before_the_files(length: int, under: bool) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        assert isinstance(await out.post("x" * length, files=(A,)), Sent)
        assert [bool(m.text) for m in fake.sent] == ([True] if under else [True, False])
        assert len(fake.files) == 1


async def test_a_repeat_without_a_text_is_marked() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        await out.post("", files=(A,), repeat=True)
        assert fake.texts() == ["(again)"]


async def test_adapted_options_also_apply_to_files() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.moved[-5] = -100
        fake.fault("sendDocument", code=400, description="Bad Request: can't parse entities: x")
        part = Rich("text", (Entity("bold", 0, 4),))
        group = Route("telegram", "-5", private=False)
        assert isinstance(await out.post("", part=part, files=(A, B), route=group), Sent)
        assert [(m.chat, "caption_entities" in m.params) for m in fake.sent] == [(-100, False)] * 2


async def test_a_refused_long_caption_becomes_a_text() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendDocument", code=400, description="Bad Request: message caption is too long")
        assert isinstance(await out.post("text", files=(A,)), Sent)
        assert [(m.text, "document" in m.params) for m in fake.sent] == [
            ("text", False),
            ("", True),
        ]


async def test_a_file_too_large_for_telegram_is_reported_with_the_rest() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendDocument", times=9, code=413, description="Request Entity Too Large")
        outcome = await out.post("text", files=(A,))
        assert isinstance(outcome, Undeliverable)
        assert outcome.why.endswith("a part of it arrived")
        assert fake.texts() == ["text"]
        outcome = await out.post("", files=(A,))
        assert isinstance(outcome, Undeliverable)
        assert "a part" not in outcome.why


@pytest.mark.parametrize("kind", ["lose", "drop", "html", "error"])
async def test_a_file_with_an_unknown_outcome_is_not_sent_again(kind: str) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendDocument", kind)
        assert isinstance(await out.post("text", files=(A, B)), Unsure)
        assert len(fake.files) == (kind == "lose")
