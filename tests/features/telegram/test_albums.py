"""Outbox: albums, and rich messages that Telegram renders."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.channels.messages import Attachment, Button, Sent, Unsent, Unsure
from elwood.agent.conversation.route import Route
from elwood.features.telegram.pacing import Pacing
from elwood.foundation.text.markdown import Entity, Rich
from tests.fake_telegram import BROKEN, OWNER, fake_telegram
from tests.features.telegram.neighbours import outbox
from tests.telegram_rules import Rates

PNG = b"\x89PNG\r\n\x1a\n"
NOTE = Attachment("note.txt", b"text")


def pictures(count: int) -> tuple[Attachment, ...]:
    return tuple(Attachment(f"{number}.png", PNG + bytes([number])) for number in range(count))


async def test_pictures_form_albums_of_ten_and_other_files_are_sent_alone() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        part = Rich("all", (Entity("bold", 0, 3),))
        assert await out.post("", part=part, files=(*pictures(12), NOTE)) == Sent("1001:13")
        assert [name for name, _ in fake.calls] == ["sendMediaGroup"] * 2 + ["sendDocument"]
        assert [len(params.get("media", [])) for _, params in fake.calls] == [10, 2, 0]
        assert fake.texts() == ["all", *[""] * 12]
        assert list(fake.files.values()) == [
            (file.name, file.data) for file in (*pictures(12), NOTE)
        ]


async def test_each_picture_of_an_album_counts_in_the_send_budget(jumping_clock: MockClock) -> None:
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.rates = Rates()
        async with outbox(fake, pacing=Pacing()) as out:
            for chat in (OWNER, -1):
                route = Route("telegram", str(chat), private=chat > 0)
                for number in range(3):
                    files = pictures(10 if number else 2)
                    assert isinstance(await out.post(str(number), files=files, route=route), Sent)
        assert len(fake.sent) == 44
        assert not [key for key in fake.counts if "429" in key]


async def test_a_refused_album_arrives_as_files() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        broken = Attachment("b.png", PNG + BROKEN)
        assert isinstance(await out.post("two", files=(*pictures(1), broken)), Sent)
        assert ["document" in message.params for message in fake.sent] == [True, True]
        assert fake.texts() == ["two", ""]


async def test_an_album_has_one_outcome() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendMediaGroup", "lose")
        assert isinstance(await out.post("", files=pictures(2)), Unsure)
        fake.fault("sendMediaGroup", code=413, description="Request Entity Too Large")
        assert isinstance(await out.post("two", files=pictures(2)), Sent)
        assert fake.texts()[2:] == ["two", "", ""]
        assert fake.counts["sendPhoto ok"] == 2  # each alone may be small enough
        assert isinstance(await out.post("", files=pictures(2), buttons=(Button("A", "a"),)), Sent)
        assert fake.sent[-1].buttons == ["a"]


async def test_a_refused_rich_message_is_sent_as_text() -> None:
    table = "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    async with fake_telegram() as fake, outbox(fake) as out:
        given: dict[str, Any] = {"markdown": table, "buttons": (Button("A", "a"),)}
        assert isinstance(await out.post("plain", **given), Sent)
        assert isinstance(await out.post("plain", **given, repeat=True), Sent)
        for code, words in ((400, "Bad Request: PEER"), (404, "Not Found: method not found")):
            fake.fault("sendRichMessage", code=code, description=words)
            assert isinstance(await out.post("plain", **given), Sent)
        assert fake.texts() == [table, f"(again) \n\n{table}", "plain", "plain"]
        assert [message.buttons for message in fake.sent] == [["a"]] * 4


@pytest.mark.parametrize("kind", ["lose", "error", "html", "drop"])
async def test_an_uncertain_rich_message_is_not_sent_as_text(kind: str) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendRichMessage", kind)
        assert isinstance(await out.post("plain", markdown="# T"), Unsure)
        assert not fake.counts["sendMessage ok"]
        fake.port = 9
    async with fake_telegram() as fake:
        fake.port = 9
        async with outbox(fake) as out:
            assert isinstance(await out.post("plain", markdown="# T"), Unsent)
